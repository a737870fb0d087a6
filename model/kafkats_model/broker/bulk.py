"""Many appends in one go, by kernels: common sets are judged and made without their records.

The results are those of `PartitionLog.append_as_leader` and `append_as_follower`, set by set. What
the kernels decline goes there, so these alone say what is wrong. One write holds many sets.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kafkats import paths
from kafkats.formats import dispatch, v2
from kafkats.formats.framing import MAGIC_AT, MIN_SIZE, OVERHEAD
from kafkats.formats.model import Codec
from kafkats.generations import MAX_RELATIVE_OFFSET
from kafkats.index import time_index
from kafkats.kernels.crc import crc_addresses
from kafkats.kernels.layout import PRODUCER_ID_AT
from kafkats.primitives import Buffer, view
from kafkats.rolling import rules as rolling
from kafkats_model.broker import files
from kafkats_model.broker.active import ActiveSegment
from kafkats_model.broker.partition_log import PartitionLog
from kafkats_model.broker.set_judge import ALL_MAGICS, Judged, SetJudge
from kafkats_model.broker.validate import Largest
from kafkats_model.errors import Rejected
from kafkats_model.kernels import append_checks as c
from kafkats_model.kernels import appends as k

_FOREVER: Final = 2**63 - 1
_TOP: Final = 2**62
_SMALLEST: Final = OVERHEAD + MIN_SIZE
"""Bytes of the smallest batch: a message of magic 0."""
_NEGATIVE: Final = 0x80
"""The first byte of a negative number is this or larger."""


@dataclass
class SetsAppended:
    """The result of many appends of a leader."""

    outcomes: Counter[str] = field(default_factory=Counter)
    """Sets by what was done: `in place`, `converted`, `recompressed`, `rejected`."""
    bytes: int = 0
    """As they are appended."""
    rejected: str = ""
    """The reason of the first set that was rejected."""


def append_sets(
    log: PartitionLog,
    sets: NDArray[np.uint8],
    ends: Sequence[int],
    *,
    now_ms: int,
    leader_epoch: int,
    check: Callable[[bytes], None] = lambda data: None,
    magics: Collection[int] = ALL_MAGICS,
    last_codec: int = Codec.ZSTD,
) -> SetsAppended:
    """Judge the message sets of producers, and append those that are accepted.

    `ends` are the ends of the sets in bytes; `sets` are rewritten. The log is the same as after
    `append_as_leader` of each set. A rejected set is left out. `check` raises Rejected for a set
    that the request does not carry. It does carry those of `magics` with codecs up to
    `last_codec`. Raises StorageFailed.
    """
    judge = SetJudge(log.topic, log.generation.leader, magics, last_codec)
    done, number, begin = SetsAppended(), 0, 0
    limits = np.asarray(ends, np.int64)
    stops = _next_with_producer(sets, limits)
    while number < len(limits):
        count, stop = 0, int(stops[number])
        if stop > number and _is_settled(log, leader_epoch):
            judged = judge.judge(
                sets[begin:], limits[number:stop] - begin,
                now_ms=now_ms, offset=log.log_end_offset, leader_epoch=leader_epoch,
            )  # fmt: skip
            _append_judged(log, judged, now_ms)
            done.outcomes.update(judged.outcomes)
            done.bytes += len(judged.data)
            count = len(judged.rows)
        if not count:
            end = int(limits[number])
            try:
                check(data := sets[begin:end].tobytes())
                made = log.append_as_leader(data, now_ms=now_ms, leader_epoch=leader_epoch)
                done.outcomes[made.how] += 1
                done.bytes += len(made.data)
            except Rejected as e:
                done.outcomes["rejected"] += 1
                done.rejected = done.rejected or e.reason
            count = 1
        number += count
        begin = int(limits[number - 1])
    return done


def _next_with_producer(sets: NDArray[np.uint8], limits: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return for each set the number of the next one that names a producer, which has a state."""
    starts = np.append(0, limits[:-1])
    whole = np.flatnonzero(limits - starts >= v2.HEADER_BYTES)
    at = starts[whole]
    named = whole[(sets[at + MAGIC_AT] == v2.MAGIC) & (sets[at + PRODUCER_ID_AT] < _NEGATIVE)]
    stops = np.full(len(limits), len(limits), np.int64)
    stops[named] = named
    return np.minimum.accumulate(stops[::-1])[::-1]


