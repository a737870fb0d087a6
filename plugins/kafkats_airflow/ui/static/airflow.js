// Airflow's own REST, called with the person's cookie: rights, audit and refusals are Airflow's.

const API = new URL("../api/v2/", location.href);

/** Send a request to Airflow. Returns {status, body}; status 0 if Airflow did not answer. */
export async function airflow(method, path, body) {
  try {
    const answer = await fetch(new URL(path, API), {
      method,
      headers: body ? { "content-type": "application/json" } : {},
      body: body ? JSON.stringify(body) : undefined,
    });
    return { status: answer.status, body: await answer.json().catch(() => ({})) };
  } catch {
    return { status: 0, body: {} };
  }
}

/** Read data of a page of ours. Returns {status, body} too. */
export async function ours(path, query) {
  try {
    const answer = await fetch(`${path}?${new URLSearchParams(query)}`);
    return { status: answer.status, body: await answer.json().catch(() => ({})) };
  } catch {
    return { status: 0, body: {} };
  }
}

/** The path of a DAG run in Airflow's REST. */
export function runPath(dag, run) {
  return `dags/${encodeURIComponent(dag)}/dagRuns/${encodeURIComponent(run)}`;
}

/** What a refusal says, in words. */
export function refused({ status, body }, what) {
  const detail = typeof body.detail === "string" ? body.detail : "";
  if (status === 401) return "You are not signed in any more. Nothing was done.";
  if (status === 403) return `You may not ${what}. Nothing was done. (403) ${detail}`.trim();
  if (status === 0) return "Airflow did not answer. Load the page again to see what was done.";
  return `Airflow refused (${status}). Nothing was done. ${detail}`.trim();
}

/** Ask in a dialog of the page: confirm() does nothing in Airflow's frame. With `digits` the person
 * types them. Returns whether it was confirmed. */
export function confirmed(dialog, { head, what, yes, digits }) {
  const button = dialog.querySelector(".yes");
  const typed = dialog.querySelector(".typed");
  const box = typed.querySelector("input");
  dialog.querySelector("h2").textContent = head;
  dialog.querySelector(".what").textContent = what;
  button.textContent = yes;
  typed.hidden = !digits;
  box.value = "";
  const check = () => { button.disabled = Boolean(digits) && box.value.trim().toLowerCase() !== digits; };
  box.oninput = check;
  check();
  dialog.returnValue = "no";
  dialog.showModal();
  return new Promise((resolve) => {
    dialog.addEventListener("close", () => resolve(dialog.returnValue === "yes" && !button.disabled), { once: true });
  });
}
