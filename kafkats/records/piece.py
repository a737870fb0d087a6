"""A part of one segment, read into Arrow record batches: what its offsets, its transactions and its control records leave of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa

from kafkats import paths
from kafkats.errors import BadInput, Changed, CorruptBatch, CorruptIndex, KafkatsError
from kafkats.formats import dispatch
from kafkats.formats.framing import MIN_SIZE, OVERHEAD
from kafkats.index import offset_index
from kafkats.records.committed import Aborted, Transactions
from kafkats.segment.arrow import Origin, record_batch, wanted
from kafkats.segment.columns import Columns, columns
from kafkats.segment.headers import batch_headers
from kafkats.segment.reader import Source, open_source

MOST_OFFSET: Final = 2**63 - 1


class Piece(NamedTuple):
    """The batches that begin at bytes `start` to `end` of a .log; of their records those at `from_offset` and later, below `to_offset`."""

    log: str
    topic: str
    partition: int
    base_offset: int
    start: int
    end: int
    log_end: bool
    """It ends where the partition does: a batch that was not written to its end is none."""
    from_offset: int = 0
    to_offset: int = MOST_OFFSET
    aborted: tuple[Aborted, ...] | None = None
    """Aborted transactions, of which no records are wanted; None: all records are."""


class Skipped(NamedTuple):
    """Bytes that were left out because no records could be read from them."""

    log: str
    position: int
    bytes: int
    reason: str


class _Span(NamedTuple):
    """Whole batches lie from `begin` to `end`; nothing is wanted behind them, or there is an `error`."""

    begin: int
    end: int
    error: CorruptBatch | None


def read_piece(
    piece: Piece, schema: pa.Schema, *, control: bool = False, on_skip: Callable[[Skipped], None] | None = None
) -> Iterator[pa.RecordBatch]:
    """The records of `piece` with the columns of `schema` (some of segment.arrow.COLUMNS), in file order, no empty batches.

    `control`: with control records, which consumers never see. Bytes that cannot be read are told to `on_skip` and left out;
    without it they raise CorruptBatch, after the records before them. Raises CorruptIndex when the .txnindex files lack a
    transaction that the log aborts; Changed, Vanished, StorageFailed.
    """
    origin = Origin(piece.topic, piece.partition, piece.base_offset, str(Path(piece.log).parent))
    ask = wanted(schema.names)
    transactions = None
    if piece.aborted is not None:
        transactions = Transactions(piece.aborted)
        ask |= {"key": True, "batch": True}
    with open_source(piece.log) as source:
        if source.size < piece.end:
            raise Changed(f"has {source.size} bytes, and {piece.end} when it was listed", path=piece.log)
        at = piece.start
        while at < piece.end:
            span = _span(source, at, piece)
            error: CorruptBatch | None = span.error
            try:
                with_control = control or transactions is not None
                for chunk in columns(source, start=span.begin, end=span.end, control=with_control, reuse=False, **ask):
                    batch = _wanted_rows(chunk, piece, schema, origin, transactions, control=control)
                    if batch is not None:
                        yield batch
            except CorruptBatch as e:
                error = e
            except (BadInput, Changed) as e:
                raise type(e)(e.reason, path=e.path or piece.log, position=e.position) from e
            if error is None:
                return
            if on_skip is None:
                raise CorruptBatch(
                    error.reason, path=piece.log, position=error.position, base_offset=piece.base_offset
                ) from error
            position = span.end if error.position is None else error.position
            at = _resume(source, piece, position, framed=position < span.end)
            on_skip(Skipped(piece.log, position, at - position, error.reason))


def _span(source: Source, start: int, piece: Piece) -> _Span:
    """Goes from header to header: where the wanted offsets begin and end, and whether batches follow each other up to the end."""
    from kafkats.kernels import headers as k

    begin, end = -1, start
    try:
        for rows in batch_headers(source, start=start, end=piece.end):
            last, behind = rows[:, k.LAST_OFFSET], rows[:, k.AT] + rows[:, k.SIZE]
            if begin < 0 and (found := np.flatnonzero(last >= piece.from_offset)).size:
                begin = int(rows[found[0], k.AT])
            if (found := np.flatnonzero(last >= piece.to_offset - 1)).size:
                return _Span(max(begin, start), int(behind[found[0]]), None)
            end = int(behind[-1])
    except CorruptBatch as e:
        if piece.log_end and source.only_zeros(end):
            return _Span(end if begin < 0 else begin, end, None)
        return _Span(end if begin < 0 else begin, end, e)
    error = None
    if end < piece.end and not piece.log_end:
        error = CorruptBatch(f"{piece.end - end} bytes that are no whole batch, and more follows them", position=end)
    return _Span(end if begin < 0 else begin, end, error)


def _resume(source: Source, piece: Piece, position: int, *, framed: bool) -> int:
    """Where to go on behind what cannot be read: the next batch, or the next that the offset index knows, or the piece's end."""
    if framed:
        size = int.from_bytes(source.read(position + 8, 4), "big", signed=True)
        return position + OVERHEAD + size
    index = Path(piece.log).with_suffix(paths.OFFSET_INDEX)
    try:
        known = offset_index.read(index)["position"].astype(np.int64)
    except KafkatsError:
        return piece.end
    later = known[(known > position) & (known < piece.end)].tolist()
    return next((at for at in later if batch_at(source, at) is not None), piece.end)


def batch_at(source: Source, position: int) -> tuple[int, int] | None:
    """First (of a wrapper the last) and last offset of the batch that begins at `position`; None when no sound one does."""
    head = source.read(position, OVERHEAD)
    size = int.from_bytes(head[8:], "big", signed=True)
    if len(head) < OVERHEAD or size < MIN_SIZE or position + OVERHEAD + size > source.size:
        return None
    try:
        batch = next(dispatch.batches(source.read(position, OVERHEAD + size)), None)
    except CorruptBatch:
        return None
    return None if batch is None else (batch.base_offset, batch.last_offset)


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


__all__ = ["MOST_OFFSET", "Aborted", "CorruptIndex", "Piece", "Skipped", "batch_at", "read_piece"]
