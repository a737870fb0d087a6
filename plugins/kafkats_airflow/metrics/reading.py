"""Reads the folder of all runs for metrics: the newest figures of each log directory and DAG.

The figures of a log directory are those of the page of all (kafkats_airflow.reading.volumes). Every
file is parsed once per change (kafkats_airflow.reading.files).
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from pydantic import BaseModel

from kafkats import clock
from kafkats_airflow.reading.files import model
from kafkats_airflow.reading.runs import folder_below, runs_below
from kafkats_airflow.reading.volumes import Row, board
from kafkats_airflow.runs.overview import Overview

STATES: Final = ("read", "older", "unreadable")
"""Reports by whether their overview could be read; older ones have none."""


class Partition(BaseModel):
    """A partition directory in a retention's board.json. Bytes are of all files of its segments."""

    log_dir: str
    partition_dir: str
    bytes: int
    now_bytes: int
    pinned_bytes: int


class _Board(BaseModel):
    partitions: list[Partition]


class Snapshot(NamedTuple):
    """The folder of all runs at one moment. `readable` is false if it cannot be listed. `dags` has
    the overviews of each DAG, the newest first.
    """

    readable: bool
    reports: Mapping[str, int]
    dags: Mapping[str, Sequence[Overview]]
    volumes: Sequence[Row]


def snapshot(folder: Path) -> Snapshot:
    """Return the newest figures of the folder of all runs. Never raises for what is in it."""
    reports: Counter[str] = Counter(dict.fromkeys(STATES, 0))
    try:
        found = runs_below(folder, _names(folder))
    except OSError:
        return Snapshot(False, reports, {}, ())
    dags: dict[str, list[Overview]] = {}
    seen = board(found, {}, clock.now_ms())
    for told in seen.folders:
        if isinstance(told.overview, Overview):
            reports["read"] += 1
            dags.setdefault(told.overview.dag_id, []).append(told.overview)
        elif told.unreadable:
            reports["unreadable"] += 1
        elif told.told:
            reports["older"] += 1
    for overviews in dags.values():
        overviews.sort(key=lambda one: -one.written_ms)
    return Snapshot(True, reports, dags, seen.rows)


def _names(folder: Path) -> dict[str, str]:
    """Return the names of the folders of DAGs. A DAG is called by that of its folder, which need
    not be its id.
    """
    with os.scandir(folder) as listed:
        found = sorted(one.name for one in listed if one.is_dir(follow_symlinks=False))
    return {name: name for name in found}


def partitions(row: Row, folder: Path) -> list[Partition]:
    """Return the partitions of a log directory, from the newest retention; none without one."""
    if row.reclaimable is None:
        return []
    source = row.reclaimable.source
    of_run = folder_below(folder / source.dag_id, source.run_id)
    found = model(of_run / "board.json", _Board) if of_run else None
    rows = found.partitions if isinstance(found, _Board) else []
    return [one for one in rows if one.log_dir == row.log_dir]
