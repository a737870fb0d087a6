"""Read a piece beside a running broker, which deletes, rewrites and truncates segments meanwhile.

A piece stands for a range of offsets. If its file is gone or another one, the directory is listed
again and the rest of that range is read from the segments that have it now. Offsets stay, whoever
rewrites a segment, so no record comes twice and none is left out that is still there.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pyarrow as pa

from kafkats import paths
from kafkats.errors import BadInput, Changed, CorruptBatch, KafkatsError, Vanished
from kafkats.evidence.looking import was_compacted
from kafkats.kernels import headers_state as k
from kafkats.logdir.partition import PAUSES, scan_at_rest
from kafkats.records.piece import LEAST_OFFSET, MOST_OFFSET, Piece, Skipped, read_piece
from kafkats.segment.headers import batch_headers
from kafkats.segment.reader import open_source


def read_settled(
    piece: Piece,
    schema: pa.Schema,
    *,
    control: bool = False,
    on_skip: Callable[[Skipped], None] | None = None,
    on_deleted: Callable[[str], None] | None = None,
    reuse: bool = False,
) -> Iterator[pa.RecordBatch]:
    """Yield the records of `piece` as `read_piece` does, and of a live one what its broker left.

    `on_deleted` is told, in a sentence, which offsets the broker has deleted since the listing.
    Raises Vanished for deleted offsets that are `required`, and for a segment that is gone though
    no broker deletes it alone. Raises BadInput for offsets that are missing behind a `strict` piece
    of a topic that is not compacted; without `strict`, `on_deleted` is told. Raises as `read_piece`
    what is so in two looks.
    """
    reached = [piece.first - 1]
    todo, before = [piece], ""
    for pause in (*PAUSES, None) if piece.live else (None,):
        try:
            for one in todo:
                yield from read_piece(
                    one,
                    schema,
                    control=control,
                    on_skip=on_skip,
                    reuse=reuse,
                    on_read=reached.append,
                )
                del reached[:-1]
        except (Vanished, Changed, CorruptBatch) as e:
            if pause is None or (isinstance(e, CorruptBatch) and str(e) == before):
                raise
            time.sleep(pause)
            before = str(e)
            todo = _again(piece, max(reached[-1] + 1, piece.first), e, on_deleted)
        else:
            _check_end(piece, reached[-1], on_deleted)
            return


def _check_end(piece: Piece, last: int, on_deleted: Callable[[str], None] | None) -> None:
    """Raise BadInput, or tell, if offsets are missing between a segment and the next one.

    `last` is the last offset that was read. Only the cleaner removes offsets: a topic with other
    traces of it is not looked at. Raises StorageFailed.
    """
    if piece.live or last + 1 >= piece.joins:
        return
    end = max(_end_of(piece), piece.base_offset)
    if end >= piece.joins or was_compacted(Path(piece.log).parent) is not False:
        return
    reason = (
        f"offsets {end} to {piece.joins - 1} are missing between this segment and the next one, and"
        " nothing shows that the topic is compacted"
    )
    if piece.strict:
        raise BadInput(f"{reason}; failOnDataLoss=false reads what is there", path=piece.log)
    if on_deleted is not None:
        on_deleted(f"{piece.topic}-{piece.partition}: {reason}")


def _end_of(piece: Piece) -> int:
    """Return the offset after the last batch of a piece, by the headers: they also have the offsets
    of control batches. 0 for none, or if one cannot be read.
    """
    last = -1
    with open_source(piece.log) as source, suppress(CorruptBatch):
        for rows in batch_headers(source, start=piece.start, end=piece.end):
            last = int(rows[-1, k.LAST_OFFSET])
    return last + 1


def _again(
    piece: Piece, begin: int, error: KafkatsError, on_deleted: Callable[[str], None] | None
) -> list[Piece]:
    """Return pieces for the offsets from `begin` on, of the segments that there are now."""
    directory = Path(piece.log).parent
    try:
        partition = scan_at_rest(directory, live=True)
    except Vanished:
        _deleted(piece, begin, piece.behind, "the partition's directory is gone", on_deleted)
        return []
    segments = partition.segments
    if not segments:
        raise error
    begins = segments[0].base_offset
    if begins > begin:
        _deleted(piece, begin, min(begins, piece.behind), f"the log begins at {begins}", on_deleted)
    behinds = [*(segment.base_offset for segment in segments[1:]), MOST_OFFSET]
    pieces = []
    for segment, behind in zip(segments, behinds, strict=True):
        if segment.base_offset >= piece.behind or behind <= begin:
            continue
        log = segment.log
        other = segment.base_offset != piece.base_offset
        if other and segment.base_offset < begin and log.ctime_ns <= piece.listed_ns:
            raise error  # nothing was merged into it: the segment that was listed is missing
        low, high = max(begin, segment.base_offset), min(piece.behind, behind)
        pieces.append(
            piece._replace(
                log=str(directory / paths.segment_file(segment.base_offset)),
                base_offset=segment.base_offset,
                start=0,
                end=log.size,
                log_end=behind == MOST_OFFSET,
                from_offset=low if low > segment.base_offset else LEAST_OFFSET,
                to_offset=high if high < behind else MOST_OFFSET,
                first=low,
                inode=log.inode,
            )
        )
    return pieces


def _deleted(
    piece: Piece, begin: int, behind: int, why: str, on_deleted: Callable[[str], None] | None
) -> None:
    until = f" to {behind - 1}" if behind < MOST_OFFSET else " on"
    reason = (
        f"offsets {max(begin, 0)}{until} were deleted by the broker since the directory"
        f" was listed: {why}"
    )
    if piece.required:
        raise Vanished(f"{reason}; failOnDataLoss=false reads what is there", path=piece.log)
    if on_deleted is not None:
        on_deleted(f"{piece.topic}-{piece.partition}: {reason}")
