"""Makes docs/DAGs.md from the docstrings of dags/: each is its DAG's runbook. With --check only compares.

python docs/dags_page.py [--check]
"""

from __future__ import annotations

import ast
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "DAGs.md"
HEAD = """\
# The DAGs

Made from the docstrings of `dags/` by `docs/dags_page.py`; change those, then run `scripts/lint --fix`.

## Settings of a deployment

Environment variables of the scheduler, the DAG processor and every worker; restart these after a change. A value that cannot be read
breaks no import: every task fails and says which value it is.

| variable | default | meaning |
|---|---|---|
| `KAFKATS_POLICY` | `/etc/kafkats/policy.yaml` | default of the param `policy` |
| `KAFKATS_FOLDER` | `/var/lib/kafkats` | default of the param `folder`; every Spark driver sees it at this path |
| `KAFKATS_RETENTION` |  | `apply`: retention and rolling write by default |
| `KAFKATS_TIMEOUTS` | `job=12h approval=24h guards=12h canary=7d` | how long a task that submits to Spark may run, and how long a question waits: for a plan, for what a guard keeps, for a canary. What is not named keeps its default |
| `KAFKATS_POOL` | `default_pool` | the pool of every task that submits to Spark. Its slots bound how many run at once; an open question takes none. Make it first: `airflow pools set NAME SLOTS TEXT` |
| `KAFKATS_APPROVERS` |  | who approves, such as `alice,bob`; see below |
| `KAFKATS_UNDO_DAYS_FLOOR` | `7` | with approvers: the least `undo_days` |

After the time limit of a job its JVM, its driver and their Python processes are killed. Clear the task to go on with what is left.

**Failures.** The first line of a failed task says what, where and why, and what to do. `report.json` repeats it in `failures`, and the
failed `report` task begins with it. What only a person can mend (the policy, a volume, a connection, the folder) is not tried again.
`remarks` in `report.json` are no failures, such as a glob over topics that no topic comes under.

**Forms.** A box without a red star may stay empty; a box that was written in and cleared is as if it had stayed empty. Nothing that is
written into a form, a run id or a note is a template: `{{ conn.x.password }}` is handed on letter by letter
([why](decisions/templates.md)).

**Times.** Every time needs its offset from UTC (`2026-01-31T10:00:00Z`). A run of the schedule, and of a backfill, decides for the end of
its data interval. A run that was triggered decides for when it was triggered (its `run_after`), whatever logical date the form filled in,
unless `as_of` is given.

## Who may write

Without `KAFKATS_APPROVERS`, **whoever may trigger a DAG may write**: `need_approval`, `dry_run`, `policy`, `folder` and `undo_days` are
params of the run. The question before a change protects from mistakes, not from people. Give the permission to trigger these DAGs
to those who may change the volumes.

With `KAFKATS_APPROVERS="alice,bob"`, triggering is not enough. Names are those of Airflow's users; where an auth manager's ids are not
names (FAB), write `ID:NAME`. Every task checks the following on the worker, and the Spark job checks the answer's record again:

- Nothing is written without the yes of an approver to the digest of that plan, whatever `need_approval` says. Only approvers are asked, and
  an answer of anybody else is refused.
- `policy` and `folder` are `KAFKATS_POLICY` and `KAFKATS_FOLDER`, letter by letter. `ledger` and `tables` lie in that folder.
- The guards of the policy cannot be lifted: nobody is asked to.
- `undo_days` is not below `KAFKATS_UNDO_DAYS_FLOOR`.
- `attested_by` is the user who triggered the run.
- A submit has no words, paths and connections but those that the DAGs, the policy and the folder give.
- An Airflow in which everybody is an admin (`simple_auth_manager_all_admins`) runs nothing.

This does not protect from who can log in on a worker, write in the folder, edit the policy or the DAGs, or change Airflow's connections and
database. What tasks hand to each other (XComs) is believed where it only goes into reports, tables and a migration's ledger.
"""


def page() -> str:
    """The whole page."""
    return "\n".join([HEAD, *(section(path) for path in sorted((ROOT / "dags").glob("*.py")))])


def section(path: Path) -> str:
    """One DAG: its docstring, then what can be set when it is triggered."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    prose = (ast.get_docstring(tree) or "").replace("### ", "## ", 1)
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)]
    dag = next(call for call in calls if call.func.id == "DAG")
    given = {keyword.arg: keyword.value for keyword in dag.keywords}
    facts = f"DAG `{ast.literal_eval(dag.args[0])}`, schedule `{ast.unparse(given['schedule'])}`, `dags/{path.name}`"
    rows = [row(key.value, value) for key, value in zip(given["params"].keys, given["params"].values, strict=True)]
    return "\n".join([prose, "", facts, "", "| param | default | meaning |", "|---|---|---|", *rows, ""])


def row(name: str, param: ast.Call) -> str:
    given = {keyword.arg: ast.literal_eval(keyword.value) for keyword in param.keywords}
    if not param.args:
        default = "to be given"
    else:
        default = "" if isinstance(param.args[0], ast.Name) else f"`{ast.unparse(param.args[0])}`"
    meaning = given.get("description", "")
    if choices := given.get("enum"):
        meaning += f" ({', '.join(map(str, choices))})"
    return f"| `{name}` | {default} | {meaning} |"


def main() -> int:
    made = page()
    if "--check" not in sys.argv[1:]:
        PAGE.write_text(made, encoding="utf-8")
    elif not PAGE.exists() or PAGE.read_text(encoding="utf-8") != made:
        print("docs/DAGs.md is not what the docstrings say: run scripts/lint --fix", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
