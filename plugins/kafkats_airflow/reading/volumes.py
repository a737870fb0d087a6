"""Each log directory as the newest reports show it, the one in most trouble first.

A figure comes from the newest run that has it: a run of retention knows what is reclaimable, a
rebuild the defects. So each group of figures has its own run and age. Defects are those of every
look that no newer look covers: one at least as deep, at the same topics or all.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Final, Literal, NamedTuple, TypeAlias, get_args

from kafkats.findings import BY_ENDS, HARMLESS
from kafkats_airflow import settings
from kafkats_airflow.approvals.recorded import Question
from kafkats_airflow.reading.files import State as FileState
from kafkats_airflow.reading.files import (
    Unreadable,
    cached,
    is_file,
    json_of,
    model,
    parsed,
    state_of,
)
from kafkats_airflow.reading.places import Place
from kafkats_airflow.reading.records import At
from kafkats_airflow.reading.runs import Found, run_in, unless_changed
from kafkats_airflow.runs.overview import NAME, Overview, Undo, Volume
from kafkats_airflow.runs.volumes import path_of

State: TypeAlias = Literal[
    "danger", "damage", "unread", "unseen", "partly", "overdue", "older", "unchecked", "sound"
]
STATES: Final[tuple[State, ...]] = get_args(State)
"""All states, from most trouble to none."""


class Source(NamedTuple):
    """The run that a figure comes from."""

    dag_id: str
    run_id: str
    written_ms: int
    dry_run: bool = False


_RANKS: Final = {"stat": 0, "tail": 1, "full": 2, "deep": 3}


class Told(NamedTuple):
    """The report of one run about a log directory. `topics` are those that it looked at.

    `covered` are the kinds of its findings about which a newer look says more.
    """

    source: Source
    volume: Volume
    topics: str = "*"
    covered: frozenset[str] = frozenset()

    def kinds(self, severity: str) -> list[tuple[str, int]]:
        """Return (kind, count) of the findings of a severity that a person mends, the most frequent
        first.
        """
        found = (self.volume.kinds or {}).get(severity, {})
        left = [one for one in found.items() if one[0] not in self.covered | HARMLESS]
        return sorted(left, key=lambda one: (-one[1], one[0]))

    @property
    def defects(self) -> dict[str, int]:
        """The counts of damage and danger by kind."""
        return dict([*self.kinds("danger"), *self.kinds("damage")])

    def under(self, newer: Told) -> Told | None:
        """Return what a newer look leaves of this one, None if that is nothing.

        A report of an earlier version does not tell its depth: it counts as one of the ends where
        it covers others, and as a full one where it has defects.
        """
        if newer.topics not in {"*", self.topics}:
            return self
        depth, over = self.volume.depth, _RANKS[newer.volume.depth or "tail"]
        if _RANKS[depth or ("full" if self.defects else "tail")] <= over:
            return None
        if not over:
            return self
        left = self._replace(covered=self.covered | BY_ENDS)
        return None if self.defects and not left.defects and not depth else left


class Kept(NamedTuple):
    """Undo material of one RUN on one log directory. `until_ms` None: only a person purges it."""

    source: Source
    undo: Undo
    bytes: int
    until_ms: int | None


class Changed(NamedTuple):
    """A RUN that changed files of a log directory, and was not undone. `ended_ms` is its end."""

    source: Source
    operation: str
    ended_ms: int


@dataclass(eq=False)
class Row:
    """A log directory. `seen` has its size, `looks` its defects, `formats` its bytes by magic,
    `reclaimable` what retention said, `disk` how full its file system was. None: no report has it.
    `asks` are the runs whose questions about it wait for an answer. `undone_since`: a run was
    undone after `seen`. `changed` is the RUN that changed files of it last, purged or not.

    `unread` is a run that could not read it, if no newer one has.

    `mentioned` is the newest run about all topics that names it. `older`: that run's report has no
    figures. `partly` is a newer run that looked at some topics only: its figures other than defects
    are not those of the log directory. `looks` are the newest first. `log_dir` is the label of the
    volume (kafkats_airflow.runs.volumes).
    """

    log_dir: str
    broker: str
    place: Place
    mentioned: Source | None = None
    older: bool = False
    seen: Told | None = None
    looks: list[Told] = field(default_factory=list)
    formats: Told | None = None
    reclaimable: Told | None = None
    partly: Told | None = None
    unread: Told | None = None
    disk: Told | None = None
    asks: list[Source] = field(default_factory=list)
    undo: list[Kept] = field(default_factory=list)
    undone_since: bool = False
    changed: Changed | None = None

    def changed_after(self, told: Told) -> Changed | None:
        """Return the newest RUN of a run after this look, if the look found defects.

        It may have mended them: only a look as deep tells.
        """
        last = self.changed
        later = last is not None and last.ended_ms > told.source.written_ms
        return last if later and told.defects else None

    def kinds(self, severity: str) -> dict[str, int]:
        """Return the counts of the findings of a severity; those of the look that found most."""
        found: dict[str, int] = {}
        for kind, count in (one for told in self.looks for one in told.kinds(severity)):
            found[kind] = max(count, found.get(kind, 0))
        return found

    def count(self, severity: str) -> int:
        """Return the number of findings of a severity."""
        return sum(self.kinds(severity).values())

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
            "unread": self.unread is not None,
            "unseen": not (self.mentioned or self.partly or self.unread),
            "partly": self.mentioned is None and self.partly is not None,
            "overdue": self.mentioned is not None
            and now_ms - self.mentioned.written_ms > overdue_ms(),
            "older": self.older,
            "unchecked": self.mentioned is not None and not self.looks and not self.older,
            "sound": bool(self.looks),
        }
        found = [state for state in STATES if holds[state]]
        return [one for one in found if one != "sound" or len(found) == 1]


class _Rows:
    """Rows by what identifies their volumes. Reports are added from the newest to the oldest."""

    def __init__(self) -> None:
        self.every: list[Row] = []
        self._at: dict[str, list[Row]] = {}
        """By path, and by directory id."""
        self._found: dict[Place, Row | None] = {}
        """The results of `of`, until a row is added or the place of one changes."""

    def add(self, log_dir: str, place: Place) -> Row:
        """Add a row for a volume."""
        self.every.append(row := Row(log_dir, place.broker, place))
        self._index(row)
        return row

    def of(self, log_dir: str, place: Place) -> Row | None:
        """Return the row of a volume, a new one for a new volume; None for a disk that another one
        has replaced since.
        """
        if place in self._found:
            return self._found[place]
        found = self._row_of(log_dir, place)
        self._found[place] = found
        return found

    def _row_of(self, log_dir: str, place: Place) -> Row | None:
        near = [*self._at.get(place.directory_id, ()), *self._at.get(place.path, ())]
        same: dict[Row, None] = dict.fromkeys(row for row in near if row.place.is_same(place))
        if len(same) > 1 and not place.broker:
            # a report of an earlier version has no broker: all of them have one row
            same = {row: None for row in same if not row.place.broker}
        for row in same:
            if row.place != (more := row.place.with_more(place)):
                row.place, row.broker = more, more.broker
                self._index(row)
            return row
        if any(row.place.has_replaced(place) for row in near):
            return None
        return self.add(log_dir, place)

    def _index(self, row: Row) -> None:
        self._found.clear()
        for key in {row.place.path, row.place.directory_id} - {""}:
            if row not in (at := self._at.setdefault(key, [])):
                at.append(row)


class Board(NamedTuple):
    """All log directories, what the folder of each run tells, and what could not be read."""

    rows: list[Row]
    folders: list[Folder]

    @property
    def unreadable(self) -> list[Unreadable]:
        """Return the files that could not be read, of all runs."""
        return [one for folder in self.folders for one in folder.unreadable]


def board(runs: Sequence[Found], listed: Mapping[str, str], now_ms: int) -> Board:
    """Return the log directories of these runs and those `listed` ({label: broker}) by the policy.

    The one in most trouble is first.
    """
    rows = _Rows()
    for log_dir, broker in listed.items():
        rows.add(log_dir, Place(path_of(log_dir, broker), broker))
    folders = [_read(found, now_ms) for found in runs]
    told = [(of, one) for of, folder in zip(runs, folders, strict=True) for one in folder.told]
    for found, one in sorted(told, key=lambda pair: -pair[1].written_ms):
        _add(rows, found, one)
    for found, folder in zip(runs, folders, strict=True):
        if folder.question is not None:
            _add_question(rows, found, folder.question, now_ms)
    every = sorted(rows.every, key=lambda row: _trouble(row, now_ms))
    return Board(every, folders)


def overdue_ms() -> int:
    """Return the time after its last look at which a log directory is overdue, in ms."""
    return settings.OVERDUE // timedelta(milliseconds=1)


class Older(NamedTuple):
    """report.json without overview.json: of an earlier version of kafkats."""

    written_ms: int
    volumes: Sequence[str]


def _parse_older(path: Path) -> Older:
    """Parse report.json. Raises ValueError, OSError."""
    content = json_of(path)
    volumes = content.get("volumes", [])
    if not isinstance(volumes, list) or not all(isinstance(one, str) for one in volumes):
        raise ValueError("not as it was written: volumes")
    return Older(path.stat().st_mtime_ns // 1_000_000, volumes)


class _Report(NamedTuple):
    """The overview of a run, with the place of each volume. `told` has the volumes by label."""

    written_ms: int
    source: Source
    told: dict[str, tuple[Place, Told]]
    undo: list[Undo]


class Folder(NamedTuple):
    """The reports in a run's folder, the files that cannot be read, and a question that is newer
    than the report. `overview` is among them: None if the run has none. `size` is that of the
    overview's file.
    """

    told: Sequence[_Report | Older] = ()
    unreadable: Sequence[Unreadable] = ()
    question: Question | None = None
    overview: Overview | Unreadable | None = None
    size: int = 0


def _read(found: Found, now_ms: int) -> Folder:
    """Return what a run's folder tells. It is read if it changed.

    A file that cannot be read is tried again each time: new rights do not change the time of the
    folder. Metrics may call the DAG by another name than pages do.
    """
    name, make = f"volumes, of {found.dag_id}", partial(_read_now, found)
    return unless_changed(
        found, now_ms, name, make, lambda one: not one.unreadable, lambda one: one.size
    )


def _read_now(found: Found) -> Folder:
    """Read the overview of a run; without a readable one, which volumes report.json names."""
    path = found.folder / NAME
    state, overview = state_of(path), parsed(path, Overview)
    one = _report(found, overview) if isinstance(overview, Overview) else None
    older = None if one else cached(found.folder / "report.json", _parse_older)
    told = [report for report in (one, older) if isinstance(report, _Report | Older)]
    question = None
    if found.changed_ms > max((report.written_ms for report in told), default=0):
        question = model(found.folder / "question.json", Question)
    read = (overview, older, question)
    unreadable = [one for one in read if isinstance(one, Unreadable)]
    asked = question if isinstance(question, Question) else None
    size = state.size if isinstance(state, FileState) else 0
    return Folder(told, unreadable, asked, overview, size)


def _report(found: Found, one: Overview) -> _Report:
    source = Source(found.dag_id, one.run_id, one.written_ms, one.dry_run)
    told = {}
    for volume in one.volumes:
        broker = volume.broker or one.started.volumes.get(volume.log_dir, "")
        place = Place(path_of(volume.log_dir, broker), broker, volume.name, volume.identity)
        told[volume.log_dir] = place, Told(source, volume, one.topics)
    return _Report(one.written_ms, source, told, one.undo)


def _add(rows: _Rows, found: Found, one: _Report | Older) -> None:
    if isinstance(one, Older):
        source = Source(found.dag_id, found.folder.name, one.written_ms)
        for log_dir in one.volumes:
            row = rows.of(log_dir, Place(log_dir))
            if row is not None and row.mentioned is None:
                row.mentioned, row.older = source, True
        return
    for log_dir, (place, told) in one.told.items():
        if (row := rows.of(log_dir, place)) is not None:
            _add_figures(row, told)
    for undo in one.undo:
        _add_undo(rows, one, undo, run_in(found.folder, undo.run))


def _add_question(rows: _Rows, found: Found, question: Question, now_ms: int) -> None:
    """Add the question of a run that waits for an answer."""
    if now_ms > question.until_ms or is_file(found.folder / "approval.json"):
        return
    source = Source(found.dag_id, question.run_id or found.folder.name, question.asked_ms)
    for log_dir in dict.fromkeys(one for plan in question.plans for one in plan.log_dirs):
        broker = question.started.volumes.get(log_dir, "")
        row = rows.of(log_dir, Place(path_of(log_dir, broker), broker))
        if row is not None:
            row.asks.append(source)


def _add_figures(row: Row, told: Told) -> None:
    volume = told.volume
    if volume.error:
        if row.mentioned is None and not row.looks:
            row.unread = row.unread or told
        return
    if row.disk is None and volume.disk_bytes is not None:
        row.disk = told
    if volume.kinds is not None:
        _add_look(row, told)
    if told.topics != "*":
        if row.partly is None and row.seen is None and volume.kinds is not None:
            row.partly = told
        return
    row.mentioned = row.mentioned or told.source
    if row.seen is None and volume.kinds is not None:
        row.seen = told
    if volume.magic_bytes is not None and (
        row.formats is None or (volume.is_whole and not row.formats.volume.is_whole)
    ):
        row.formats = told
    if row.reclaimable is None and volume.reclaimable is not None:
        row.reclaimable = told


def _add_look(row: Row, told: Told) -> None:
    """Add what the newer looks leave of this one. A look at some topics counts for its defects."""
    left: Told | None = told
    for newer in row.looks:
        left = left and left.under(newer)
    if left is not None and (left.topics == "*" or left.defects or not row.looks):
        row.looks.append(left)


def _add_undo(rows: _Rows, report: _Report, undo: Undo, run: str) -> None:
    """Add what was changed, unless it was undone, and its material that still is on the disk."""
    purged, undone = is_file(f"{run}/purge.json"), model(f"{run}/undone.json", At)
    for log_dir, size in undo.bytes.items():
        place = report.told[log_dir][0] if log_dir in report.told else Place(log_dir)
        row = rows.of(log_dir, place)
        if row is None:
            continue
        if undone is None and (row.changed is None or undo.ended_ms > row.changed.ended_ms):
            row.changed = Changed(report.source, undo.operation, undo.ended_ms)
        if purged:
            continue
        if undone is not None:
            at_ms = undone.at_ms if isinstance(undone, At) else 0
            row.undone_since |= row.seen is not None and row.seen.source.written_ms < at_ms
        elif size:
            row.undo.append(Kept(report.source, undo, size, undo.until_ms))


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
