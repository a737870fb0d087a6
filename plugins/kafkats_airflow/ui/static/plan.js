// The buttons that answer the question about a plan. The answer names the digest that is shown.

import { airflow, confirmed, ours, refused, runPath } from "./airflow.js";

const POLL_MS = 2000;
const POLLS = 30;
/** The states of a task that waits for an answer: the second one before Airflow 3.3. */
const WAITING = ["awaiting_input", "deferred"];

function say(text) {
  document.getElementById("said").textContent = text;
  return false;
}

/** Returns whether Airflow has taken the answer. */
async function answer(button) {
  const { dag, run, task, digest } = document.getElementById("question").dataset;
  const option = button.dataset.option;
  if ("confirm" in button.dataset) {
    const sure = await confirmed(document.getElementById("answer-dialog"), {
      head: `${option}?`,
      what: `${button.textContent.trim()}. The answer counts for digest ${digest.slice(0, 16)} only.`,
      yes: option,
    });
    if (!sure) return say("Nothing was answered.");
  }
  const query = { dag_id: dag, run_id: run, digest };
  const open = await ours("data/question", query);
  if (open.status !== 200)
    return say(open.body.detail ? `${open.body.detail} (${open.status})` : refused(open, "see this question"));
  const path = `${runPath(dag, run)}/taskInstances/${encodeURIComponent(task)}`;
  const now = await airflow("GET", path);
  if (now.status !== 200) return say(refused(now, "see this run"));
  if (!WAITING.includes(now.body.state))
    return say(`This run was cleared since, or goes on already: its task is ${now.body.state ?? "not begun"}. Nothing was answered. (409)`);
  const given = await airflow("PATCH", `${path}/-1/hitlDetails`, { chosen_options: [option], params_input: { digest } });
  if (given.status === 409) return say("Somebody answered before you. Nothing was done. (409)");
  if (given.status !== 200) return say(refused(given, "answer this question"));
  say(`Airflow has the answer: ${option}. The task records it.`);
  await recorded(query, option);
  return true;
}

/** Wait until the task has recorded the answer, and say what it recorded. */
async function recorded(query, option) {
  for (let n = 0; n < POLLS; n++) {
    await new Promise((resolve) => setTimeout(resolve, POLL_MS));
    const left = await ours("data/question", query);
    if (left.status === 409) return say(left.body.detail);
  }
  say(`Airflow has the answer: ${option}. The task has not recorded it yet; load the page again.`);
}

document.getElementById("answers")?.addEventListener("click", async (event) => {
  const button = event.target.closest("button[data-option]");
  if (!button || button.disabled) return;
  const buttons = [...document.querySelectorAll("#answers button")];
  for (const one of buttons) one.disabled = true;
  say("");
  if (!(await answer(button))) for (const one of buttons) one.disabled = false;
});
