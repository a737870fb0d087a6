"""Runs whose reports have a certain file, the newest first."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from kafkats_airflow.failing import UNFINISHED
from kafkats_airflow.reading.files import is_file
from kafkats_airflow.reading.runs import Found, overview_of
from kafkats_airflow.runs.overview import Overview

REPORT: Final = "report.json"
"""The file of runs that have no other: it tells whether they read anything."""
CHOICES: Final = 30
"""Runs that a page offers."""
_LOOKED_AT: Final = 500
"""Runs that are looked at for the file: a page waits for no more."""


def runs_with(runs: Sequence[Found], file: str) -> list[Found]:
    """Return the first of these runs whose report has `file`."""
    found = []
    for one in runs[:_LOOKED_AT]:
        if is_file(one.folder / file) and (file == REPORT or not _read_nothing(one.folder)):
            found.append(one)
            if len(found) == CHOICES:
                break
    return found


def _read_nothing(folder: Path) -> bool:
    """Return whether a run failed before it read anything, or could read none of its volumes: its
    tables have no facts.
    """
    found = overview_of(folder)
    if not isinstance(found, Overview):
        return False
    if not found.volumes:
        return found.failed and found.outcome == UNFINISHED
    every = len(found.volumes) >= len(found.started.volumes)
    return every and all(one.error for one in found.volumes)
