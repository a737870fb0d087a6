"""progress-<task>-<map index>.json in a run's folder: how far a task's job is, for pages.

The operator writes it whenever its job tells of progress, every few seconds, and at its end. It is
for people only: a task never fails because it cannot be written.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias

from airflow.sdk import Context
from pydantic import NonNegativeInt

from kafkats import clock
from kafkats.errors import KafkatsError
from kafkats.progress import Stage
from kafkats_airflow.airflow_versions import TaskDeferred
from kafkats_airflow.runs.folders import file_name, folder_of
from kafkats_airflow.runs.started import Started, started_of

FORMAT: Final = 1
FILES: Final = "progress-*.json"
State: TypeAlias = Literal["running", "done", "failed"]


class Live(Stage):
    """The content. `stage` is the job's own, `units` and `bytes` are those of the stage."""

    format: Literal[1]
    dag_id: str
    run_id: str
    task: str
    map_index: int
    about: str
    job: str
    state: State
    began_ms: NonNegativeInt
    written_ms: NonNegativeInt
    started: Started = Started()


class Teller:
    """Writes the progress of one try of a task."""

    def __init__(self, context: Context, job: str, about: str) -> None:
        self.context, self.job, self.about = context, job, about
        self.began_ms = clock.now_ms()
        self.last: dict[str, Any] = {"stage": ""}
        self._started: Started | None = None

    def tell(self, progress: dict[str, Any] | None = None, state: State = "running") -> None:
        """Write the file; at the end, without `progress`, with the last of the job."""
        from kafkats.plans.files import make_folder, write_json

        self.last = progress or self.last
        with suppress(KafkatsError, KeyError, ValueError):
            ti, path = self.context["ti"], live_file(self.context)
            self._started = self._started or started_of(self.context)
            made = Live(**{
                **self.last,
                "format": FORMAT,
                "dag_id": self.context["dag"].dag_id,
                "run_id": self.context["run_id"],
                "task": ti.task_id,
                "map_index": ti.map_index,
                "about": self.about,
                "job": self.job,
                "state": state,
                "began_ms": self.began_ms,
                "written_ms": clock.now_ms(),
                "started": self._started,
            })
            make_folder(path.parent, "the progress of a run")
            write_json(path, made.model_dump(mode="json"))


def live_file(context: Context) -> Path:
    """Return the file of a task."""
    ti = context["ti"]
    return folder_of(context) / f"progress-{file_name(ti.task_id)}-{ti.map_index}.json"


def go_on(path: Path, progress: dict[str, Any]) -> None:
    """Write the progress of a task that waits without a worker into its file, where it is seen."""
    from kafkats.plans.files import read_document, write_json

    with suppress(KafkatsError, ValueError):
        if (last := read_document(path, Live)) is not None:
            of_stage = {name: one for name, one in progress.items() if name in Stage.model_fields}
            more = of_stage | {"ui": "", "written_ms": clock.now_ms()}
            made = Live.model_validate(last.model_dump(mode="json") | more)
            write_json(path, made.model_dump(mode="json"))


@contextmanager
def telling(context: Context, job: str, about: str) -> Generator[Teller]:
    """Write the begin and the end of a try, and give what tells the progress in between. A task
    that waits without a worker has not ended.
    """
    teller = Teller(context, job, about)
    teller.tell()
    try:
        yield teller
    except TaskDeferred:
        raise
    except BaseException:
        teller.tell(state="failed")
        raise
    teller.tell(state="done")
