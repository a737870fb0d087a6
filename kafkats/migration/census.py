"""The census: the bytes on the disks by magic, codec and timestamp type, and who loses zero-copy.

Formats are known only from every batch header, so the census walks whole logs and checks their
checksums. There is no other source: a topic's settings tell the format of the next write, not of
stored batches (KIP-724).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, Final, NamedTuple, TypedDict

import pyarrow as pa
import pyarrow.compute as pc

from kafkats import paths
from kafkats.compression import Codec
from kafkats.errors import KafkatsError
from kafkats.findings import KINDS, Finding, failure
from kafkats.formats.model import TimestampType
from kafkats.plans.columns import batch_of
from kafkats.plans.facts import DIRECTORY
from kafkats.plans.rows import grouped
from kafkats.plans.settling import settled
from kafkats.plans.units import Unit, unseen
from kafkats.segment.census import Census, take_census
from kafkats.segment.facts import Cell

CENSUS: Final = pa.schema([
    *DIRECTORY,
    ("topic", pa.string()),
    ("partition", pa.int32()),
    ("base_offset", pa.int64()),       # -1: a problem of a directory
    ("magic", pa.int8()),              # -1: a row without batches, see `problem`
    ("codec", pa.string()),            # none, gzip, snappy, lz4, zstd
    ("timestamp_type", pa.string()),   # none (magic 0), CreateTime, LogAppendTime
    ("bytes", pa.int64()),
    ("batches", pa.int64()),           # magic 0 and 1: messages and wrappers
    ("records", pa.int64()),           # -1: in wrappers that were not decompressed
    ("control_batches", pa.int64()),
    ("transactional_batches", pa.int64()),
    ("producer_batches", pa.int64()),  # with a producer id
    ("delete_horizon_batches", pa.int64()),
    # a kind of `findings.KINDS` if something was unreadable or is wrong, else ""
    ("problem", pa.string()),
    ("reason", pa.string()),
])  # fmt: skip
"""One row per segment, magic, codec and timestamp type.

Rows of magic -1 are for bytes without batches: those after the last good batch, or another problem.
An empty segment has one such row without a problem. So the bytes of a segment's rows add up to its
file's.
"""

CELL: Final = ("magic", "codec", "timestamp_type", "problem")
GROUPS: Final = {
    "segment": ("log_dir", "partition_dir", "base_offset"),
    "partition": ("log_dir", "partition_dir"),
    "topic": ("log_dir", "topic"),
    "volume": ("log_dir",),
    "format": (),
}
Row = dict[str, str | int]
GroupRow = dict[str, Any]
_FLAGS: Final = (
    "control_batches",
    "transactional_batches",
    "producer_batches",
    "delete_horizon_batches",
)
_SUMMED: Final = ("segments", "bytes", "batches", "records", *_FLAGS)
CONVERTED: Final = (
    "bytes",
    "fetch_0_1_converted",
    "fetch_0_1_beside",
    "fetch_2_3_converted",
    "fetch_2_3_beside",
    "fetch_4_up_converted",
    "zstd_bytes",
)
_TYPES: Final = {
    TimestampType.NONE: "none",
    TimestampType.CREATE_TIME: "CreateTime",
    TimestampType.LOG_APPEND_TIME: "LogAppendTime",
}
_CODECS: Final = {int(codec): codec.name.lower() for codec in Codec}


def census_unit(unit: Unit, *, deep: bool = False) -> pa.RecordBatch:
    """Return rows of CENSUS for one unit. `deep` also counts the records in wrappers.

    An unreadable file becomes a row of magic -1, not an error. Any process that sees the files may
    call this.
    """
    return batch_of(list(_rows(unit, deep)), CENSUS)


def _rows(unit: Unit, deep: bool) -> Iterator[Row]:
    name = paths.partition_name(unit.partition_dir)
    where: Row = unit.key._asdict() | {"topic": name.topic, "partition": name.partition}
    if unit.base_offset < 0:
        _, _, findings, _ = settled(unit, lambda now: (None, tuple(unseen(now))))
        yield from (where | _problem(finding.kind, finding.reason) for finding in findings)
        return
    now, census, findings, _ = settled(unit, lambda now: _census(now, deep))
    if census is not None:
        yield from (where | _cell(cell) for cell in census.cells)
    yield from (where | row for row in _rest(census, findings, now.bytes))


def look_at_formats(unit: Unit, *, deep: bool, upto: int = 0) -> Census:
    """Take the census of the unit's segment. Raises as `take_census`."""
    return take_census(
        unit.log,
        unit.base_offset,
        active=unit.active,
        clean=unit.clean,
        live=unit.live,
        deep=deep,
        upto=upto,
    )


def _census(unit: Unit, deep: bool) -> tuple[Census | None, tuple[Finding, ...]]:
    try:
        census = look_at_formats(unit, deep=deep)
    except KafkatsError as e:
        return None, (failure(unit.log.name, e),)
    return census, census.findings


