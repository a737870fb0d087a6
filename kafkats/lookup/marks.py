"""The offsets of partitions at a time, by answers of a search or by a lookup table.

    starts = marks_of(rows, at)                 rows of partitions.LOOKUP
    starts, ends = read_marks(folder, at_ms)    or a table's

The rows should also hold the answers for latest and earliest.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple, TypedDict

from kafkats.clock import utc_text
from kafkats.config.topics import topic_filter
from kafkats.errors import BadInput, UsageError
from kafkats.text import Flag

if TYPE_CHECKING:
    import pyarrow as pa

    from kafkats.plans.rows import PartitionKey
    from kafkats.search.answers import Target
    from kafkats.tables import View

_SMALLEST: Final = -(2**63)
_LARGEST: Final = 2**63 - 1
_NO_WORDS: Final = (
    "a table knows times only: ask a log directory for the earliest, latest or largest"
)

Limits = Mapping[tuple[str, int], tuple[int, int]]
"""Log start and log end by topic and partition, -1 for unknown."""


class Mark(NamedTuple):
    """The offset of a partition at one time. -1: none or unknown.

    `timestamp` (ms) is the record's.
    """

    topic: str
    partition: int
    target_ms: int
    """An instant of any sign."""
    offset: int = -1
    timestamp: int = -1
    reason: str = "past-end"
    evidence: str = ""
    log_start: int = -1
    log_end: int = -1
    broker: bool = True
    """Whether a broker finds an offset too."""
    gone: int = -1
    """The offset in a table's cell if it is below the log start. `offset` is then the log start."""
    word: str = ""
    """The word that was looked up, "" for an instant.

    `target_ms` is then Kafka's number for the word.
    """


def with_margin(at: Target, until: Target | None, margin_ms: int) -> tuple[Target, Target | None]:
    """Return the range extended by the margin at both ends. Words are unchanged."""
    begin = max(at - margin_ms, _SMALLEST) if isinstance(at, int) else at
    return begin, min(until + margin_ms, _LARGEST) if isinstance(until, int) else until


def find_marks(
    paths: Sequence[str | os.PathLike[str]],
    at: Target,
    until: Target | None,
    look: Callable[[list[Target]], pa.Table],
    *,
    topics: str = "*",
    limits: Limits | None = None,
) -> tuple[list[Mark], list[Mark] | None]:
    """Return the starts and, with `until`, the ends.

    They come from the table if `paths` is one, else from the rows of LOOKUP that `look` returns for
    its targets. `limits` are for a table, see read_marks. Raises UsageError, and as read_marks,
    marks_of and `look`.
    """
    from kafkats.tables import table_in

    table = table_in(paths)
    if table is not None:
        return read_marks(table, at, until, topics=topics, limits=limits)
    if limits is not None:
        raise UsageError(Flag("--logs"), " goes with a TABLE only")
    from kafkats.search.answers import Word

    rows = look(
        list(dict.fromkeys([at, *([] if until is None else [until]), Word.LATEST, Word.EARLIEST]))
    )
    return marks_of(rows, at), None if until is None else marks_of(rows, until)


def marks_of(rows: pa.Table | pa.RecordBatch, target: Target) -> list[Mark]:
    """Return the answers for one target in rows of LOOKUP, by topic and partition.

    Answers for the words latest and earliest, if present, give the log end and log start. Raises
    UsageError if the target was not looked up, BadInput for a directory that is no partition's and
    for log directories that disagree.
    """
    from kafkats.plans.rows import partition_of

    answers = rows.to_pylist()
    ends: dict[PartitionKey, tuple[int, int]] = {}
    for row in answers:
        if (word := row.get("word")) in ("latest", "earliest"):
            key = partition_of(row)
            start, end = ends.get(key, (-1, -1))
            ends[key] = (start, row["offset"]) if word == "latest" else (row["offset"], end)
    number, word = (target, "") if isinstance(target, int) else (target.value, target.text)
    marks = [
        Mark(
            row["topic"],
            row["partition"],
            number,
            row["offset"],
            row["timestamp"],
            row["reason"],
            row["evidence"],
            *ends.get(partition_of(row), (-1, -1)),
            broker=_given_out(row, ends.get(partition_of(row), (-1, -1))[1]),
            word=word,
        )
        for row in answers
        if (row["target_ms"], row.get("word", "")) == (number, word)
    ]
    if not marks:
        raise UsageError(f"nothing was looked up for {word or number}: there is nothing to export")
    return one_per_partition(marks)


class _Answered(TypedDict):
    """The columns of LOOKUP that tell what a broker answers."""

    offset: int
    kafka_offset: int
    kafka_reason: str
    above_high_watermark: int


def _given_out(row: _Answered, log_end: int) -> bool:
    """Return whether a broker returns an offset too.

    If the instant is a word for brokers, this tells whether the exact answer's record is below the
    high watermark.
    """
    if row["kafka_reason"] != "taken-for-a-word":
        return row["kafka_offset"] >= 0
    high_watermark = (_LARGEST if log_end < 0 else log_end) - row["above_high_watermark"]
    return 0 <= row["offset"] < high_watermark


