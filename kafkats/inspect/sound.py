"""The rows of segments in which nothing is wrong, for many segments at once and by columns.

`index.ends` looks at the files of a partition directory together. What it leaves out, and what the
other files of the directory state something against, is left to the caller, segment by segment.

    sound_segments     by whole indexes, with checksums: what `tails` and `verify` would say
    sound_inventory    by last entries, without: what `inventory` would say
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from itertools import chain, groupby
from typing import Final, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from kafkats import paths
from kafkats.errors import KafkatsError
from kafkats.evidence.judging import segment_evidence, told_at
from kafkats.findings import Finding
from kafkats.generations import DEFAULT_RULE
from kafkats.index.ends import Place, facts_of, read_bytes, sound_ends, sound_tails
from kafkats.inspect.verify import VerifyOptions, evidence_of, overlap_of
from kafkats.kernels import ends_state as e
from kafkats.plans.facts import FILE, SEGMENTS
from kafkats.plans.units import Unit
from kafkats.segment.facts import SegmentFacts
from kafkats.segment.reader import read_so_far

Ints = NDArray[np.int64]

_COLUMNS: Final = {
    "base_offset": e.BASE_OFFSET,
    "valid_bytes": e.LOG_BYTES,
    "batches": e.BATCHES,
    "records": e.RECORDS,
    "first_offset": e.FIRST_OFFSET,
    "last_offset": e.LAST_OFFSET,
    "first_timestamp": e.FIRST_TIMESTAMP,
    "max_timestamp": e.MAX_TIMESTAMP,
    "offset_of_max_timestamp": e.MAX_TIMESTAMP_OFFSET,
}
"""Columns of facts.SEGMENTS, and those of ends_state that hold the same."""
_OF_ENDS: Final = tuple(
    map(paths.SEGMENT_KINDS.index, (paths.LOG, paths.OFFSET_INDEX, paths.TIME_INDEX))
)
_NO_FILE: Final = (-1, -1, -1, -1)


class Sound(NamedTuple):
    """Segments in which nothing is wrong: their numbers in what was asked for, in order.

    `rows` are rows of facts.SEGMENTS, `read` the bytes that were read for each.
    """

    numbers: Ints
    rows: pa.RecordBatch
    read: Ints

    def among(
        self, numbers: Sequence[int], others: pa.RecordBatch, rows: pa.RecordBatch
    ) -> pa.RecordBatch:
        """Return `rows`, made of those of this, and `others` of these numbers, in order."""
        order = np.concatenate([self.numbers, np.array(numbers, np.int64)]).argsort(kind="stable")
        return pa.concat_batches([rows, others]).take(pa.array(order)) if len(numbers) else rows


class _Segments(NamedTuple):
    """Segments: their numbers in what was asked for, and columns. Those of a partition directory
    follow one another.
    """

    numbers: list[int]
    units: list[Unit]
    files: Ints
    """Shape (segments, SEGMENT_KINDS, 4), -1 where there is no such file."""
    places: list[Place]

    @property
    def bases(self) -> list[int]:
        return [unit.base_offset for unit in self.units]

    @property
    def sizes(self) -> Ints:
        """The bytes of .log, .index and .timeindex, shape (segments, 3)."""
        sizes: Ints = self.files[:, _OF_ENDS, 0]
        return sizes


def sound_segments(units: Sequence[Unit], options: VerifyOptions) -> Sound:
    """Look at the ends of the segments among `units`, and return those in which nothing is wrong.

    A segment that a broker would recover is left out: it is read whole.
    """

    def stated(unit: Unit, facts: SegmentFacts) -> Iterable[Finding]:
        settings = options.settings(unit.partition_dir)
        found = (*overlap_of(unit, facts), *evidence_of(unit, facts, (), settings))
        return told_at(found, deep=options.deep)

    chosen = [(n, one) for n, one in enumerate(units) if one.base_offset >= 0 and not one.recovery]
    asked = _segments(chosen)
    rows = sound_ends(asked.places, asked.bases, asked.sizes)
    begin = 0
    for place in asked.places:
        least = options.settings(asked.units[begin].partition_dir).index_interval_bytes
        if least is not None:
            ours = rows[begin : begin + place.segments]
            ours[ours[:, e.LARGEST] < least, e.SOUND] = 0
        begin += place.segments
    return _sound(asked, rows, stated, options.rule)


def sound_inventory(units: Sequence[Unit]) -> Sound:
    """Look at the last entries and batches of the segments among `units`, as `sound_segments`."""

    def stated(unit: Unit, facts: SegmentFacts) -> Iterable[Finding]:
        following = unit.next_base_offset
        if unit.claims is None:
            return ()
        found = segment_evidence(unit.directory, unit.claims, facts, (), next_base_offset=following)
        return told_at(found, deep=False)

    asked = _segments([(n, unit) for n, unit in enumerate(units) if unit.base_offset >= 0])
    rows = sound_tails(asked.places, asked.bases, asked.sizes)
    return _sound(asked, rows, stated, DEFAULT_RULE.name)


_Stated: TypeAlias = Callable[[Unit, SegmentFacts], Iterable[Finding]]


def _sound(asked: _Segments, rows: Ints, stated: _Stated, rule: str) -> Sound:
    """Return the segments that are sound by their row of ends_state, and by what is `stated`."""
    more = _evidence(asked.units, rows, stated)
    kept = np.flatnonzero(rows[:, e.SOUND])
    numbers, rows = np.array(asked.numbers, np.int64)[kept], rows[kept]
    batch = _batch([asked.units[n] for n in kept.tolist()], asked.files[kept], rows, rule)
    return Sound(numbers, batch, read_bytes(rows) + more[kept])


def _segments(asked: Sequence[tuple[int, Unit]]) -> _Segments:
    files = chain.from_iterable(file or _NO_FILE for _, unit in asked for file in unit.files)
    places = [
        Place(f"{log_dir}/{name}", sum(1 for _ in group))
        for (log_dir, name), group in groupby(asked, _place)
    ]
    shape = (len(asked), len(paths.SEGMENT_KINDS), len(_NO_FILE))
    columns = np.fromiter(files, np.int64, math.prod(shape)).reshape(shape)
    return _Segments([n for n, _ in asked], [unit for _, unit in asked], columns, places)


def _place(one: tuple[int, Unit]) -> tuple[str, str]:
    return one[1].log_dir, one[1].partition_dir


def _evidence(units: Sequence[Unit], rows: Ints, stated: _Stated) -> Ints:
    """Take SOUND from the rows that the next segment or other files contradict: `stated` tells.

    Nothing is stated against a segment between others that ends where the next one begins, nor
    against a first one at offset 0. Return how many bytes were read for that, by row.
    """
    read = np.zeros(len(rows), np.int64)
    following = np.array([unit.next_base_offset for unit in units], np.int64)
    first = np.array([unit.claims.first_base if unit.claims else -1 for unit in units], np.int64)
    asked = (following < 0) | (following != rows[:, e.NEXT_OFFSET])
    asked |= (rows[:, e.BASE_OFFSET] == first) & (first > 0)
    for number in np.flatnonzero(asked & (rows[:, e.SOUND] == 1)).tolist():
        before = read_so_far()
        try:
            found = tuple(stated(units[number], facts_of(rows[number].tolist())))
        except KafkatsError:  # looking at this segment alone says what it means
            rows[number, e.SOUND] = 0
        else:
            rows[number, e.SOUND] = int(not found)
        read[number] = read_so_far() - before
    return read


def _batch(units: Sequence[Unit], files: Ints, rows: Ints, rule: str) -> pa.RecordBatch:
    """Return rows of facts.SEGMENTS of depth tail."""
    count = len(units)
    name_of = cache(paths.partition_name)
    names = [name_of(unit.partition_dir) for unit in units]
    columns: dict[str, Iterable[object] | pa.Array] = {
        name: rows[:, column] for name, column in _COLUMNS.items()
    }
    for n, kind in enumerate(paths.SEGMENT_KINDS):
        columns[kind.removeprefix(".")] = _files(files[:, n])
    columns |= {
        "log_dir": [unit.log_dir for unit in units],
        "partition_dir": [unit.partition_dir for unit in units],
        "directory_ctime_ns": [unit.directory_ctime_ns for unit in units],
        "topic": [name.topic for name in names],
        "partition": [name.partition for name in names],
        "next_base_offset": [unit.next_base_offset for unit in units],
        "active": [unit.active for unit in units],
        "clean": [unit.clean for unit in units],
        "recovery": [unit.recovery for unit in units],
        "rule": _same(rule, count),
        "log_start_offset": [unit.log_start_offset for unit in units],
        "high_watermark": [unit.high_watermark for unit in units],
        "depth": _same("tail", count),
        "stop": _same("", count),
        "magic_bytes": _fixed(rows[:, e.MAGICS : e.CODECS]),
        "codec_batches": _fixed(rows[:, e.CODECS : e.CONTROL]),
        "worst": _same("", count),
        "findings": [[]] * count,
    }
    arrays = [
        pa.array(columns[field.name], field.type)
        if field.name in columns
        else pa.nulls(count, field.type)
        for field in SEGMENTS
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=SEGMENTS)


def _files(identities: Ints) -> pa.StructArray:
    values = [pa.array(identities[:, n]) for n in range(4)]
    return pa.StructArray.from_arrays(
        values, fields=list(FILE), mask=pa.array(identities[:, 0] < 0)
    )


def _same(text: str, count: int) -> pa.Array:
    return pa.repeat(pa.scalar(text, pa.string()), count)


def _fixed(values: Ints) -> pa.FixedSizeListArray:
    return pa.FixedSizeListArray.from_arrays(pa.array(values.reshape(-1)), values.shape[1])