def _cell(cell: Cell) -> Row:
    return cell._asdict() | {
        "codec": _CODECS.get(cell.codec, f"codec {cell.codec}"),
        "timestamp_type": _TYPES[cell.timestamp_type],
        "problem": "",
        "reason": "",
    }


def _rest(census: Census | None, findings: Sequence[Finding], size: int) -> Iterator[Row]:
    """Yield the problems, the first with the unwalked bytes, and a row for an empty segment."""
    left = size if census is None else census.facts.log_bytes - census.facts.valid_bytes
    for finding in findings:
        yield _problem(finding.kind, finding.reason, left)
        left = 0
    if census is not None and not census.facts.log_bytes:
        yield _problem("", "")


def _problem(kind: str, reason: str, size: int = 0) -> Row:
    """Return a row of magic -1, for `size` bytes without batches."""
    return {
        "magic": -1,
        "codec": "",
        "timestamp_type": "",
        "bytes": size,
        **dict.fromkeys(("batches", "records", *_FLAGS), 0),
        "problem": kind,
        "reason": reason,
    }


def group_census(census: pa.Table, by: str) -> list[GroupRow]:
    """Sum up by segment, partition, topic or volume; `format` sums up all.

    `share` is the share of the bytes of that segment, partition, topic or volume. `segments` counts
    those with such batches.
    """
    keys = list(GROUPS[by])
    order = [(name, "ascending") for name in (*keys, *CELL)]
    summed = _summed(census, [*keys, *CELL]).sort_by(order).to_pylist()
    totals: Counter[tuple[str | int, ...]] = Counter()
    for row in summed:
        totals[tuple(row[key] for key in keys)] += row["bytes_sum"]
    return [
        {name: row[name] for name in (*keys, *CELL)}
        | {
            "segments": row["base_offset_count"],
            "bytes": row["bytes_sum"],
            "share": round(row["bytes_sum"] / max(totals[tuple(row[key] for key in keys)], 1), 4),
            "batches": row["batches_sum"],
            "records": row["records_sum"] if row["records_min"] >= 0 else -1,
        }
        | {name: row[f"{name}_sum"] for name in _FLAGS}
        for row in summed
        if row["bytes_sum"] or row["problem"]
    ]


def _summed(census: pa.Table, keys: list[str]) -> pa.Table:
    sums = [(name, "sum") for name in ("bytes", "batches", "records", *_FLAGS)]
    counts = [("base_offset", "count"), ("records", "min")]
    return grouped(census.combine_chunks(), keys, [*sums, *counts])


def _where_at_least(census: pa.Table, name: str, least: int) -> pa.Table:
    # A census has one batch per unit. On a table of as many chunks everything is a hundred times
    # slower.
    whole = census.combine_chunks()
    return whole.filter(pc.greater_equal(whole[name], least))


class Summary(TypedDict):
    """The counts of a census; those by magic are lists of three."""

    segments: int
    partitions: int
    log_bytes: int
    magic_bytes: list[int]
    magic_batches: list[int]
    problems: dict[str, int]


def summarize(census: pa.Table) -> Summary:
    """Count segments, partitions, bytes and batches per magic, and problems by kind."""
    census = census.combine_chunks()
    real = _where_at_least(census, "base_offset", 0)
    magics = {row["magic"]: row for row in _summed(real, ["magic"]).to_pylist()}
    problems = pc.value_counts(
        census.filter(pc.not_equal(census["problem"], ""))["problem"]
    ).to_pylist()
    return {
        "segments": len(grouped(real, ["log_dir", "partition_dir", "base_offset"])),
        "partitions": len(grouped(real, ["log_dir", "partition_dir"])),
        "log_bytes": sum(row["bytes_sum"] for row in magics.values()),
        "magic_bytes": [magics[m]["bytes_sum"] if m in magics else 0 for m in range(3)],
        "magic_batches": [magics[m]["batches_sum"] if m in magics else 0 for m in range(3)],
        "problems": {
            row["values"]: row["counts"]
            for row in sorted(problems, key=lambda row: str(row["values"]))
        },
    }


def problems(census: pa.Table) -> list[Row]:
    """Return the problems: directory, base offset, kind, severity and reason."""
    names = ["log_dir", "partition_dir", "base_offset", "problem", "reason"]
    whole = census.select(names).combine_chunks()
    rows = whole.filter(pc.not_equal(whole["problem"], "")).to_pylist()
    return [row | {"severity": KINDS[row["problem"]][0]} for row in rows]


class Counts(NamedTuple):
    """The totals of a census: `summarize`, `zero_copy` and `problems`."""

    summary: Summary
    zero_copy: Sequence[Row]
    problems: Sequence[Row]


def counts_of(census: pa.Table) -> Counts:
    """Return the counts of CENSUS."""
    return Counts(summarize(census), zero_copy(census), problems(census))