def marks_in(
    view: View,
    target: Target,
    *,
    end: bool = False,
    latest: View | None = None,
    limits: Limits | None = None,
) -> list[Mark]:
    """Return a table's answers for all its partitions.

    The cell at or before the time answers, so that no record is missed. For the `end` of a range
    the cell at or after the time answers. `latest` holds the table's last rows if `view` lacks
    them: they tell the partitions and where their logs began and ended. `limits` are the logs'
    current limits. Offsets outside them are replaced, see `settled`. Raises UsageError for an empty
    table, and for a word, since a table has none.
    """
    import numpy as np

    from kafkats.tables import lookup

    if not isinstance(target, int):
        raise UsageError(_NO_WORDS)
    bounds = _bounds([view] if latest is None else [view, latest])
    if not bounds:
        raise UsageError("the table has no row: there is nothing to export")
    bounds = {key: (limits or bounds).get(key, known) for key, known in bounds.items()}
    time = -(-target // view.step_ms) * view.step_ms if end else target
    numbers = np.array([view.number(*key) for key in bounds])
    answers_of_table = lookup(view, numbers, np.full(len(numbers), time))
    answers = zip(
        bounds.items(),
        answers_of_table.offset.tolist(),
        answers_of_table.timestamp.tolist(),
        answers_of_table.words(),
        strict=True,
    )
    return [
        settled(Mark(*key, target, offset, timestamp, word, "table", *limit, broker=offset >= 0))
        for (key, limit), offset, timestamp, word in answers
    ]


def settled(mark: Mark) -> Mark:
    """Return a table's mark, corrected by the limits of its log.

    An offset below the log start is `deleted` and replaced by the log start. An offset at or above
    the log end belongs to another log or to a truncated one: the mark has no offset then
    (`beyond-end`).
    """
    if 0 <= mark.offset < mark.log_start:
        evidence = f"offset {mark.offset} is gone: the log begins at {mark.log_start}"
        return mark._replace(
            offset=mark.log_start,
            timestamp=-1,
            reason="deleted",
            evidence=evidence,
            gone=mark.offset,
        )
    if 0 <= mark.log_end <= mark.offset:
        evidence = (
            f"offset {mark.offset}, and the log ends at {mark.log_end}: recreated or truncated"
        )
        return mark._replace(
            offset=-1, timestamp=-1, reason="beyond-end", evidence=evidence, broker=False
        )
    return mark


def read_marks(
    folder: str | os.PathLike[str],
    at: Target,
    until: Target | None = None,
    *,
    topics: str = "*",
    limits: Limits | None = None,
) -> tuple[list[Mark], list[Mark] | None]:
    """Return the starts, and with `until` the ends, of a table's partitions whose topics match.

    Only the needed rows are read. `limits` are current log limits (`lookup.partitions.limits`);
    without them the table's newest rows give them. Raises UsageError and as `tables.read`.
    """
    from kafkats.tables import read, read_manifest

    manifest = read_manifest(folder)
    step = manifest.step_ms
    last = max((end for _, end in manifest.covered), default=0)
    latest = read(folder, from_ms=last - step)
    wanted = topic_filter(topics)
    sides = []
    for target, end in ((at, False), (until, True)):
        if target is None:
            continue
        if not isinstance(target, int):
            raise UsageError(_NO_WORDS)
        cell = (-(-target // step) if end else target // step) * step
        view = read(folder, from_ms=cell, to_ms=cell + step)
        marks = marks_in(view, target, end=end, latest=latest, limits=limits)
        marks = [mark for mark in marks if wanted.matches(mark.topic)]
        if not marks:
            raise UsageError(f"no topic in the table matches {topics!r}", path=folder)
        sides.append(marks)
    return sides[0], sides[1] if len(sides) > 1 else None


def cells_sentence(folder: str | os.PathLike[str], at: Target, until: Target | None) -> str:
    """Return which cells of a table answer, "" if a cell begins at each of the times.

    Raises as `tables.read_manifest`.
    """
    from kafkats.config.durations import span_text
    from kafkats.tables import read_manifest

    step = read_manifest(folder).step_ms
    told = [
        f"the {side} is that of {utc_text(cell)}"
        for side, target, cell in (
            ("start", at, at // step * step if isinstance(at, int) else at),
            ("end", until, -(-until // step) * step if isinstance(until, int) else until),
        )
        if isinstance(cell, int) and cell != target
    ]
    return f"a cell of the table covers {span_text(step)}: {', '.join(told)}" if told else ""


def _bounds(views: Iterable[View]) -> dict[tuple[str, int], tuple[int, int]]:
    """Return log start and log end of each partition, the largest in any row, sorted."""
    import pyarrow as pa

    from kafkats.plans.rows import grouped

    columns = ["topic", "partition", "log_start_offset", "log_end_offset"]
    rows = pa.concat_tables([view.rows.select(columns) for view in views]).unify_dictionaries()
    rows = rows.set_column(0, "topic", rows["topic"].cast(pa.string()))
    largest = grouped(rows, columns[:2], [(name, "max") for name in columns[2:]])
    bounds = {
        (row["topic"], row["partition"]): (row["log_start_offset_max"], row["log_end_offset_max"])
        for row in largest.to_pylist()
    }
    return {key: bounds[key] for key in sorted(bounds)}


def one_per_partition(marks: Iterable[Mark]) -> list[Mark]:
    """Return one mark per partition, sorted. Raises BadInput when two log directories disagree, or
    a file of a log directory could not be read.
    """
    marks_by_key: dict[tuple[str, int], Mark] = {}
    for mark in marks:
        if mark.partition < 0:
            raise BadInput(
                mark.evidence
                if mark.reason == "unreadable"
                else "not in a partition's directory (TOPIC-N): its topic and partition are unknown"
            )
        other = marks_by_key.setdefault((mark.topic, mark.partition), mark)
        if (other.offset, other.log_end) != (mark.offset, mark.log_end):
            raise BadInput(
                f"{mark.topic}-{mark.partition} lies in two log directories that differ: offset"
                f" {other.offset} of {other.log_end}, and {mark.offset} of {mark.log_end};"
                " name one of them"
            )
    return [marks_by_key[key] for key in sorted(marks_by_key)]
