"""Each log directory as the newest reports show it, the one in most trouble first.

A figure comes from the newest run that has it: a run of retention knows what is reclaimable, a
rebuild the defects. So each group of figures has its own run and age.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Final, Literal, NamedTuple, TypeAlias, get_args

from kafkats_airflow import settings
from kafkats_airflow.reading.files import Unreadable, cached, is_file, json_of, model
from kafkats_airflow.reading.runs import Found, overview_of, run_in
from kafkats_airflow.runs.overview import Overview, Undo, Volume
from kafkats_airflow.ui.reading.records import At, Question

State: TypeAlias = Literal["danger", "damage", "unseen", "partly", "overdue", "older", "sound"]
STATES: Final[tuple[State, ...]] = get_args(State)
"""From most trouble to none."""


class Source(NamedTuple):
    """The run that a figure comes from."""

    dag_id: str
    run_id: str
    written_ms: int
    dry_run: bool = False


class Told(NamedTuple):
    """The report of one run about a log directory. `topics` are those that it looked at."""

    source: Source
    volume: Volume
    topics: str = "*"

    def kinds(self, severity: str) -> list[tuple[str, int]]:
        """Return (kind, count) of the findings of a severity, the most frequent first."""
        found = (self.volume.kinds or {}).get(severity, {})
        return sorted(found.items(), key=lambda one: (-one[1], one[0]))


class Kept(NamedTuple):
    """Undo material of one RUN on one log directory. `until_ms` None: only a person purges it."""

    source: Source
    undo: Undo
    bytes: int
    until_ms: int | None


@dataclass
class Row:
    """A log directory. `seen` has its size and defects, `formats` its bytes by magic, `reclaimable`
    what retention said, `disk` how full its file system was. None: no report has it. `asks` are the
    runs whose questions about it wait for an answer. `undone_since`: a run was undone after `seen`.

    `mentioned` is the newest run about all topics that names it. `older`: that run's report has no
    figures. `partly` is a newer run that looked at some topics only: what it found counts as
    defects, and its other figures are not those of the log directory.
    """

    log_dir: str
    broker: str = ""
    mentioned: Source | None = None
    older: bool = False
    seen: Told | None = None
    formats: Told | None = None
    reclaimable: Told | None = None
    partly: Told | None = None
    disk: Told | None = None
    asks: list[Source] = field(default_factory=list)
    undo: list[Kept] = field(default_factory=list)
    undone_since: bool = False

    def count(self, severity: str) -> int:
        """Return the number of findings of a severity; that of the run which found more."""
        return max(
            sum(count for _, count in told.kinds(severity)) if told else 0
            for told in (self.seen, self.partly)
        )

    def looks(self) -> list[Told]:
        """Return the runs that looked for defects: at all topics, then at some."""
        return [one for one in (self.seen, self.partly) if one is not None]

    def undo_bytes(self) -> int:
        """Return the bytes of files that an undo would put back."""
        return sum(one.bytes for one in self.undo)

    def freed_ms(self) -> int | None:
        """Return when a DAG frees the first of it, None if only a person does."""
        return min((one.until_ms for one in self.undo if one.until_ms is not None), default=None)

    def states(self, now_ms: int) -> list[State]:
        """Return every state that holds, the worst first. Never empty."""
        holds: Mapping[State, bool] = {
            "danger": self.count("danger") > 0,
            "damage": self.count("damage") > 0,
            "unseen": self.mentioned is None and self.partly is None,
            "partly": self.mentioned is None and self.partly is not None,
            "overdue": self.mentioned is not None
            and now_ms - self.mentioned.written_ms > overdue_ms(),
            "older": self.older,
            "sound": self.seen is not None,
        }
        found = [state for state in STATES if holds[state]]
        return [one for one in found if one != "sound" or len(found) == 1] or ["older"]


class Board(NamedTuple):
    """All log directories, and what could not be read."""

    rows: list[Row]
    unreadable: list[Unreadable]


def board(runs: Sequence[Found], listed: Mapping[str, str], now_ms: int) -> Board:
    """Return the log directories of these runs and those `listed` ({path: broker}) by the policy.

    The one in most trouble is first.
    """
    rows = {log_dir: Row(log_dir, broker) for log_dir, broker in listed.items()}
    told: list[tuple[Found, Overview | Older]] = []
    unreadable: list[Unreadable] = []
    for found in runs:
        read = _read(found)
        known = [one for one in read if not isinstance(one, Unreadable)]
        told += [(found, one) for one in known]
        unreadable += [one for one in read if isinstance(one, Unreadable)]
        if found.changed_ms > max((one.written_ms for one in known), default=0):
            _add_question(rows, found, now_ms)  # something came after its report
    for found, one in sorted(told, key=lambda pair: -pair[1].written_ms):
        _add(rows, found, one)
    every = sorted(rows.values(), key=lambda row: _trouble(row, now_ms))
    return Board(every, unreadable)


def overdue_ms() -> int:
    """Return for how long no run may have seen a log directory before it is overdue."""
    return settings.OVERDUE // timedelta(milliseconds=1)


class Older(NamedTuple):
    """report.json without overview.json: of an earlier version of kafkats."""

    written_ms: int
    volumes: Sequence[str]


def older_of(folder: Path) -> Older | Unreadable | None:
    """Return what a report of an earlier version says, None where there is no report."""
    return cached(folder / "report.json", parse_older)


def parse_older(path: Path) -> Older:
    """Parse report.json. Raises ValueError, OSError."""
    content = json_of(path)
    volumes = content.get("volumes", [])
    if not isinstance(volumes, list) or not all(isinstance(one, str) for one in volumes):
        raise ValueError("not as it was written: volumes")
    return Older(path.stat().st_mtime_ns // 1_000_000, volumes)


def _read(found: Found) -> list[Overview | Older | Unreadable]:
    """Return the overview of a run; without a readable one, which volumes report.json names."""
    overview = overview_of(found.folder)
    if isinstance(overview, Overview):
        return [overview]
    return [one for one in (overview, older_of(found.folder)) if one is not None]


def _add(rows: dict[str, Row], found: Found, one: Overview | Older) -> None:
    if isinstance(one, Older):
        source = Source(found.dag_id, found.folder.name, one.written_ms)
        for log_dir in one.volumes:
            row = rows.setdefault(log_dir, Row(log_dir))
            if row.mentioned is None:
                row.mentioned, row.older = source, True
        return
    source = Source(found.dag_id, one.run_id, one.written_ms, one.dry_run)
    for volume in one.volumes:
        row = rows.setdefault(volume.log_dir, Row(volume.log_dir))
        _add_figures(row, Told(source, volume, one.topics))
    for undo in one.undo:
        _add_undo(rows, source, undo, run_in(found.folder, undo.run))


def _add_question(rows: dict[str, Row], found: Found, now_ms: int) -> None:
    """Add the question of a run that waits for an answer."""
    if not os.path.lexists(f"{found.folder}/question.json"):  # a Path for each run takes long
        return
    question = model(found.folder / "question.json", Question)
    if not isinstance(question, Question) or now_ms > question.until_ms:
        return
    if is_file(found.folder / "approval.json"):
        return
    source = Source(found.dag_id, question.run_id or found.folder.name, question.asked_ms)
    for log_dir in dict.fromkeys(one for plan in question.plans for one in plan.log_dirs):
        rows.setdefault(log_dir, Row(log_dir)).asks.append(source)


def _add_figures(row: Row, told: Told) -> None:
    volume = told.volume
    if row.disk is None and volume.disk_bytes is not None:
        row.disk = told
    if told.topics != "*":
        if row.partly is None and row.seen is None and volume.kinds is not None:
            row.partly = told
        return
    row.mentioned = row.mentioned or told.source
    if row.seen is None and volume.kinds is not None:
        row.seen, row.older = told, False
    if volume.magic_bytes is not None and (
        row.formats is None or (volume.is_whole and not row.formats.volume.is_whole)
    ):
        row.formats = told
    if row.reclaimable is None and volume.reclaimable is not None:
        row.reclaimable = told


def _add_undo(rows: dict[str, Row], source: Source, undo: Undo, run: Path) -> None:
    """Add material that still is on the disk: neither undone nor purged since."""
    if is_file(run / "purge.json"):
        return
    undone = model(run / "undone.json", At)
    for log_dir, size in undo.bytes.items():
        row = rows.setdefault(log_dir, Row(log_dir))
        if undone is not None:
            at_ms = undone.at_ms if isinstance(undone, At) else 0
            row.undone_since |= row.seen is not None and row.seen.source.written_ms < at_ms
        elif size:
            row.undo.append(Kept(source, undo, size, undo.until_ms))


def _trouble(row: Row, now_ms: int) -> tuple[int, int, int, str]:
    worst = STATES.index(row.states(now_ms)[0])
    return worst, -row.count("danger"), -row.count("damage"), row.log_dir


def summed(rows: Iterable[Row], now_ms: int) -> dict[State, int]:
    """Count the log directories in each state; one may be in several."""
    counts: dict[State, int] = dict.fromkeys(STATES, 0)
    for row in rows:
        for state in row.states(now_ms):
            counts[state] += 1
    return counts
