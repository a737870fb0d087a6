"""Logs as a broker's loader reads them: the log end, and the recovery of a segment."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Final, NamedTuple

from kafkats import paths
from kafkats.formats import v1, v2
from kafkats.formats.framing import MAGIC_AT, MIN_LEFT, MIN_SIZE
from kafkats.generations import INDEX_INTERVAL_BYTES, MAX_RELATIVE_OFFSET
from kafkats.index import txn_index
from kafkats.index.entries import read_index_bytes, whole_entries
from kafkats.index.log_end import find_log_end
from kafkats.index.offset_index import STRUCT as OFFSET_ENTRY
from kafkats.index.time_index import STRUCT as TIME_ENTRY
from kafkats.kernels import headers_state as k
from kafkats.logdir.checkpoints import EpochStart
from kafkats.logdir.epochs import epochs_begun
from kafkats.recovery.readable import batch_behind
from kafkats.recovery.rules import StartRule
from kafkats.recovery.words import bad_size, corrupt_index
from kafkats.segment.broker_walk import Span, headers_read_on, read_on
from kafkats.segment.facts import StopReason
from kafkats.segment.reader import Source, open_source
from kafkats.segment.walk import Points, walk

_BELIEVABLE: Final = 2**24
"""How many offsets above the last good batch a damaged header is believed."""
_FEW_ROWS: Final = 64
"""Batches that are read at once where the first one mostly has the answer."""


class Stops(Exception):
    """Loading throws: `words` are the broker's."""

    def __init__(self, words: str) -> None:
        super().__init__(words)
        self.words = words


class End(NamedTuple):
    """The end of a segment, as a broker finds it when it opens the log without recovery."""

    offset: int
    readable_to: int
    """The end of the batches that the file has. Above `offset` where the index misleads."""
    bytes_behind: int
    """Bytes behind the last batch: a torn one. New batches are appended behind them."""


class Recovery(NamedTuple):
    """The state of a segment's log after its recovery."""

    cut_to: int
    next_offset: int
    log_bytes: int
    highest_epoch: int
    """The highest leader epoch of a batch, -1 without one."""
    stop: str = ""
    """Why the log ends at `cut_to`: a kind of findings.KINDS, "" for the end of the file.

    `offsets-not-increasing` also of a log that is kept whole."""
    seen_to: int = -1
    """The offset after the last batch whose header can be read, also behind `cut_to`."""
    batches: int = 0
    """Batches of magic 2 that are read."""
    messages: int = 0
    """The same of messages and wrappers of magic 0 and 1."""
    producers_end: int = -1
    """The offset that the producer state is of: the end of the last batch of magic 2, the base
    offset without one."""
    unknown_magic_at: int = -1
    """Position of the first kept batch with a magic above 2, -1 without one."""


def read_end(log: Path, index: Path | None, base_offset: int, rule: StartRule) -> End:
    """Return the log end as LogSegment.readNextOffset finds it, from the last index entry on.

    `index` is None where the index is new and empty. Raises Stops, StorageFailed.
    """
    data = _content(index) if index is not None else b""
    count = len(data) // OFFSET_ENTRY.size
    warm = rule.warm_search
    with open_source(log) as source:
        end = find_log_end(
            source, data, count, base_offset, warm=warm, newest_magic=rule.newest_magic
        )
        span = end.span
        _refuse_size(log, source, span, rule)
        if end.start and (end.misled or span.end == end.start):
            span = read_on(source, base_offset, checksums=False)
        elif rule.newest_magic < v2.MAGIC:
            span = read_on(source, base_offset, start=end.start, checksums=False)
        return End(end.offset, span.next_offset, source.size - span.end)


def _content(path: Path) -> bytes:
    """Return all bytes of an index file, with the zeros at its end."""
    found = read_index_bytes(path, 1)
    return found.data.ljust(found.size, b"\0")


def check_batches(log: Path, base_offset: int, rule: StartRule) -> None:
    """Read a log's headers as a replay of its producers does. Raises Stops, StorageFailed."""
    with open_source(log) as source:
        _refuse_size(log, source, read_on(source, base_offset, checksums=False), rule)


