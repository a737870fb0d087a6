// The buttons that undo, purge or release a run: they trigger the DAG that the page names, with the person's rights.

import { airflow, confirmed, refused, runPath } from "./airflow.js";

function say(text, dag, run) {
  const place = document.getElementById("ended");
  place.textContent = text;
  place.dataset.hold = "";
  if (!run) return;
  const link = document.createElement("a");
  link.href = `../dags/${encodeURIComponent(dag)}/runs/${encodeURIComponent(run)}`;
  link.dataset.out = "";
  link.textContent = "Its run in Airflow";
  place.append(" ", link);
}

async function end(button, { end: by, dag, run, name, digest }) {
  const { verb, what, yes, key = digest.slice(0, 16) } = button.dataset, released = verb === "release";
  const sure = await confirmed(document.getElementById("end-dialog"), {
    head: `${button.textContent.trim()}?`,
    what,
    yes,
    digits: verb === "purge" ? digest.slice(0, 8) : "",
  });
  if (!sure) return say("Nothing was done.");
  // The same click again has the same id, and Airflow makes no second run.
  const id = `${verb}__${dag}__${name}__${key}`;
  const made = await airflow("POST", `dags/${encodeURIComponent(by)}/dagRuns`, {
    dag_run_id: id,
    logical_date: null,
    conf: { verb, of_dag: dag, of_run: run, ...(released ? {} : { digest }), need_approval: false }, // the dialog has asked
  });
  if (made.status === 409) {
    const known = await airflow("GET", runPath(by, id));
    return say(`Already asked: that run is ${known.body.state ?? "known to Airflow"}. Nothing more was done. (409)`, by, id);
  }
  if (made.status === 404) return say(`Airflow does not know the DAG ${by}. Nothing was done. (404)`);
  if (made.status !== 200 && made.status !== 201) return say(refused(made, `trigger ${by}`));
  const known = await airflow("GET", `dags/${encodeURIComponent(by)}`);
  const paused = known.body.is_paused ? ` The DAG ${by} is paused: it begins when somebody unpauses it.` : "";
  say(`Asked: ${verb} of ${released ? run : digest.slice(0, 8)}.${paused}`, by, id);
}

addEventListener("click", async (event) => {
  const button = event.target.closest("#end button[data-verb]");
  if (!button || button.disabled) return;
  button.disabled = true;
  try {
    await end(button, button.closest("#end").dataset);
  } finally {
    button.disabled = false;
  }
});
