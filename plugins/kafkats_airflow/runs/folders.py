"""The folders of DAG runs: plans, RUNs and reports.

    FOLDER/<DAG id>/<run folder>/               report.json, its tables and pictures; question.json,
                                                approval.json
    FOLDER/<DAG id>/<run folder>/<group>/       one application: plan-<digest>, run-<digest>,
                                                before, after
    FOLDER/<run folder>/<group>/                the layout of earlier versions, without the DAG's id

Distinct run ids have distinct folders, and none of them lies outside of FOLDER.
"""

from __future__ import annotations

import hashlib
import re
from pathlib import Path
from typing import Final

from airflow.sdk import Context

from kafkats_airflow.forms.values import params_of
from kafkats_airflow.results import PlanName, PlanResult

_PLAIN: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,99}")
_LONGEST: Final = 100
CANARY_QUESTION: Final = "canary-question.json"
"""In a run's folder: the question whether the other brokers may follow a canary."""


def run_folder(folder: str, dag_id: str, run_id: str) -> Path:
    """Return the folder of a DAG run; all its tries share it."""
    return Path(folder, file_name(dag_id), file_name(run_id))


def folder_of(context: Context) -> Path:
    """Return the folder of the task's DAG run."""
    return run_folder(params_of(context)["folder"], context["dag"].dag_id, context["run_id"])


def holder_of(context: Context) -> str:
    """Return the holder of the DAG run's reservations."""
    return holder_named(context["dag"].dag_id, context["run_id"])


def holder_named(dag_id: str, run_id: str) -> str:
    """Return the holder of the reservations of a DAG run."""
    return f"airflow {dag_id} {run_id}"


def run_of(plan: PlanResult | PlanName) -> Path:
    """Return the folder of the plan's RUN. The new plan of a cleared DAG run has its own RUN."""
    return Path(plan["plan"]).parent / f"run-{plan['digest'][:16]}"


def is_active(context: Context, dag_id: str, run_id: str) -> bool:
    """Return whether a DAG run is not over: Airflow knows it."""
    states = ["queued", "running"]
    return bool(context["ti"].get_dr_count(dag_id=dag_id, run_ids=[run_id], states=states))


def every_run(folder: str) -> list[Path]:
    """Return every RUN under FOLDER, of all DAG runs and of both layouts."""
    layouts = ("*/*/run-*/run.json", "*/*/*/run-*/run.json")
    return sorted(found.parent for layout in layouts for found in Path(folder).glob(layout))


def file_name(text: str) -> str:
    """Return a file name for any text. Plain text is kept; other text gets a digest.

    Different texts have different names. No name is `.` or `..`.
    """
    return text if _PLAIN.fullmatch(text) else with_digest(text)


def with_digest(text: str, exact: str = "") -> str:
    """Return the readable part of `text` and 16 digits of the digest of `exact`, or of `text`."""
    digest = hashlib.sha256((exact or text).encode(errors="surrogatepass")).hexdigest()
    return f"{readable(text)[:_LONGEST].lstrip('.-')}~{digest[:16]}"


def readable(text: str) -> str:
    """Replace characters that some file systems and shells do not accept with _."""
    return re.sub(r"[^A-Za-z0-9._-]+", "_", text)
