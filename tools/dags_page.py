"""Makes docs/DAGs.md from the docstrings of kafkats_airflow.dags and the forms of the DAGs. With --check only compares.

python tools/dags_page.py [--check]
"""

from __future__ import annotations

import ast
import os
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
for name in [name for name in os.environ if name.startswith("KAFKATS_")]:
    del os.environ[name]  # the page has the defaults of a deployment that sets nothing
sys.path[:0] = [str(ROOT), str(ROOT / "plugins")]

from kafkats_airflow.forms.boxes import Box, boxes  # noqa: E402
from kafkats_airflow.forms.catalogue import form_of  # noqa: E402
from pages import write_or_compare  # noqa: E402

from kafkats.config.option import REQUIRED  # noqa: E402

PAGE = ROOT / "docs" / "DAGs.md"
HEAD = """\
# The DAGs

For operators who deploy, trigger and supervise the DAGs: settings, permissions, and a runbook with
the params of each DAG. The runbooks are made from the docstrings of `kafkats_airflow.dags` by `tools/dags_page.py`;
change those, then run `scripts/lint --fix`.

## Settings of a deployment

These are environment variables of the scheduler, the DAG processor and every worker. Restart them
after a change. A wrong value does not break the import of the DAGs: every task fails and names the
value.

| variable | default | meaning |
|---|---|---|
| `KAFKATS_POLICY` | `/etc/kafkats/policy.yaml` | default of the param `policy` |
| `KAFKATS_FOLDER` | `/var/lib/kafkats` | default of the param `folder`; every Spark driver needs it at this path |
| `KAFKATS_RETENTION` |  | `apply`: retention and rolling write by default |
| `KAFKATS_CLEAN_REPORTS` |  | `apply`: `clean_reports` removes folders by default |
| `KAFKATS_DEADLINES` |  | such as `apply_retention=6h`: alerts for runs that are late ([operating.md](operating.md)) |
| `KAFKATS_NOTIFIER` |  | what is called for runs that failed or are late, as `package.module.name` |
| `KAFKATS_OVERDUE` | `36h` | pages call a log directory overdue that no run has seen for so long |
| `KAFKATS_METRICS_TOKEN`, `KAFKATS_METRICS_TOKEN_FILE` |  | the token of the metrics, or the file with it; none: no metrics ([operating.md](operating.md)) |
| `KAFKATS_METRICS_FILE` |  | a text file `*.prom` with the metrics |
| `KAFKATS_METRICS_PARTITIONS` |  | `on`: metrics of each partition, too |
| `KAFKATS_TIMEOUTS` | `job=12h approval=24h guards=12h canary=7d` | time limits: `job` of a task that submits to Spark; `approval`, `guards`, `canary` of a question about a plan, about what a guard keeps, about a canary. A missing one keeps its default |
| `KAFKATS_POOL` | `default_pool` | the pool of every task that submits to Spark. Its slots limit how many run at once; an open question takes none. Create it first: `airflow pools set NAME SLOTS TEXT` |
| `KAFKATS_APPROVERS` |  | who approves, such as `alice,bob`; see below |
| `KAFKATS_UNDO_DAYS_FLOOR` | `7` | with approvers: the smallest allowed `undo_days` |
| `KAFKATS_JOB_PYTHON` | `PYSPARK_PYTHON`, or Airflow's own | the Python of the Spark jobs; it has `kafkats[spark]` |
| `KAFKATS_TABS` |  | `off`: no tabs of kafkats on the DAGs and runs of this Airflow |
| `KAFKATS_SPARK_JOBS` | those of the package | folder of the scripts that are submitted to Spark, if workers do not see the package at the same path |

After a job's time limit its JVM, its driver and their Python processes are killed. Clear the task
to continue with the rest.

**Failures.** The first line of a failed task says what failed, where and why, what to do, and whether another try can help. It names params, not
options of commands.
`report.json` repeats it in `failures`, and the failed `report` task begins with it. Failures that
only a person can correct (the policy, a volume, a connection, the folder) are not retried. `remarks`
in `report.json` are no failures, such as a glob that matches no topic.

**Clearing a run** makes a new plan and asks again. `report.json` names the RUNs of all tries, and
`verify` proves all of them. The answer to a question is a file in the run's folder that names the
digests of the approved plans. `apply` writes nothing else, also after *Mark success* on `approve`
([folders, answers and tries](decisions/dag-runs.md)).

**Forms.** The form of a DAG that writes begins with `dry_run` and `need_approval`, and says what a run
with its defaults does. A box without a red star may stay empty. A box that was filled in and cleared
counts as empty. Three sections are closed at first: what deletes or loses more, each box with what
is lost; what most runs leave as it is; files and folders, which a deployment sets. A box with suggestions takes any text, too. The topics and volumes
of the policy that `KAFKATS_POLICY` names are suggested, if the DAG processor can read it
([how](decisions/forms.md)). Text in a form, a run id or a note is never rendered as a template: `{{ conn.x.password }}`
is passed on literally ([why](decisions/templates.md)).

**Times.** Every time needs its offset from UTC (`2026-01-31T10:00:00Z`). A scheduled run and a
backfill decide for the end of their data interval. A run that was triggered by hand decides for the
time of triggering (its `run_after`), whatever logical date the form filled in, unless `as_of` is
given.

## A second set of DAGs

`kafkats_dags("apply_retention", "end_run")` builds only these DAGs. Another set, for another policy,
needs a prefix for its ids and assets. With a `folder` of its own it is a set on the pages, too:
each page shows one, and links to the others above it (`?set=west`); metrics of it have the label
`set`, and `KAFKATS_METRICS_FILE` gets a file beside it for them. Sets that share a folder share
the pages. A set whose file has an error keeps its pages and metrics, until its DAGs are
deleted in Airflow.

```python
kafkats_dags(
    prefix="west_",
    # other defaults of the forms
    params={"policy": "/etc/kafkats/west.yaml", "folder": "/var/lib/kafkats-west"},
    schedules={"apply_retention": "15 4 * * *"},  # None: no schedule
    pool="west",  # of the tasks that submit to Spark
    tags=["west"],
)
```

**Folders.** The first task of a run puts an empty file `.kafkats-folder-…` into `folder`, and pages
look for it. Where the api-server sees another folder at that path than the workers, the pages say
so, and the first task of the next run warns in its log.

## Uninstalling

`pip uninstall kafkats`, and remove the file that calls `kafkats_dags`, or the entry of the bundle:
without kafkats the file is an import error of its own, and other DAGs and plugins load. In Airflow's
database stay, until you delete them:

| what | to delete it |
|---|---|
| the DAGs with their runs, task instances, XComs and questions | `airflow dags delete DAG_ID` |
| assets `kafkats://…` (group `kafkats`) and their events, without a DAG | `airflow db clean` |
| the variable `kafkats_folder_…`, only where a page has found another folder | `airflow variables delete` |
| the pool of `KAFKATS_POOL`, connections that the policy names, the bundle's name | `airflow pools delete`, `airflow connections delete` |
| an import error, if the file is still there | goes with the file |

The folder of all runs, and `.kafkats` beside each log directory, are not in Airflow: purge or undo
what runs wrote ([approving.md](approving.md)) before you remove them.

## Who may write

Without `KAFKATS_APPROVERS`, **everybody who may trigger a DAG may write**: `need_approval`,
`dry_run`, `policy`, `folder` and `undo_days` are params of the run. The question before a change
protects from mistakes, not from people. Give the permission to trigger these DAGs only to those who
may change the volumes.

With `KAFKATS_APPROVERS="alice,bob"`, triggering is not enough. The names are those of Airflow's
users; if an auth manager's ids are not names (FAB), write `ID:NAME`. Every task checks the
following on the worker, and the Spark job checks its request and the record of the answer again:

- Nothing is written without an approver's yes to the digest of that plan, whatever `need_approval`
  says. Only approvers are asked, and an answer from anybody else is refused.
- `policy` and `folder` are exactly those of the DAG's set: `KAFKATS_POLICY` and `KAFKATS_FOLDER`. `ledger` and `tables` are
  in that folder.
- The guards of the policy cannot be lifted: there is no question about them.
- `undo_days` is not below `KAFKATS_UNDO_DAYS_FLOOR`.
- `attested_by` is the user who triggered the run.
- A Spark submit has only options, paths and connections from the DAGs, the policy and the folder.
- If everybody in Airflow is an admin (`simple_auth_manager_all_admins`), nothing runs.

This does not protect from people who can log in on a worker, write in the folder, edit the policy
or the DAGs, or change Airflow's connections and database. Values that tasks pass to each other
(XComs) are trusted where they only go into reports, tables and a migration's ledger.
"""