def sum_of_counts(counts: Sequence[Counts]) -> Counts:
    """Return the counts of parts that have no partition in common, from theirs, in their order."""
    found: Summary = {
        "segments": sum(one.summary["segments"] for one in counts),
        "partitions": sum(one.summary["partitions"] for one in counts),
        "log_bytes": sum(one.summary["log_bytes"] for one in counts),
        "magic_bytes": _by_magic(one.summary["magic_bytes"] for one in counts),
        "magic_batches": _by_magic(one.summary["magic_batches"] for one in counts),
        "problems": {},
    }
    kinds = Counter[str]()
    topics: dict[tuple[str | int, ...], Row] = {}
    for one in counts:
        kinds.update(one.summary["problems"])
        for row in one.zero_copy:
            before = topics.setdefault((row["log_dir"], row["topic"]), row)
            if before is not row:
                sums: Row = {name: int(before[name]) + int(row[name]) for name in CONVERTED}
                topics[row["log_dir"], row["topic"]] = before | sums
    found["problems"] = dict(sorted(kinds.items()))
    losing = [row for _, row in sorted(topics.items(), key=lambda one: one[0])]
    return Counts(found, losing, [row for one in counts for row in one.problems])


def _by_magic(sums: Iterable[Sequence[int]]) -> list[int]:
    return [sum(of_magic) for of_magic in zip(*sums, strict=True)]


def sum_of_groups(groups: Iterable[Sequence[GroupRow]], by: str) -> list[GroupRow]:
    """Return the rows of `group_census` of parts that have no partition in common, from theirs."""
    keys = [*GROUPS[by], *CELL]
    summed: dict[tuple[Any, ...], GroupRow] = {}
    totals: Counter[tuple[Any, ...]] = Counter()
    for row in chain.from_iterable(groups):
        where = tuple(row[key] for key in keys)
        totals[where[: len(GROUPS[by])]] += int(row["bytes"])
        before = summed.setdefault(where, row)
        if before is not row:
            unknown = -1 in (before["records"], row["records"])
            sums = {name: before[name] + row[name] for name in _SUMMED}
            summed[where] = before | sums | ({"records": -1} if unknown else {})
    return [
        row | {"share": round(row["bytes"] / max(totals[where[: len(GROUPS[by])]], 1), 4)}
        for where, row in sorted(summed.items())
    ]


ON_4X: Final = (
    "a 4.x broker converts nothing: it refuses fetch versions 0 to 3 and sends to"
    " all others what is stored"
)


def zero_copy(census: pa.Table) -> list[Row]:
    """Return, per topic of a volume, the bytes that a broker of 0.10 to 3.9 converts on a fetch.

    The broker cannot send them from the file then. A fetch of version 0 or 1 is answered in magic
    0, one of 2 or 3 in magic 1, and later ones in the stored format; newer batches are converted.
    `*_beside` counts the other bytes in segments with newer batches: they lose zero-copy if one
    fetch covers both. `zstd_bytes` cannot be converted: such a fetch fails. Source: KIP-31, KIP-32,
    KafkaApis of 0.11 to 3.9.
    """
    topics: dict[tuple[str, str], dict[str, int]] = {}
    for (log_dir, topic, _, _), segment in _segments(_where_at_least(census, "magic", 0)).items():
        counts = topics.setdefault((log_dir, topic), dict.fromkeys(CONVERTED, 0))
        counts["bytes"] += sum(segment.sizes)
        counts["zstd_bytes"] += segment.zstd
        for name, magic in (("fetch_0_1", 0), ("fetch_2_3", 1)):
            newer = sum(segment.sizes[magic + 1 :])
            counts[f"{name}_converted"] += newer
            counts[f"{name}_beside"] += sum(segment.sizes) - newer if newer else 0
    return [
        {"log_dir": log_dir, "topic": topic, **counts}
        for (log_dir, topic), counts in sorted(topics.items())
    ]


@dataclass
class _Segment:
    """The bytes of a segment by magic, and those in zstd."""

    sizes: list[int]
    zstd: int = 0


def _segments(held: pa.Table) -> dict[tuple[str, str, str, int], _Segment]:
    """Return the segments by log_dir, topic, partition_dir and base_offset."""
    keys = ["log_dir", "topic", "partition_dir", "base_offset", "magic", "codec"]
    groups = grouped(held, keys, [("bytes", "sum")])
    segments: dict[tuple[str, str, str, int], _Segment] = {}
    columns = (groups[name].to_pylist() for name in (*keys, "bytes_sum"))
    for row in zip(*columns, strict=True):
        magic, codec, size = row[4:]
        segment = segments.setdefault(row[:4], _Segment([0, 0, 0]))
        segment.sizes[magic] += size
        segment.zstd += size if codec == "zstd" else 0
    return segments
