"""Offsets by time: the tables of a run, the steps of a partition, all answers for one time."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa

from kafkats.errors import KafkatsError
from kafkats.lookup import exports
from kafkats.lookup.marks import Mark, marks_in, read_marks
from kafkats.lookup.record_scatter import CLOUDS
from kafkats.search.answers import REASONS
from kafkats.tables import TABLE, View, busiest, read, read_manifest
from kafkats_airflow.reading.files import (
    LARGEST_BYTES,
    Unreadable,
    cached,
    is_file,
    json_of,
    lately,
    listed,
    state_of,
    too_large,
)
from kafkats_airflow.ui.reading.tables import MOST_BYTES, MOST_ROWS, table_of

_MANIFEST: Final = "_table.json"
_MOST_MS: Final = 7 * 86_400_000
"""A page draws at most so much of a table: the end of what the run has added."""
_MOST_STEPS: Final = 20_000
_MOST_POINTS: Final = 2_000
_MOST_PARTITIONS: Final = 500
_NUMBERS: Final = ("offset", "timestamp", "log_start", "log_end")


class Source(NamedTuple):
    """The source of answers: a lookup table, or the cells that an export kept around its time."""

    name: str
    path: Path
    is_table: bool
    from_ms: int | None = None
    to_ms: int | None = None

    @property
    def file(self) -> Path:
        """The file without which there is no answer."""
        return self.path / _MANIFEST if self.is_table else self.path


def sources_of(folder: Path) -> list[Source] | Unreadable | None:
    """Return what answers in a run's report, None if it has none."""
    report = cached(folder / "report.json", json_of)
    if not isinstance(report, dict):
        return report
    built = report.get("tables")
    found = [one for one in map(_of_table, built if isinstance(built, list) else ()) if one]
    if not found:
        kept = listed(folder, "*/cells.parquet")
        found = [Source(path.parent.name, path, False) for path in kept]
    return found or None


def _of_table(told: object) -> Source | None:
    if not isinstance(told, dict):
        return None
    path, begin, end = (told.get(name) for name in ("table", "from_ms", "to_ms"))
    if not (isinstance(path, str) and isinstance(begin, int) and isinstance(end, int)):
        return None
    return Source(Path(path).name, Path(path), True, max(begin, end - _MOST_MS), end)


def seen_from_here(source: Source) -> bool:
    """Return whether the api-server sees a source. A table may lie where only workers see it."""
    return is_file(source.file)


def view_of(source: Source) -> View | Unreadable:
    """Return the rows that the page shows of a source."""
    state = state_of(source.file)
    if state is None or isinstance(state, Unreadable):
        return state or Unreadable(source.path, "the api-server does not see it")
    if source.is_table and state.size > LARGEST_BYTES:
        return Unreadable(source.file, too_large(state.size, LARGEST_BYTES))
    return _view(source, state)


@lately(4)
def _view(source: Source, state: object) -> View | Unreadable:
    if source.is_table:
        try:
            if why := _why_too_large(source):
                return Unreadable(source.path, why)
            return read(source.path, from_ms=source.from_ms, to_ms=source.to_ms)
        except KafkatsError as e:
            return Unreadable(source.path, e.reason)
    rows = table_of(source.path, TABLE.names, coded=("topic", "reason"), types=TABLE)
    if not isinstance(rows, pa.Table):
        return rows or Unreadable(source.path, "it is not there")
    cells = rows.unify_dictionaries().combine_chunks()
    times = np.unique(cells["timestamp"].to_numpy())
    step = int(np.gcd.reduce(np.diff(times))) if len(times) > 1 else 1000
    return View(cells, step, ())


def _why_too_large(source: Source) -> str:
    """Return why the files of a table are not read, "" if they are. Raises KafkatsError."""
    begin, end = source.from_ms, source.to_ms
    parts = [
        part
        for part in read_manifest(source.path).parts
        if (end is None or part.from_ms < end) and (begin is None or part.to_ms > begin)
    ]
    rows, size = sum(part.rows for part in parts), sum(part.bytes for part in parts)
    if rows > MOST_ROWS:
        return too_large(rows, MOST_ROWS, "rows")
    return too_large(size, MOST_BYTES) if size > MOST_BYTES else ""


def partitions_of(view: View) -> list[tuple[str, int]]:
    """Return the partitions that a person can choose, the one with the most answers first."""
    return busiest(view.rows, _MOST_PARTITIONS)


def stairs_of(folder: Path, view: View, topic: str, partition: int) -> dict[str, object]:
    """Return the steps of a partition, at most so many as a page draws: from each of `begins` until
    its end (epoch ms) the offset is given. `points` are records, as pairs of time and offset.
    """
    steps = view.steps(topic, partition)._asdict()
    shown = {name: column[:_MOST_STEPS].tolist() for name, column in steps.items()}
    return {**shown, "points": _points(folder, topic, partition)}


def _points(folder: Path, topic: str, partition: int) -> list[tuple[int, int]]:
    """Return a sample of the records that the run has kept of a partition."""
    for path in listed(folder, "*/clouds.parquet"):
        table = table_of(path, CLOUDS.names, types=CLOUDS)
        if not isinstance(table, pa.Table):
            continue
        for row in table.to_pylist():
            if (row["topic"], row["partition"]) == (topic, partition):
                pairs = list(zip(row["timestamps"], row["offsets"], strict=True))
                return pairs[:: max(-(-len(pairs) // _MOST_POINTS), 1)]
    return []


def marks_at(source: Source, view: View, at_ms: int) -> list[Mark]:
    """Return the answers of all partitions. Raises KafkatsError."""
    if source.is_table:
        return read_marks(source.path, at_ms)[0]
    return marks_in(view, at_ms)


def answers_of(marks: Sequence[Mark]) -> list[dict[str, object]]:
    """Return the answers for the page, by topic and partition. Numbers are None where there is
    none; `means` is the reason as a sentence.
    """
    return [
        {
            "topic": mark.topic,
            "partition": mark.partition,
            "reason": mark.reason,
            "means": _means(mark),
            **{name: _known(getattr(mark, name)) for name in _NUMBERS},
        }
        for mark in sorted(marks, key=lambda mark: (mark.topic, mark.partition))
    ]


def _means(mark: Mark) -> str:
    """Return the reason as a sentence; of an offset that the log has lost, which it was."""
    if mark.gone >= 0 or mark.reason not in REASONS:
        return mark.evidence
    return REASONS[mark.reason]


def exported(marks: list[Mark], to: str, missing: str, group: str) -> dict[str, object]:
    """Return an export of answers: its text, how many partitions, and a sentence for each one
    without an answer. Raises UsageError, BadInput.
    """
    made = exports.export(marks, to=to, missing=missing, group=group)
    notes = [
        f"{note.topic}-{note.partition}: {note.reason}; "
        + ("left out" if note.wrote is None else f"written as {note.wrote}")
        for note in made.notes
    ]
    return {"text": made.text, "partitions": made.partitions, "notes": notes}


def _known(number: int) -> int | None:
    return None if number < 0 else number
