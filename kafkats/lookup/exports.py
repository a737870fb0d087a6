"""Write answers of a search by time for Spark's Kafka source, Kafka's group reset, or as JSON.

    starts = marks_of(rows, at)                 rows of operations.lookup.LOOKUP
    starts, ends = read_marks(folder, at_ms)    or a table's
    export(starts, to="spark-offsets").text

The rows should also hold the answers for latest and earliest. Every requested partition appears in
the export, in the exception message, or (`leave`) in the notes. See docs/exports.md.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from kafkats.config.topics import topic_filter
from kafkats.errors import BadInput, UsageError

if TYPE_CHECKING:
    import pyarrow as pa

    from kafkats.search.answers import Target
    from kafkats.tables import View

FORMATS: Final = ("spark-offsets", "spark-by-timestamp", "group-csv", "json")
MISSING: Final = {
    "fail": "refuse to export, and name them",
    "all": "from the log start (and to the log end): too much rather than too little",
    "none": "from the log end (and to it): nothing that is there now",
    "leave": "leave them out, and name them: a group keeps what it has committed there",
}
"""What to write for partitions without an answer."""
LATEST: Final = -1
EARLIEST: Final = -2
"""Offsets with a special meaning in Spark."""
_SMALLEST_MS: Final = -(2**63)
_LARGEST_MS: Final = 2**63 - 1
_NO_WORDS: Final = (
    "a table knows times only: ask a log directory for the earliest, latest or largest"
)
_SHOWN: Final = 5
_VERSION: Final = 1

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


class Note(NamedTuple):
    """A partition without an answer, and what was written for it.

    `wrote` is an offset, -1 or -2 (Spark's latest and earliest), or None if it was left out.
    """

    topic: str
    partition: int
    side: str
    """start or end"""
    reason: str
    wrote: int | None


class Export(NamedTuple):
    """The export. Write `text` to a file as UTF-8."""

    text: str
    partitions: int
    notes: list[Note]


def with_margin(at: Target, until: Target | None, margin_ms: int) -> tuple[Target, Target | None]:
    """Return the range extended by the margin at both ends. Words are unchanged."""
    begin = max(at - margin_ms, _SMALLEST_MS) if isinstance(at, int) else at
    return begin, min(until + margin_ms, _LARGEST_MS) if isinstance(until, int) else until


def marks(
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
        raise UsageError(
            "where logs begin and end by now is for a table: log directories tell it by themselves"
        )
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
    found = rows.to_pylist()
    ends: dict[tuple[str, int], dict[str, Any]] = {}
    for word, name in (("latest", "log_end"), ("earliest", "log_start")):
        for row in found:
            if row.get("word", "") == word:
                ends.setdefault((row["log_dir"], row["partition_dir"]), {})[name] = row["offset"]
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
            broker=_given_out(row, ends.get((row["log_dir"], row["partition_dir"]), {})),
            word=word,
            **ends.get((row["log_dir"], row["partition_dir"]), {}),
        )
        for row in found
        if (row["target_ms"], row.get("word", "")) == (number, word)
    ]
    if not marks:
        raise UsageError(f"nothing was looked up for {word or number}: there is nothing to export")
    return _agreed(marks)


def _given_out(row: Mapping[str, Any], ends: Mapping[str, int]) -> bool:
    """Whether a broker returns an offset too.

    If the instant is a word for brokers, this tells whether the exact answer's record is below the
    high watermark.
    """
    if row["kafka_reason"] != "taken-for-a-word":
        return bool(row["kafka_offset"] >= 0)
    high_watermark = ends.get("log_end", _LARGEST_MS) - row["above_high_watermark"]
    return bool(0 <= row["offset"] < high_watermark)


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
    asked = -(-target // view.step_ms) * view.step_ms if end else target
    numbers = np.array([view.number(*key) for key in bounds])
    found = lookup(view, numbers, np.full(len(numbers), asked))
    answers = zip(
        bounds.items(), found.offset.tolist(), found.timestamp.tolist(), found.words(), strict=True
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
        evidence = f"offset {mark.offset}, and the log ends at {mark.log_end}: made anew, or cut"
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

    Only the needed rows are read. `limits` are current log limits (`operations.lookup.limits`);
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
        found = marks_in(view, target, end=end, latest=latest, limits=limits)
        found = [mark for mark in found if wanted.matches(mark.topic)]
        if not found:
            raise UsageError(f"no topic in the table matches {topics!r}", path=folder)
        sides.append(found)
    return sides[0], sides[1] if len(sides) > 1 else None


def _bounds(views: Iterable[View]) -> dict[tuple[str, int], tuple[int, int]]:
    """Return log start and log end of each partition, the largest in any row, sorted."""
    import pyarrow as pa

    columns = ["topic", "partition", "log_start_offset", "log_end_offset"]
    rows = pa.concat_tables([view.rows.select(columns) for view in views]).unify_dictionaries()
    rows = rows.set_column(0, "topic", rows["topic"].cast(pa.string()))
    largest = rows.group_by(columns[:2]).aggregate([(name, "max") for name in columns[2:]])
    found = {
        (row["topic"], row["partition"]): (row["log_start_offset_max"], row["log_end_offset_max"])
        for row in largest.to_pylist()
    }
    return {key: found[key] for key in sorted(found)}


def _agreed(marks: Iterable[Mark]) -> list[Mark]:
    """Return one mark per partition, sorted. Raises BadInput when two log directories disagree."""
    found: dict[tuple[str, int], Mark] = {}
    for mark in marks:
        if mark.partition < 0:
            raise BadInput(
                "not in a partition's directory (TOPIC-N): it cannot be told which partition this is"
            )
        other = found.setdefault((mark.topic, mark.partition), mark)
        if (other.offset, other.log_end) != (mark.offset, mark.log_end):
            raise BadInput(
                f"{mark.topic}-{mark.partition} lies in two log directories that differ: offset {other.offset} of"
                f" {other.log_end}, and {mark.offset} of {mark.log_end}; name one of them"
            )
    return [found[key] for key in sorted(found)]


def export(
    starts: Iterable[Mark],
    ends: Iterable[Mark] | None = None,
    *,
    to: str,
    missing: str = "fail",
    group: str = "",
) -> Export:
    """Export `starts`, and `ends` (exclusive) of ranges, as one of FORMATS.

    `missing` is one of MISSING. `group` is for a CSV of several groups. Raises UsageError (an
    unknown format or word; what the format cannot express), BadInput (partitions without an answer,
    an end before its start).
    """
    for word, allowed, what in (
        (to, FORMATS, "format"),
        (missing, MISSING, "word for partitions without an answer"),
    ):
        if word not in allowed:
            raise UsageError(f"no {what} {word!r}; there are {', '.join(allowed)}")
    first = _agreed(starts)
    if not first:
        raise UsageError("there is no partition to export")
    last = None if ends is None else _paired(first, _agreed(ends))
    if (
        last is not None
        and not first[0].word + last[0].word
        and last[0].target_ms < first[0].target_ms
    ):
        raise UsageError(
            f"the range ends at {last[0].target_ms}, before it begins at {first[0].target_ms}"
        )
    return _WRITERS[to](first, last, missing, group)


def _paired(starts: Sequence[Mark], ends: Sequence[Mark]) -> list[Mark]:
    """Return an end for every start. Raises BadInput for a partition that only the ends have."""
    known = {(mark.topic, mark.partition): mark for mark in ends}
    target, word = next(((mark.target_ms, mark.word) for mark in ends), (-1, ""))
    found = [
        known.pop(
            (mark.topic, mark.partition),
            Mark(mark.topic, mark.partition, target, reason="not-covered", word=word),
        )
        for mark in starts
    ]
    if known:
        raise BadInput(f"there is an end but no start for {_names(known.values())}")
    return found


# ---------------------------------------------------------------- offsets


class _Filled(NamedTuple):
    mark: Mark
    value: int | None
    """None: left out."""
    note: Note | None


def _filled(marks: Iterable[Mark], side: str, missing: str) -> list[_Filled]:
    return [_fill(mark, side, missing) for mark in marks]


def _fill(mark: Mark, side: str, missing: str) -> _Filled:
    """Return the offset to write for a mark.

    A time past the last record maps to the log end offset, where the next record will be. A deleted
    record maps to the log start offset if `missing` is `all`.
    """
    if _answers(mark):
        return _Filled(mark, mark.offset, None)
    word = "none" if mark.reason == "past-end" else missing
    log_start = mark.log_start if mark.log_start >= 0 else EARLIEST
    log_end = mark.log_end if mark.log_end >= 0 else LATEST
    every = log_start if side == "start" or mark.gone >= 0 else log_end
    value = {"all": every, "none": log_end}.get(word)
    return _Filled(mark, value, Note(mark.topic, mark.partition, side, mark.reason, value))


def _answers(mark: Mark) -> bool:
    return mark.offset >= 0 and mark.gone < 0


def _refuse(marks: Sequence[Mark], why: str) -> None:
    if marks:
        raise BadInput(f"{why}: {_names(marks)}")


def _names(marks: Iterable[Mark]) -> str:
    marks = list(marks)
    more = f" and {len(marks) - _SHOWN} more" if len(marks) > _SHOWN else ""
    told = (
        f"{m.topic}-{m.partition} ({': '.join(filter(None, (m.reason, m.evidence)))})"
        for m in marks[:_SHOWN]
    )
    return ", ".join(told) + more


def _notes(*sides: Iterable[_Filled]) -> list[Note]:
    return [filled.note for side in sides for filled in side if filled.note]


# ---------------------------------------------------------------- Spark


def _spark_offsets(starts: list[Mark], ends: list[Mark] | None, missing: str, group: str) -> Export:
    sides = _spark_sides(starts, ends, missing)
    options = {"assign": _assigned(starts)}
    for name, side in zip(("startingOffsets", "endingOffsets"), sides, strict=False):
        options[name] = _per_partition(side)
    if ends is not None:
        _check_ranges(*sides)
    return Export(_options_text(options), len(starts), _notes(*sides))


def _spark_sides(starts: list[Mark], ends: list[Mark] | None, missing: str) -> list[list[_Filled]]:
    if missing == "leave":
        raise UsageError(
            "Spark wants an offset for each partition: none can be left out; say all, or none"
        )
    sides = [_filled(starts, "start", missing)]
    if ends is not None:
        sides.append(_filled(ends, "end", missing))
    without = {
        (f.mark.topic, f.mark.partition): f.mark for side in sides for f in side if f.value is None
    }
    _refuse(list(without.values()), "no answer, and nothing said about what to do then")
    return sides


def _check_ranges(starts: list[_Filled], ends: list[_Filled]) -> None:
    wrong = [
        first.mark
        for first, last in zip(starts, ends, strict=True)
        if first.value is not None and last.value is not None and first.value > last.value >= 0
    ]
    _refuse(wrong, "the range ends before it begins")


def _assigned(marks: Iterable[Mark]) -> str:
    found: dict[str, list[int]] = {}
    for mark in marks:
        found.setdefault(mark.topic, []).append(mark.partition)
    return _compact(found)


def _per_partition(side: Iterable[_Filled]) -> str:
    found: dict[str, dict[str, int | None]] = {}
    for mark, value, _ in side:
        found.setdefault(mark.topic, {})[str(mark.partition)] = value
    return _compact(found)


def _spark_by_timestamp(
    starts: list[Mark], ends: list[Mark] | None, missing: str, group: str
) -> Export:
    """Write times, for which Spark asks the brokers, so the brokers' answers count.

    Where they have none Spark fails, or (its strategy `latest`) begins at the log end.
    """
    if missing in ("leave", "all"):
        raise UsageError(
            f"by timestamps Spark can begin at what it finds, or at the log end: {missing!r} cannot be said"
        )
    if any(mark.word for mark in [*starts, *(ends or [])]):
        raise UsageError("earliest, latest and max-timestamp are no times: take spark-offsets")
    _refuse(
        [mark for mark in [*starts, *(ends or [])] if _time_for_brokers(mark) < 0],
        "Kafka's clients ask for no time before 1970, and the answer is a record from then: take spark-offsets",
    )
    without = [mark for mark in starts if not mark.broker or mark.offset < 0]
    if missing == "fail":
        _refuse(
            [m for m in without if m.reason != "past-end"],
            "a broker finds nothing, and nothing said about that",
        )
    options = {
        "assign": _assigned(starts),
        "startingOffsetsByTimestamp": _per_partition(_times(starts)),
    }
    if without:
        options["startingOffsetsByTimestampStrategy"] = "latest"
    if ends is not None:
        options["endingOffsetsByTimestamp"] = _per_partition(_times(ends))
    notes = [Note(m.topic, m.partition, "start", m.reason, LATEST) for m in without]
    notes += [
        Note(m.topic, m.partition, "end", m.reason, LATEST)
        for m in ends or []
        if not m.broker or m.offset < 0
    ]
    return Export(_options_text(options), len(starts), notes)


def _times(marks: Iterable[Mark]) -> list[_Filled]:
    return [_Filled(mark, _time_for_brokers(mark), None) for mark in marks]


def _time_for_brokers(mark: Mark) -> int:
    """Return a time that leads brokers to the same record.

    Before 1970 this is the record's own time, since earlier records have earlier times. It is 0
    without a record: none is later.
    """
    if mark.target_ms >= 0:
        return mark.target_ms
    return mark.timestamp if mark.offset >= 0 else 0


def _options_text(options: Mapping[str, str]) -> str:
    return json.dumps(options, indent=1) + "\n"


def _compact(value: object) -> str:
    return json.dumps(value, separators=(",", ":"))


# ---------------------------------------------------------------- Kafka's tool


def _group_csv(starts: list[Mark], ends: list[Mark] | None, missing: str, group: str) -> Export:
    """Write `[GROUP,]TOPIC,PARTITION,OFFSET` without a header, for `CsvUtils` of Kafka 0.11 to 4.3.

    -1 and -2 have no meaning there: the tool rejects the whole file for one of them.
    """
    if ends is not None:
        raise UsageError(
            "a group has one offset in each partition: it cannot be given the end of a range"
        )
    if any(c in group for c in '",\r\n'):
        raise UsageError(f"the group {group!r} cannot be said in the CSV of Kafka's tool")
    filled = _filled(starts, "start", missing)
    unknown = [
        f.mark
        for f in filled
        if (f.value is None and missing != "leave") or (f.value is not None and f.value < 0)
    ]
    _refuse(unknown, "no offset to write")
    lines = [
        ",".join([*([group] if group else []), f.mark.topic, str(f.mark.partition), str(f.value)])
        for f in filled
        if f.value is not None
    ]
    return Export("".join(f"{line}\n" for line in lines), len(lines), _notes(filled))


# ---------------------------------------------------------------- JSON


def _json(starts: list[Mark], ends: list[Mark] | None, missing: str, group: str) -> Export:
    """Write the answers unchanged. A missing answer is null."""
    partitions = [
        {"topic": start.topic, "partition": start.partition}
        | {
            "log_start_offset": _known(start.log_start),
            "log_end_offset": _known(start.log_end),
            "start": _told(start),
        }
        | ({} if ends is None else {"end": _told(ends[number])})
        for number, start in enumerate(starts)
    ]
    asked = {start.target_ms for start in starts}
    document: dict[str, Any] = {"version": _VERSION, "at": asked.pop() if len(asked) == 1 else None}
    if starts[0].word:
        document["at_word"] = starts[0].word
    if ends is not None:
        document["until"] = max(end.target_ms for end in ends)
        if ends[0].word:
            document["until_word"] = ends[0].word
    notes = [
        Note(mark.topic, mark.partition, side, mark.reason, _known(mark.offset))
        for side, found in (("start", starts), ("end", ends or []))
        for mark in found
        if not _answers(mark)
    ]
    return Export(
        json.dumps(document | {"partitions": partitions}, indent=1) + "\n", len(starts), notes
    )


def _told(mark: Mark) -> dict[str, Any]:
    told: dict[str, Any] = {
        "target_ms": mark.target_ms,
        "offset": _known(mark.offset),
        "timestamp": None if mark.timestamp == -1 else mark.timestamp,
        "reason": mark.reason,
    }
    return told | {"evidence": mark.evidence}


def _known(value: int) -> int | None:
    return value if value >= 0 else None


_Writer = Callable[[list[Mark], "list[Mark] | None", str, str], Export]
_WRITERS: Final[Mapping[str, _Writer]] = {
    "spark-offsets": _spark_offsets,
    "spark-by-timestamp": _spark_by_timestamp,
    "group-csv": _group_csv,
    "json": _json,
}
