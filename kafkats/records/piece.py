"""Read a part of one segment into Arrow record batches, filtered by offset and transaction."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa

from kafkats import paths
from kafkats.errors import BadInput, Changed, CorruptBatch, KafkatsError
from kafkats.formats import dispatch
from kafkats.formats.framing import MIN_SIZE, OVERHEAD
from kafkats.formats.model import Codec
from kafkats.formats.v2 import MAGIC as MAGIC_V2
from kafkats.index import offset_index
from kafkats.kernels import headers_state as k
from kafkats.records.committed import Aborted, Transactions
from kafkats.segment.arrow import Origin, record_batch, wanted
from kafkats.segment.columns import Columns, columns
from kafkats.segment.headers import batch_headers
from kafkats.segment.reader import Source, open_source

LEAST_OFFSET: Final = -(2**63)
MOST_OFFSET: Final = 2**63 - 1
_ROOM: Final = 4 * 1024 * 1024
"""Approximate bytes of records in an Arrow batch. Spark reads 512 KiB to 2 MiB a tenth slower."""


class Piece(NamedTuple):
    """The batches of a .log that begin at positions `start` to `end` (exclusive).

    Only their records from `from_offset` up to, but not including, `to_offset` are read.
    """

    log: str
    topic: str
    partition: int
    base_offset: int
    start: int
    end: int
    log_end: bool
    """The piece ends where the partition ends: an incomplete last batch is ignored."""
    from_offset: int = LEAST_OFFSET
    to_offset: int = MOST_OFFSET
    aborted: tuple[Aborted, ...] | None = None
    """Aborted transactions whose records are left out; None: keep all records."""
    live: bool = False
    """A broker may truncate the file: read it instead of mapping it."""
    first: int = LEAST_OFFSET
    behind: int = MOST_OFFSET
    """The piece has the wanted records from offset `first` up to, but not including, `behind`."""
    inode: int = -1
    """The inode of the listed log; -1: any file with its name."""
    listed_ns: int = -1
    """ctime of the partition directory when it was listed."""
    required: bool = False
    """The read asks for these offsets by number, so that they must not be deleted meanwhile."""
    joins: int = -1
    """The base offset of the next segment, where this piece has a segment's end; -1 elsewhere."""
    strict: bool = False
    """Offsets that are missing between two segments of a topic that is not compacted are an error.
    """


class Skipped(NamedTuple):
    """Bytes left out because no records could be read from them."""

    log: str
    position: int
    bytes: int
    reason: str


def read_piece(
    piece: Piece,
    schema: pa.Schema,
    *,
    control: bool = False,
    on_skip: Callable[[Skipped], None] | None = None,
    reuse: bool = False,
    on_read: Callable[[int], None] | None = None,
) -> Iterator[pa.RecordBatch]:
    """Yield the records of `piece` in file order, without empty batches.

    Beside a running broker use `settled.read_settled`: its segments come and go. `on_read` is told
    the last offset of what is yielded next, or was left out.

    `schema` names columns of segment.arrow.COLUMNS. `control` includes control records, which
    consumers never see. With `reuse` a batch is valid only until the next one is requested, which
    is twice as fast.

    Unreadable bytes are reported to `on_skip` and left out. Without `on_skip` they raise
    CorruptBatch after the records before them. Raises CorruptIndex when the .txnindex files lack a
    transaction that the log aborts. Raises Changed, Vanished, StorageFailed.
    """
    origin = Origin(piece.topic, piece.partition, piece.base_offset, str(Path(piece.log).parent))
    ask = wanted(schema.names) | {"control": control, "reuse": reuse}
    transactions = None
    if piece.aborted is not None:
        transactions = Transactions(piece.aborted)
        ask |= {"key": True, "batch": True, "control": True}
    with open_source(piece.log, mapped=not piece.live) as source:
        if piece.inode >= 0 and source.inode != piece.inode:
            raise Changed("is another file than the one that was listed", path=piece.log)
        if source.size < piece.end:
            raise Changed(
                f"has {source.size} bytes, and {piece.end} when it was listed", path=piece.log
            )
        at = piece.start
        while at < piece.end:
            try:
                for chunk in _chunks(source, at, piece, ask):
                    batch = _wanted_rows(
                        chunk, piece, schema, origin, transactions, control=control
                    )
                    if on_read is not None and chunk.rows:
                        on_read(int(chunk.offset.max()))
                    if batch is not None:
                        yield batch
                return
            except CorruptBatch as e:
                if on_skip is None or e.position is None:
                    raise CorruptBatch(
                        e.reason, path=piece.log, position=e.position, base_offset=piece.base_offset
                    ) from e
                at = _behind(source, piece, e.position)
                on_skip(Skipped(piece.log, e.position, at - e.position, e.reason))
            except (BadInput, Changed) as e:
                raise type(e)(e.reason, path=e.path or piece.log, position=e.position) from e


