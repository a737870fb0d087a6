"""DAG runs as their folders tell of them: stages, progress, plans, answers, undo windows."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Final, NamedTuple, TypeVar

from kafkats_airflow.approvals.recorded import Plan, Question
from kafkats_airflow.reading.files import (
    KEPT,
    State,
    Unreadable,
    listed,
    model,
    remembered,
    state_in,
)
from kafkats_airflow.runs.folders import file_name
from kafkats_airflow.runs.overview import NAME as OVERVIEW
from kafkats_airflow.runs.overview import Overview
from kafkats_airflow.runs.progress import FILES, Live

SILENT_MS: Final = 60_000
"""A job tells of its progress every few seconds. After this time it counts as silent."""


_SETTLED_MS: Final = 10_000
"""A folder has one time for two changes at once. So a result is not kept until this time after a
change.
"""
_folder_at: Final = lru_cache(KEPT)(Path)
"""A page lists thousands of folders: to make a Path of each takes longer than to stat it."""
T = TypeVar("T")


class Found(NamedTuple):
    """The folder of a DAG run."""

    dag_id: str
    folder: Path
    state: State

    @property
    def changed_ms(self) -> int:
        """Return when a name in it changed last, epoch ms."""
        return self.state.mtime_ns // 1_000_000


def runs_in(folder: Path, dag_ids: Iterable[str]) -> list[Found]:
    """Return the folders of all runs of these DAGs, as `runs_below`."""
    return runs_below(folder, {dag_id: file_name(dag_id) for dag_id in dag_ids})


def runs_below(folder: Path, names: Mapping[str, str]) -> list[Found]:
    """Return the folders of all runs of DAGs, the one that changed last first. `names` are those of
    the folders of DAGs, by what the DAG is called in the result.

    Links and files are left out. Raises OSError if `folder` cannot be listed.
    """
    os.scandir(folder).close()
    found = []
    for dag_id, name in names.items():
        of_dag = folder / name
        if of_dag.is_symlink():  # it may lead to the runs of another DAG
            continue
        try:
            with os.scandir(of_dag) as inside:
                for one in inside:
                    if one.is_dir(follow_symlinks=False):
                        about = one.stat(follow_symlinks=False)
                        found.append(Found(dag_id, _folder_at(one.path), state_in(about)))
        except (FileNotFoundError, NotADirectoryError, PermissionError):
            continue
    return sorted(found, key=lambda one: (-one.changed_ms, one.dag_id, one.folder.name))


def unless_changed(
    found: Found,
    now_ms: int,
    name: str,
    make: Callable[[], T],
    lasts: Callable[[T], bool],
    size: Callable[[T], int] = lambda _: 0,
) -> T:
    """Return the result of `make`, which reads a run's folder. It is kept until the folder changes.

    Tasks write each file by a rename, which changes the time of the folder. `lasts` returns whether
    a result may be kept: one that depends on the clock may not. `size` returns the bytes of the
    files that it holds.
    """
    if now_ms - found.state.ctime_ns // 1_000_000 < _SETTLED_MS:
        return make()
    return remembered(found.folder, name, found.state, make, size, lasts)


def folder_asked(folder: Path, dag_id: str, run_id: str) -> Path | None:
    """Return the folder of a run, as `folder_below`."""
    return folder_below(folder / file_name(dag_id), run_id)


def folder_below(of_dag: Path, run_id: str) -> Path | None:
    """Return the folder of a run, None if there is none: no run id leads out of the DAG's folder.

    `run_id` is Airflow's, or the name of the run's folder where that is all that is known of it.
    """
    named = of_dag / run_id
    by_name = [named] if run_id == named.name and run_id not in {"", ".", ".."} else []
    for one in (of_dag / file_name(run_id), *by_name):
        try:
            if one.is_dir() and not (one.is_symlink() or one.parent.is_symlink()):
                return one
        except (OSError, ValueError):  # too long a name, a NUL
            continue
    return None


def overview_of(folder: Path) -> Overview | Unreadable | None:
    """Return the overview of a run, None if it has none: it runs, or is of an earlier version."""
    return model(f"{folder}/{OVERVIEW}", Overview)


def progress_of(folder: Path) -> list[Live | Unreadable]:
    """Return the progress of the tasks of a run, in the order in which they began."""
    read = [model(path, Live) for path in listed(folder, FILES)]
    given: Sequence[Live | Unreadable] = [one for one in read if one is not None]
    return sorted(given, key=lambda one: one.began_ms if isinstance(one, Live) else 0)


def chosen_by(folder: Path) -> set[str]:
    """Return the log directories that a run may have reserved: those that its params chose, and
    those of the plans that it asks about.
    """
    question = model(folder / "question.json", Question)
    plans = question.plans if isinstance(question, Question) else []
    told = [one for one in (*progress_of(folder), question) if isinstance(one, Live | Question)]
    return {log_dir for one in (*plans, *told) for log_dir in _log_dirs(one)}


def _log_dirs(one: Plan | Live | Question) -> Iterable[str]:
    return one.log_dirs if isinstance(one, Plan) else one.started.volumes


def run_in(folder: Path, run: str) -> str:
    """Return the path of a RUN in a run's folder. A report has its path on the workers."""
    above, _, name = run.rstrip("/").rpartition("/")
    return f"{folder}/{above.rpartition('/')[2]}/{name}"