def _refuse_size(log: Path, source: Source, span: Span, rule: StartRule) -> None:
    """Raise Stops for a size that Kafka's reader throws at."""
    if not rule.strict_sizes or source.size - span.end < MIN_LEFT:
        return
    size = int.from_bytes(source.read(span.end + 8, 4), "big", signed=True)
    if size < MIN_SIZE:
        raise Stops(bad_size(rule, str(log), size))


def recover(
    log: Path,
    base_offset: int,
    interval: int = INDEX_INTERVAL_BYTES,
    *,
    newest_magic: int = v2.MAGIC,
    start: int = 0,
    reached: int = -1,
) -> Recovery:
    """Return what LogSegment.recover leaves of a log. Reads it whole.

    `newest_magic` is the newest format that the broker knows. With `start` only what follows this
    byte is read: the batches before it are good, and end at offset `reached`. Raises Stops,
    StorageFailed.
    """
    with open_source(log) as source:
        span = read_on(source, base_offset, start=start, checksums=True, newest_magic=newest_magic)
        if span.end == start > 0:
            span = span._replace(next_offset=reached)
        if newest_magic < v1.MAGIC and _has_wrappers_of_1(source, span.end):
            raise Stops(
                f"{log} has compressed messages of magic 1: a broker that does not know them mostly"
                " stops when it recovers them, which is not predicted here"
            )
        if span.stop == StopReason.BAD_OFFSET:
            raise Stops("a batch ends above offset 2^63-2: offsets overflow")
        if span.out_of_range >= 0:
            _refuse_range(log, source, span, base_offset)
        if span.not_increasing and _index_refuses(source, base_offset, interval):
            seen = span.next_offset
            return Recovery(
                0,
                base_offset,
                source.size,
                -1,
                "offsets-not-increasing",
                seen,
                producers_end=base_offset,
            )
        return Recovery(
            span.end,
            span.next_offset,
            source.size,
            span.highest_epoch,
            str(span.stop or ("offsets-not-increasing" if span.not_increasing else "")),
            max(span.next_offset, _seen_to(source, span, base_offset)),
            span.batches,
            span.messages,
            span.magic_2_end if span.magic_2_end >= 0 else base_offset,
            span.unknown_magic_at,
        )


def _has_wrappers_of_1(source: Source, end: int) -> bool:
    """Return whether a log has compressed messages of magic 1.

    Brokers before 0.10 recover the others: the checksum is the same, and the key is not read.
    """
    return any(
        bool(((rows[:, k.MAGIC] == v1.MAGIC) & (rows[:, k.ATTRIBUTES] & 7 != 0)).any())
        for rows in headers_read_on(source, end)
    )


def newest_magic(log: Path, index: Path | None, end: int) -> int:
    """Return the newest format of the first and the last batches below byte `end`, -1 for none.

    The last ones begin at the last entry of `index`: a format is seldom left for an older one.
    Raises StorageFailed.
    """
    last = _ends(index, OFFSET_ENTRY)[2] if index is not None else None
    start = last[1] if last is not None and 0 <= last[1] <= end else 0
    with open_source(log) as source:
        first = source.read(0, min(end, MAGIC_AT + 1))[MAGIC_AT:]
        newest = max(int.from_bytes(first or b"\xff", "big", signed=True), -1)
        for rows in headers_read_on(source, end, start=start):
            newest = max(newest, int(rows[:, k.MAGIC].max()))
    return newest


def last_seen(log: Path, base_offset: int) -> int:
    """Return the offset after the last batch of a log, without its checksums."""
    with open_source(log) as source:
        return read_on(source, base_offset, checksums=False).next_offset


def _seen_to(source: Source, span: Span, base_offset: int) -> int:
    """Return the offset after the last batch behind the first bad one, -1 without one.

    A corrupt batch still names its offsets, and so do the batches behind it. They are believed
    within a segment's range of offsets only.
    """
    if span.stop == StopReason.BAD_CRC:
        last = read_on(source, base_offset, start=span.end, checksums=False).highest
    elif span.stop == StopReason.TORN_TAIL:
        whole = batch_behind(source, span.end + 1, base_offset)
        last = _torn_to(source, span.end)
        if whole >= 0:
            last = max(last, read_on(source, base_offset, start=whole, checksums=False).highest)
    else:
        return -1
    near = span.next_offset <= last + 1 <= span.next_offset + _BELIEVABLE
    return last + 1 if near else -1


