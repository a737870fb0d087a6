"""Where a DAG run keeps its plans, runs and reports.

    FOLDER/<DAG id>/<run folder>/               report.json, its tables and pictures; question.json, approval.json
    FOLDER/<DAG id>/<run folder>/<group>/       one application: plan-<digest>, run-<digest>, before, after
    FOLDER/<run folder>/<group>/                the same as earlier versions laid it out, without the DAG's id

Distinct run ids have distinct folders, and none of them lies outside of FOLDER.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from airflow.providers.common.compat.sdk import Context

_PLAIN: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,99}")
_LONGEST: Final = 100


def run_folder(folder: str, dag_id: str, run_id: str) -> Path:
    """The folder of one DAG run; the same for every try of it."""
    return Path(folder, file_name(dag_id), file_name(run_id))


def folder_of(context: Context) -> Path:
    """The folder of the DAG run that the task belongs to."""
    return run_folder(context["params"]["folder"], context["dag"].dag_id, context["run_id"])


def holder_of(context: Context) -> str:
    """Whose the reservations of the DAG run's log directories are."""
    return f"airflow {context['dag'].dag_id} {context['run_id']}"


def run_of(plan: Mapping[str, Any]) -> Path:
    """The folder of the plan's run. A plan made anew, when a DAG run is cleared, gets a run of its own."""
    return Path(plan["plan"]).parent / f"run-{plan['digest'][:16]}"


def every_run(folder: str) -> list[Path]:
    """Every RUN under FOLDER, of all DAG runs and of both layouts."""
    layouts = ("*/*/run-*/run.json", "*/*/*/run-*/run.json")
    return sorted(found.parent for layout in layouts for found in Path(folder).glob(layout))


def file_name(text: str) -> str:
    """A file name for any text: plain ones stay as they are, others get a digest; never two the same, never `.` or `..`."""
    return text if _PLAIN.fullmatch(text) else with_digest(text)


def with_digest(text: str, exact: str = "") -> str:
    """What can be read of `text`, and 16 digits of the digest of `exact` (of `text` itself if not given)."""
    digest = hashlib.sha256((exact or text).encode(errors="surrogatepass")).hexdigest()
    return f"{readable(text)[:_LONGEST].lstrip('.-')}~{digest[:16]}"


def readable(text: str) -> str:
    """`text` with _ for what not every file system and shell takes."""
    return re.sub(r"[^A-Za-z0-9._-]+", "_", text)