def _chunks(source: Source, at: int, piece: Piece, ask: dict[str, bool]) -> Iterator[Columns]:
    """Yield the records from position `at` on.

    Raises CorruptBatch with the start of the bad batch, except at the end of the log.
    """
    begin, end = at, piece.end
    reached: list[int] = []
    try:
        if piece.from_offset > piece.base_offset or piece.to_offset < MOST_OFFSET:
            begin, end = _span(source, at, piece)
        yield from columns(source, start=begin, end=end, room=_ROOM, on_end=reached.append, **ask)
    except CorruptBatch as e:
        if piece.log_end and source.only_zeros(reached[-1]):
            return
        raise CorruptBatch(e.reason, position=reached[-1]) from e
    if reached[-1] < end and not piece.log_end:
        reason = f"{end - reached[-1]} bytes that are no whole batch, and more follows them"
        raise CorruptBatch(reason, position=reached[-1])


def _span(source: Source, start: int, piece: Piece) -> tuple[int, int]:
    """Return start and end position of the batches with the wanted offsets, by their headers.

    Unreadable headers are left to the reader.
    """
    begin = -1
    try:
        for rows in batch_headers(source, start=start, end=piece.end):
            last, behind = rows[:, k.LAST_OFFSET], rows[:, k.AT] + rows[:, k.SIZE]
            if begin < 0 and (last_batches := np.flatnonzero(last >= piece.from_offset)).size:
                begin = int(rows[last_batches[0], k.AT])
            if (last_batches := np.flatnonzero(last >= piece.to_offset - 1)).size:
                return max(begin, start), int(behind[last_batches[0]])
            start = start if begin >= 0 else int(behind[-1])
    except CorruptBatch:
        pass
    return (start if begin < 0 else begin), piece.end


def _behind(source: Source, piece: Piece, position: int) -> int:
    """Return the position at which to continue after the unreadable batch at `position`.

    This is the end of that batch if its header tells it. Otherwise it is the next sound batch in
    the offset index, or else the end of the piece.
    """
    with suppress(CorruptBatch):
        for rows in batch_headers(source, start=position, end=piece.end):
            return int(rows[0, k.AT] + rows[0, k.SIZE])
    index = Path(piece.log).with_suffix(paths.OFFSET_INDEX)
    try:
        known = offset_index.read(index)["position"].astype(np.int64)
    except KafkatsError:
        return piece.end
    later = known[(known > position) & (known < piece.end)].tolist()
    return next((at for at in later if batch_at(source, at) is not None), piece.end)


def batch_at(source: Source, position: int) -> tuple[int, int] | None:
    """Return first offset (of a wrapper the last) and last offset of the batch at `position`.

    Returns None if no sound batch begins there. Only the content of a wrapper tells its first
    offset; the last offset is a safe upper bound for it.
    """
    if position < 0:  # an index entry can hold any number
        return None
    head = source.read(position, OVERHEAD)
    size = int.from_bytes(head[8:], "big", signed=True)
    if len(head) < OVERHEAD or size < MIN_SIZE or position + OVERHEAD + size > source.size:
        return None
    try:
        batch = next(dispatch.batches(source.read(position, OVERHEAD + size)), None)
    except CorruptBatch:
        return None
    if batch is None:
        return None
    wrapper = batch.magic < MAGIC_V2 and batch.codec != Codec.NONE
    return batch.last_offset if wrapper else batch.base_offset, batch.last_offset


def _wanted_rows(
    chunk: Columns,
    piece: Piece,
    schema: pa.Schema,
    origin: Origin,
    transactions: Transactions | None,
    *,
    control: bool,
) -> pa.RecordBatch | None:
    keep = None
    if int(chunk.offset.min()) < piece.from_offset or int(chunk.offset.max()) >= piece.to_offset:
        keep = (chunk.offset >= piece.from_offset) & (chunk.offset < piece.to_offset)
    if transactions is not None:
        committed = transactions.committed(chunk, control=control)
        keep = committed if keep is None else keep & committed
    if keep is None or keep.all():
        return record_batch(chunk, schema, origin)
    rows = np.flatnonzero(keep)
    if not rows.size:
        return None
    batch = record_batch(chunk, schema, origin)
    if rows[-1] - rows[0] + 1 == rows.size:
        return batch.slice(int(rows[0]), rows.size)
    return batch.filter(pa.array(keep))


__all__ = ["LEAST_OFFSET", "MOST_OFFSET", "Aborted", "Piece", "Skipped", "batch_at", "read_piece"]
