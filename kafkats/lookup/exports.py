"""Write answers of a search by time for Spark's Kafka source, Kafka's group reset, or as JSON.

    export(starts, to="spark-offsets").text     starts of kafkats.lookup.marks

Every requested partition appears in the export, in the exception message, or (`leave`) in the
notes. See docs/exports.md.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from kafkats.errors import BadInput, UsageError
from kafkats.lookup.marks import Mark, one_per_partition

FORMATS: Final = ("spark-offsets", "spark-by-timestamp", "group-csv", "json")
MISSING: Final = {
    "fail": "refuse to export, and name them",
    "all": "from the log start (and to the log end): too much rather than too little",
    "none": "from the log end (and to it): nothing that is there now",
    "leave": "leave them out, and name them: a group keeps what it has committed there",
}
"""The ways to treat partitions without an answer."""
LATEST: Final = -1
EARLIEST: Final = -2
"""Offsets with a special meaning in Spark."""
_SHOWN: Final = 5
_VERSION: Final = 1


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
    first = one_per_partition(starts)
    if not first:
        raise UsageError("there is no partition to export")
    last = None if ends is None else _paired(first, one_per_partition(ends))
    if (
        last is not None
        and not first[0].word + last[0].word
        and last[0].target_ms < first[0].target_ms
    ):
        raise UsageError(
            f"the range ends at {last[0].target_ms}, before it begins at {first[0].target_ms}"
        )
    return _WRITERS[to](_Request(first, last, missing, group))


class _Request(NamedTuple):
    """The arguments of `export`, one mark for each partition."""

    starts: list[Mark]
    ends: list[Mark] | None
    missing: str
    group: str


def _paired(starts: Sequence[Mark], ends: Sequence[Mark]) -> list[Mark]:
    """Return an end for every start. Raises BadInput for a partition that only the ends have."""
    known = {(mark.topic, mark.partition): mark for mark in ends}
    target, word = next(((mark.target_ms, mark.word) for mark in ends), (-1, ""))
    pairs = [
        known.pop(
            (mark.topic, mark.partition),
            Mark(mark.topic, mark.partition, target, reason="not-covered", word=word),
        )
        for mark in starts
    ]
    if known:
        raise BadInput(f"there is an end but no start for {_names(known.values())}")
    return pairs


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
    named = (
        f"{m.topic}-{m.partition} ({': '.join(filter(None, (m.reason, m.evidence)))})"
        for m in marks[:_SHOWN]
    )
    return ", ".join(named) + more


def _notes(*sides: Iterable[_Filled]) -> list[Note]:
    return [filled.note for side in sides for filled in side if filled.note]


# ---------------------------------------------------------------- Spark


def _spark_offsets(request: _Request) -> Export:
    starts, ends = request.starts, request.ends
    sides = _spark_sides(starts, ends, request.missing)
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
    partitions: dict[str, list[int]] = {}
    for mark in marks:
        partitions.setdefault(mark.topic, []).append(mark.partition)
    return _compact(partitions)


def _per_partition(side: Iterable[_Filled]) -> str:
    values: dict[str, dict[str, int | None]] = {}
    for mark, value, _ in side:
        values.setdefault(mark.topic, {})[str(mark.partition)] = value
    return _compact(values)


def _spark_by_timestamp(request: _Request) -> Export:
    """Write times, for which Spark asks the brokers, so the brokers' answers count.

    Where they have none Spark fails, or (its strategy `latest`) begins at the log end.
    """
    starts, ends, missing, _ = request
    if missing in ("leave", "all"):
        raise UsageError(
            "by timestamps Spark begins at the offset it finds, or at the log end:"
            f" {missing!r} is not possible"
        )
    if any(mark.word for mark in [*starts, *(ends or [])]):
        raise UsageError("earliest, latest and max-timestamp are no times: take spark-offsets")
    _refuse(
        [mark for mark in [*starts, *(ends or [])] if _time_for_brokers(mark) < 0],
        "Kafka's clients ask for no time before 1970, and the answer is a record from then:"
        " take spark-offsets",
    )
    without = _unknown_to_brokers(starts)
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
    notes = [
        Note(mark.topic, mark.partition, side, mark.reason, LATEST)
        for side, marks in (("start", without), ("end", _unknown_to_brokers(ends or [])))
        for mark in marks
    ]
    return Export(_options_text(options), len(starts), notes)


def _unknown_to_brokers(marks: Iterable[Mark]) -> list[Mark]:
    return [mark for mark in marks if not mark.broker or mark.offset < 0]


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


def _group_csv(request: _Request) -> Export:
    """Write `[GROUP,]TOPIC,PARTITION,OFFSET` without a header, for `CsvUtils` of Kafka 0.11 to 4.3.

    -1 and -2 have no meaning there: the tool rejects the whole file for one of them.
    """
    starts, ends, missing, group = request
    if ends is not None:
        raise UsageError(
            "a group has one offset in each partition: it cannot be given the end of a range"
        )
    for what, name in (("group", group), *(("topic", mark.topic) for mark in starts)):
        if any(c in name for c in '",\r\n'):  # it would become a line about another partition
            raise UsageError(f"the CSV of Kafka's tool has no way to write the {what} {name!r}")
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


def _json(request: _Request) -> Export:
    """Write the answers unchanged. A missing answer is null."""
    starts, ends = request.starts, request.ends
    partitions = [
        {
            "topic": start.topic,
            "partition": start.partition,
            "log_start_offset": _known(start.log_start),
            "log_end_offset": _known(start.log_end),
            "start": _answer(start),
        }
        | ({} if ends is None else {"end": _answer(ends[number])})
        for number, start in enumerate(starts)
    ]
    targets = {start.target_ms for start in starts}
    document = {
        "version": _VERSION,
        "at": targets.pop() if len(targets) == 1 else None,
        **({"at_word": starts[0].word} if starts[0].word else {}),
        **({} if ends is None else {"until": max(end.target_ms for end in ends)}),
        **({"until_word": ends[0].word} if ends and ends[0].word else {}),
        "partitions": partitions,
    }
    notes = [
        Note(mark.topic, mark.partition, side, mark.reason, _known(mark.offset))
        for side, marks in (("start", starts), ("end", ends or []))
        for mark in marks
        if not _answers(mark)
    ]
    return Export(json.dumps(document, indent=1) + "\n", len(starts), notes)


def _answer(mark: Mark) -> dict[str, int | str | None]:
    return {
        "target_ms": mark.target_ms,
        "offset": _known(mark.offset),
        "timestamp": None if mark.timestamp == -1 else mark.timestamp,
        "reason": mark.reason,
        "evidence": mark.evidence,
    }


def _known(value: int) -> int | None:
    return value if value >= 0 else None


_Writer = Callable[[_Request], Export]
_WRITERS: Final[Mapping[str, _Writer]] = {
    "spark-offsets": _spark_offsets,
    "spark-by-timestamp": _spark_by_timestamp,
    "group-csv": _group_csv,
    "json": _json,
}
