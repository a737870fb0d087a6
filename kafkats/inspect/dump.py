"""Dump any file of a log directory, entry by entry, for people and for `jq`.

Every row is a dict for json.dumps. Its `kind` determines the fields:

    .log                    batch        position size magic base_offset last_offset count codec
                                         timestamp_type base_timestamp max_timestamp leader_epoch
                                         producer_id producer_epoch base_sequence transactional
                                         control delete_horizon_ms crc crc_valid
                            record       position (its batch's) offset timestamp timestamp_type
                                         key value headers; in control batches also control_type
                                         (deep=True only)
                            tail         position size: bytes after the last whole batch, an
                                         unfinished write
    .index                  offset-entry entry relative_offset offset position
    .timeindex              time-entry   entry timestamp relative_offset offset
    .txnindex               aborted-txn  entry version producer_id first_offset last_offset
                                         last_stable_offset
    the last three          zeros        entry position size: zeros to the end, a preallocated file
                                         that was never truncated
    .snapshot               producer     producer_id producer_epoch last_sequence last_offset
                                         offset_delta timestamp coordinator_epoch txn_first_offset
    the four *-checkpoint   offset       topic partition offset
    leader-epoch-checkpoint epoch        epoch start_offset
    meta.properties         meta         version node_id cluster_id directory_id other
    partition.metadata      partition    version topic_id
    .kafka_cleanshutdown    clean-stop   broker_epoch

`count` and `base_offset` of a wrapper are null unless it is decompressed (deep=True). Timestamps
are ms since the epoch, positions are bytes. `key` and `value` are text. Bytes that are not UTF-8
appear as `key_hex` and `value_hex` instead. `offset` of an index entry is null when the file name
does not contain the base offset. Files with `.deleted`, `.cleaned` or `.swap` are read as the file
before, and a `.checkpoint` of KRaft as a log.

A dialect has other columns of a batch, and perhaps other entries of a .index (plans.dialect_hook).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Final

from kafkats import paths
from kafkats.errors import CorruptBatch, UsageError, storage
from kafkats.formats import dispatch
from kafkats.formats.control import ControlType, decode_control_type
from kafkats.formats.dispatch import check_crc
from kafkats.formats.model import Batch, Codec, Header, Record
from kafkats.inspect import dump_index
from kafkats.inspect.dump_index import WINDOW, Row
from kafkats.logdir.checkpoints import read_epochs, read_offsets
from kafkats.logdir.properties import (
    read_clean_shutdown,
    read_meta_properties,
    read_partition_metadata,
)
from kafkats.logdir.snapshot import read_snapshot
from kafkats.plans.dialect_hook import DialectHook, proposed_file
from kafkats.plans.dialect_hook import dialect as dialect_of
from kafkats.segment.reader import open_file

LEFT: Final = frozenset({"tail", "zeros"})
"""The kinds of rows for bytes at the end of a file that are no entries."""
MAX_FRAME: Final = 256 * 1024 * 1024
"""A larger batch is an error, so that memory is bounded."""


def dump(
    path: str | os.PathLike[str], *, deep: bool = False, dialect: str | None = None
) -> Iterator[Row]:
    """Yield the rows of one file, of a dialect if it is named; with `deep` also a log's records.

    Raises UsageError for a file that is not Kafka's. During the iteration raises CorruptBatch,
    CorruptIndex or CorruptFile with the position, after every readable row. A wrong CRC or an
    undecodable batch does not end the dump: the first one is raised at its end.
    """
    where = Path(path)
    with storage(where, "looking at it"):
        if not where.is_file():
            reason = "name one file of a log directory" if os.path.lexists(where) else ""
            raise UsageError(reason or "does not exist", path=where)
    if where.name in _BY_NAME:
        return _BY_NAME[where.name](where)
    for suffix in paths.PROPOSED_INDEXES:
        if where.name.endswith(suffix):
            digits = where.name.partition(".")[0]
            base = int(digits) if digits.isdecimal() else None
            return dump_index.rows(where, *proposed_file(suffix), base)
    hook = dialect_of(dialect) if dialect else None
    parsed = paths.parse_segment_file(where.name)
    kind = parsed.kind if parsed else _kind(where.name)
    if kind in {paths.LOG, _KRAFT_CHECKPOINT}:
        return _log(where, deep, hook)
    if kind in dump_index.INDEXES:
        entries = dump_index.INDEXES[kind]
        if hook and hook.index_entries and kind == paths.OFFSET_INDEX:
            entries = hook.index_entries
        return dump_index.rows(where, *entries, parsed.base_offset if parsed else None)
    if kind == paths.SNAPSHOT:
        return _snapshot(where)
    raise UsageError(
        f"is no file that dump knows; known are *{', *'.join(paths.SEGMENT_KINDS)} and"
        f" {', '.join(_BY_NAME)}",
        path=where,
    )


_KRAFT_CHECKPOINT: Final = ".checkpoint"


def _kind(name: str) -> str:
    """Return the kind of a copy whose name is not a number."""
    stem, dot, suffix = name.rpartition(".")
    return _kind(stem) if dot + suffix in paths.TRANSIENT_SUFFIXES else dot + suffix


def _log(path: Path, deep: bool, hook: DialectHook | None) -> Iterator[Row]:
    batches = hook.batches if hook else dispatch.batches
    later: list[CorruptBatch] = []
    with open_file(path) as fd:
        size = os.fstat(fd).st_size
        position = 0
        window = WINDOW
        while position < size:
            with storage(path, "reading"):
                data = os.pread(fd, min(window, size - position), position)
            done = 0
            try:
                for batch in batches(data, verify=False):
                    yield from _batch(data, batch, position, path, deep, later, hook)
                    done = batch.end
            except CorruptBatch as e:
                raise _moved(e, position, path) from None
            if done == 0 and (len(data) < window or not data):
                yield {"kind": "tail", "position": position, "size": len(data)}
                break
            if done == 0 and window >= MAX_FRAME:
                raise CorruptBatch(
                    f"a batch of more than {MAX_FRAME} bytes", path=path, position=position
                )
            window = WINDOW if done else min(window * 4, MAX_FRAME)
            position += done
    if later:
        raise later[0]


def _batch(
    data: bytes,
    batch: Batch,
    origin: int,
    path: Path,
    deep: bool,
    later: list[CorruptBatch],
    hook: DialectHook | None,
) -> Iterator[Row]:
    """Yield the rows of one batch in the window at `origin`.

    Errors in its content go to `later`.
    """
    decoded: list[Record] = []
    crc_valid = True
    try:
        check_crc(data, batch)
    except CorruptBatch as e:
        crc_valid = False
        later.append(_moved(e, origin, path))
    if deep and crc_valid:
        try:
            decoded = (hook.records if hook else dispatch.records)(data, batch)
        except CorruptBatch as e:
            later.append(_moved(e, origin, path))
    more: Row = hook.columns(data, batch, decoded) if hook else {}
    yield _batch_row(batch, origin, crc_valid, decoded) | more
    for record in decoded:
        yield _record_row(record, batch, origin)


def _batch_row(batch: Batch, origin: int, crc_valid: bool, decoded: list[Record]) -> Row:
    wrapper = batch.count < 0
    first = decoded[0].offset if decoded else None
    return {
        "kind": "batch",
        "position": origin + batch.position,
        "size": batch.size,
        "magic": batch.magic,
        "base_offset": first if wrapper else batch.base_offset,
        "last_offset": batch.last_offset,
        "count": (len(decoded) or None) if wrapper else batch.count,
        "codec": batch.codec.name.lower() if isinstance(batch.codec, Codec) else batch.codec,
        "timestamp_type": batch.timestamp_type.name,
        "base_timestamp": batch.base_timestamp,
        "max_timestamp": batch.max_timestamp,
        "leader_epoch": batch.leader_epoch,
        "producer_id": batch.producer_id,
        "producer_epoch": batch.producer_epoch,
        "base_sequence": batch.base_sequence,
        "transactional": batch.transactional,
        "control": batch.control,
        "delete_horizon_ms": batch.delete_horizon_ms,
        "crc": batch.crc,
        "crc_valid": crc_valid,
    }


def _record_row(record: Record, batch: Batch, origin: int) -> Row:
    row: Row = {
        "kind": "record",
        "position": origin + batch.position,
        "offset": record.offset,
        "timestamp": record.timestamp,
        "timestamp_type": record.timestamp_type.name,
        **_text("key", record.key),
        **_text("value", record.value),
        "headers": [_header_row(header) for header in record.headers],
    }
    if batch.control:
        row["control_type"] = _control_type(record.key)
    return row


def _header_row(header: Header) -> Row:
    return {"key": header.key, **_text("value", header.value)}


def _control_type(key: bytes | None) -> str | int | None:
    """Return the name of a control record's type.

    Returns its number for an unknown type (newer Kafka), None without a readable key.
    """
    try:
        kind = decode_control_type(key)
    except CorruptBatch:
        return None
    return kind.name if isinstance(kind, ControlType) else kind


def _text(name: str, data: bytes | None) -> Row:
    if data is None:
        return {name: None}
    try:
        return {name: data.decode("utf-8")}
    except UnicodeDecodeError:
        return {f"{name}_hex": data.hex()}


def _moved(error: CorruptBatch, origin: int, path: Path) -> CorruptBatch:
    """Return the error with its position in the file instead of in the window."""
    return CorruptBatch(error.reason, path=path, position=origin + (error.position or 0))


def _snapshot(path: Path) -> Iterator[Row]:
    for producer in read_snapshot(path):
        yield {"kind": "producer", **producer._asdict()}


def _offsets(path: Path) -> Iterator[Row]:
    for name, offset in read_offsets(path).items():
        yield {"kind": "offset", "topic": name.topic, "partition": name.partition, "offset": offset}


def _epochs(path: Path) -> Iterator[Row]:
    for epoch in read_epochs(path):
        yield {"kind": "epoch", **epoch._asdict()}


def _meta(path: Path) -> Iterator[Row]:
    yield {"kind": "meta", **asdict(read_meta_properties(path))}


def _metadata(path: Path) -> Iterator[Row]:
    yield {"kind": "partition", **asdict(read_partition_metadata(path))}


def _clean_stop(path: Path) -> Iterator[Row]:
    yield {"kind": "clean-stop", "broker_epoch": read_clean_shutdown(path)}


_BY_NAME: Final[dict[str, Callable[[Path], Iterator[Row]]]] = {
    **dict.fromkeys(paths.OFFSET_CHECKPOINTS, _offsets),
    paths.LEADER_EPOCH: _epochs,
    paths.META_PROPERTIES: _meta,
    paths.PARTITION_METADATA: _metadata,
    paths.CLEAN_SHUTDOWN: _clean_stop,
}