def _is_settled(log: PartitionLog, leader_epoch: int) -> bool:
    """Return whether appends change no epoch, and each set is one unit of the index."""
    if log.generation.dialect:
        return False
    if log.topic.target.magic < v2.MAGIC:
        return not log.generation.roll.batches and not log.epochs
    return bool(log.epochs) and log.epochs[-1].epoch == leader_epoch


def _append_judged(log: PartitionLog, judged: Judged, now_ms: int) -> None:
    rows, at, number = judged.rows, 0, 0
    ends = np.cumsum(rows[:, c.BYTES])
    while number < len(rows):
        count = 0
        if log.active.size:
            count = _enter(log, rows[number:], judged.data[at:], now_ms)
        if not count:  # it begins a segment
            count = 1
            data = judged.data[at : int(ends[number])].tobytes()
            first, _, _, largest, offset = rows[number].tolist()
            batches = list(dispatch.batches(data, verify=False))
            log.append(data, batches, first, Largest(largest, offset), now_ms)
        number += count
        at = int(ends[number - 1])


def _enter(
    log: PartitionLog, units: NDArray[np.int64], data: NDArray[np.uint8], now_ms: int
) -> int:
    """Append the first units to the active segment, as long as none may roll it: their number."""
    active, settings, rule = log.active, log.topic.rolling, log.generation.roll
    if rule.since == "largest" or log.generation.earliest:
        return 0
    now = rolling.Append((rolling.Batch(0, active.base_offset, 0, -1),), now_ms)
    facts = active.facts()
    timed = rule.since != "created" and facts.first_timestamp > rule.no_timestamp
    if not timed and rolling.should_roll(facts, now, settings, rule):
        return 0
    latest = min(facts.first_timestamp + settings.longest_ms, _FOREVER) if timed else _FOREVER
    room = settings.segment_index_bytes
    noted = _note(
        active, units, settings.index_interval_bytes,
        (settings.segment_bytes, latest, room // 8 - active.offset_entries,
         room // 12 - 1 - active.time_entries if rule.relative else len(units) + 1),
    )  # fmt: skip
    if noted.units:
        _write(active, noted, data, now_ms)
        log.log_end_offset = int(units[noted.units - 1, c.LAST]) + 1
        if log.producers is not None:
            log.producers.append(b"", log.log_end_offset)
    return noted.units


class _Noted(NamedTuple):
    """The first units of an append, and the entries that they get."""

    units: int
    state: NDArray[np.int64]
    offsets: bytes
    times: bytes
    bytes: int


def _note(
    active: ActiveSegment,
    units: NDArray[np.int64],
    interval: int,
    limits: tuple[int, int, int, int],
) -> _Noted:
    """Return the entries of units. Changes nothing.

    `limits`: bytes of the segment, the latest timestamp, entries of both indexes.
    """
    rule = active.generation.entries
    most = int(units[:, c.BYTES].sum()) // (interval + 1) + 2
    offsets, times = np.empty(8 * most, np.uint8), np.empty(12 * most, np.uint8)
    state = np.zeros(k.ENTER_SLOTS, np.int64)
    state[k.BASE_OFFSET : k.OFFSET_ENTRIES] = (
        active.base_offset,
        active.size,
        active.unindexed_bytes,
        active.largest.timestamp,
        active.largest.offset,
        active.last_time,
        interval,
        rule.first_offset,
        rule.next_offset,
        active.generation.roll.relative,
        *limits[:2],
        min(limits[2], most),
        min(limits[3], most),
    )
    k.enter(state, units, offsets.ctypes.data, times.ctypes.data)
    return _Noted(
        int(state[k.DONE_UNITS]),
        state,
        offsets[: 8 * int(state[k.OFFSET_ENTRIES])].tobytes(),
        times[: 12 * int(state[k.TIME_ENTRIES])].tobytes(),
        int(state[k.SIZE]) - active.size,
    )


def _write(
    active: ActiveSegment, noted: _Noted, data: NDArray[np.uint8] | memoryview, now_ms: int
) -> None:
    state = noted.state
    active.size, active.unindexed_bytes = int(state[k.SIZE]), int(state[k.UNINDEXED])
    active.largest = Largest(int(state[k.TIMESTAMP]), int(state[k.TIMESTAMP_OFFSET]))
    active.last_time = int(state[k.LAST_TIME])
    if noted.times:
        relative = time_index.STRUCT.unpack(noted.times[-time_index.ENTRY_SIZE :])[1]
        active.last_time_offset = active.base_offset + relative
    active.offset_entries += int(state[k.OFFSET_ENTRIES])
    active.time_entries += int(state[k.TIME_ENTRIES])
    files.append(active.path(paths.LOG), view(data)[: noted.bytes], now_ms)
    active.add(noted.offsets, noted.times, now_ms)


def append_fetch(log: PartitionLog, data: Buffer, *, now_ms: int) -> int:
    """Append the batches of a fetch as a follower, as they are. Returns the bytes.

    Raises as `PartitionLog.append_as_follower`.
    """
    size = _follow(log, data, now_ms)
    if size is None:
        appended = log.append_as_follower(bytes(view(data)), now_ms=now_ms)
        size = appended.bytes if appended else 0
    return size


def _follow(log: PartitionLog, data: Buffer, now_ms: int) -> int | None:
    """Append a common fetch, and return its bytes. None: nothing was done."""
    settings, rule = log.topic.rolling, log.generation.roll
    if log.generation.dialect or log.generation.earliest:
        return None
    room = len(view(data)) // _SMALLEST + 1 if rule.batches else 1
    units, state = np.empty((room, c.ROW_SLOTS), np.int64), np.zeros(k.FOLLOW_SLOTS, np.int64)
    source = np.frombuffer(view(data), np.uint8)
    state[k.ADDRESS], state[k.LOADED] = source.ctypes.data, len(source)
    state[k.EACH], state[k.LAST_OFFSET] = rule.batches, log.log_end_offset - 1
    newest = log.epochs[-1].epoch if log.epochs else -1
    state[c.EPOCH], state[k.EPOCHS] = newest, log.generation.epochs
    state[k.FORMER] = not (log.generation.epochs and log.epochs)
    state[c.CRC32], state[c.CRC32C] = crc_addresses()
    if k.follow(state, units) != k.DONE or not state[k.BATCHES]:
        return None
    units = units[: int(state[k.BATCHES])]
    append = _append_of(units, int(state[k.FIRST_MAGIC]), now_ms)
    active = log.active
    relative = append.last_offset - active.base_offset
    if relative > MAX_RELATIVE_OFFSET or append.bytes > settings.segment_bytes:
        return None
    if rolling.should_roll(active.facts(), append, settings, rule):
        return None
    noted = _note(active, units, settings.index_interval_bytes, (_TOP, _FOREVER, _TOP, _TOP))
    if noted.units < len(units):
        return None
    aborted = b""
    if log.producers is not None:
        try:
            whole = view(data)[: noted.bytes]
            aborted = log.producers.append(whole, append.last_offset + 1)
        except Rejected:  # nothing is noted: `append_as_follower` rejects it too
            return None
    if active.size == 0:
        active.first_timestamp = append.batches[0].max_timestamp
    _write(active, noted, view(data), now_ms)
    if aborted:
        files.append(active.path(paths.TXN_INDEX), aborted, now_ms)
    log.log_end_offset = append.last_offset + 1
    return noted.bytes


def _append_of(units: NDArray[np.int64], magic: int, now_ms: int) -> rolling.Append:
    """Return an append of two parts, the first unit and the others: rolling asks for no more."""
    first, last, size, largest, _ = units[0].tolist()
    parts = [rolling.Batch(first if magic == v2.MAGIC else -1, last, size, largest)]
    if len(units) > 1:
        others = units[1:]
        parts.append(
            rolling.Batch(
                -1,
                int(others[-1, c.LAST]),
                int(others[:, c.BYTES].sum()),
                int(others[:, c.LARGEST].max()),
            )
        )
    return rolling.Append((*parts,), now_ms)