def page() -> str:
    """The whole page."""
    return "\n".join([
        HEAD,
        *(
            section(path)
            for path in sorted((ROOT / "plugins/kafkats_airflow/dags").glob("[!_]*.py"))
        ),
    ])


def section(path: Path) -> str:
    """One DAG: its docstring, then what can be set when it is triggered."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    prose = (ast.get_docstring(tree) or "").replace("### ", "## ", 1)
    calls = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "dags.dag"
    ]
    [dag] = calls
    given = {keyword.arg: keyword.value for keyword in dag.keywords}
    facts = f"DAG `{ast.literal_eval(dag.args[0])}`, schedule `{ast.unparse(given['schedule'])}`, `{path.relative_to(ROOT)}`"
    form = ast.literal_eval(dag.args[1])
    rows = [row(name, box) for name, box in boxes(form_of(form)).items()]
    return "\n".join([
        prose,
        "",
        facts,
        "",
        "| param | in the form | default | meaning |",
        "|---|---|---|---|",
        *rows,
        "",
    ])


def row(name: str, box: Box) -> str:
    default = "to be given" if box.default is REQUIRED else f"`{box.default!r}`"
    meaning = box.description
    if choices := box.schema.get("enum"):
        meaning += f" ({', '.join(map(str, choices))})"
    return f"| `{name}` | {box.labels['title']} | {default} | {meaning} |"


def main() -> int:
    return write_or_compare(
        {PAGE: page()},
        "docs/DAGs.md is not what the DAGs and their forms say: run scripts/lint --fix",
    )


if __name__ == "__main__":
    sys.exit(main())