def _torn_to(source: Source, position: int) -> int:
    """Return the last offset that the header of a torn batch names, -1 without one."""
    head = source.read(position, v2.HEADER_BYTES)
    if len(head) < v2.HEADER_BYTES or head[MAGIC_AT] != v2.MAGIC:
        return -1
    fields = v2.BatchHeader(*v2.HEADER.unpack(head))
    return fields.base_offset + fields.last_offset_delta


def _refuse_range(log: Path, source: Source, span: Span, base_offset: int) -> None:
    head = int.from_bytes(source.read(span.out_of_range, 8), "big", signed=True)
    if head < base_offset:
        raise Stops(
            f"java.lang.IllegalArgumentException: the batch at byte {span.out_of_range}"
            f" of {log} begins at offset {head}, below the base offset"
        )
    raise Stops(
        f"{log} has offsets more than {MAX_RELATIVE_OFFSET} above its base offset: a broker splits"
        " it, which is not predicted here"
    )


def _index_refuses(source: Source, base_offset: int, interval: int) -> bool:
    """Return whether an index entry of a rebuild would not lie above the entry before."""
    last = base_offset
    refused = False

    def look(points: Points) -> None:
        nonlocal last, refused
        for offset in points[:, 2].tolist():
            refused = refused or offset <= last
            last = max(last, offset)

    walk(source, base_offset, interval=interval, on_points=look, checksums=False)
    return refused


def epochs_in(log: Path, cut_to: int, known: int, highest: int) -> list[EpochStart]:
    """Return the leader epochs above `known` that the batches below byte `cut_to` begin.

    `highest` is the highest of them: no batch behind the first with it is read. Mostly that is the
    first batch of the log. Raises StorageFailed.
    """
    found: list[EpochStart] = []
    with open_source(log) as source:
        for rows in headers_read_on(source, cut_to, at_once=_FEW_ROWS):
            found += epochs_begun(rows, found[-1].epoch if found else known)
            if found and found[-1].epoch >= highest:
                break
    return found


def index_defect(
    index: Path | None, time_index: Path | None, base_offset: int, rule: StartRule
) -> str:
    """Return why a broker that checks indexes at each start recovers the segment, "" if not."""
    if index is not None:
        size, first, last = _ends(index, OFFSET_ENTRY)
        if size % OFFSET_ENTRY.size:
            return f"{index} has {size} bytes, not a multiple of 8"
        above = last is None or last[0] > 0 or (rule.base_entry and last[0] == 0)
        if not above and last is not None:
            return corrupt_index(str(index), base_offset + last[0], base_offset)
    if time_index is not None:
        size, first, last = _ends(time_index, TIME_ENTRY)
        if size % TIME_ENTRY.size:
            return f"{time_index} has {size} bytes, not a multiple of 12"
        if first is not None and last is not None and (last[0] < first[0] or last[1] < 0):
            return f"{time_index} does not rise"
    return ""


def _ends(
    path: Path, entry: struct.Struct
) -> tuple[int, tuple[int, int] | None, tuple[int, int] | None]:
    """Return the size and the first and last entry of an index file."""
    data = _content(path)
    count = len(data) // entry.size
    if not count:
        return len(data), None, None
    a, b = entry.unpack_from(data, 0)
    c, d = entry.unpack_from(data, (count - 1) * entry.size)
    return len(data), (a, b), (c, d)


def transactions_defect(path: Path, base_offset: int) -> bool:
    """Return whether a broker recovers the segment for its `.txnindex`.

    An incomplete entry at the end is not read. Raises Stops for an unknown version, StorageFailed.
    """
    data = _content(path)
    for entry in whole_entries(data, txn_index.ENTRY_SIZE, txn_index.ENTRY):
        version = entry["version"] >> 8  # a broker reads the first of its two bytes
        if version > 0:
            raise Stops(
                f"Unexpected aborted transaction version {version} in transaction index {path},"
                " current version is 0"
            )
        if entry["last_offset"] < base_offset:
            return True
    return False


def path_of(directory: Path, sources: dict[str, str], base_offset: int, kind: str) -> Path | None:
    """Return the file that holds a segment's file of `kind`, None where it is new or missing."""
    source = sources.get(paths.segment_file(base_offset, kind), "")
    return directory / source if source else None
