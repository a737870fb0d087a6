"""The steps of a replay on brokers of the dialect `enriched`.

The dialect has one version of its requests: produce 1 and fetch 1, the next after Kafka 0.8's.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from typing import Final, NamedTuple, TypeAlias

import numpy as np

from kafkats.counts import counted
from kafkats.errors import CorruptBatch, UsageError
from kafkats.formats.model import NO_TIMESTAMP, Batch, Codec, Record, TimestampType
from kafkats.generations import ENRICHED
from kafkats_model.broker import enriched_clean, script
from kafkats_model.broker.enriched_log import EnrichedLog, time_of
from kafkats_model.broker.error_names import CORRUPT_MESSAGE
from kafkats_model.broker.generation import Generation
from kafkats_model.broker.requests import check_offset
from kafkats_model.broker.settings import Config, Topic, settings_from, topic_of
from kafkats_model.errors import Rejected
from kafkats_model.formats import enriched
from kafkats_model.formats.enriched import MessageType, Tags
from kafkats_model.index import enriched_index

Row: TypeAlias = dict[str, str | int]
LogOf: TypeAlias = Callable[[str, str], EnrichedLog]
"""Returns the log of a broker and a partition. Raises UsageError."""
_VERSION: Final = 1
_KEYS: Final = frozenset({
    "cleanup.policy", "retention.ms", "segment.bytes", "segment.ms", "segment.index.bytes",
    "index.interval.bytes",
})  # fmt: skip
_LATEST: Final = -1
_EARLIEST: Final = -2


class Mirrored(NamedTuple):
    """A set as a mirror sends it on."""

    data: bytes
    opened: int
    """Wrappers with keys, which it decompressed."""
    unopened: int


def topic(config: Config, generation: Generation) -> Topic:
    """Return the settings of a topic of the dialect.

    Raises UsageError for those that the dialect does not have, and for compact with delete.
    """
    for key in sorted(set(config) - _KEYS):
        known = ", ".join(sorted(_KEYS))
        raise UsageError(f"{key}: the dialect {ENRICHED} does not play it; it plays {known}")
    made = topic_of(settings_from(config), generation)
    if made.compacted and made.deletes:
        raise UsageError("cleanup.policy: a topic of the dialect is compacted or cleaned, not both")
    return made


def message_set(step: script.Produce, sent: list[Record]) -> bytes:
    """Return the set that a producer of the dialect sends: offsets from 0, the wrapper's is 0.

    Raises UsageError, BadInput.
    """
    if step.control is None:
        return enriched.encode_batch(sent, codec=Codec[step.codec.upper()])
    if step.codec != "none":
        raise UsageError("a control message is not compressed")
    kind = MessageType[step.control.upper().replace("-", "_")]
    return b"".join(
        enriched.encode_message(r.offset, kind, r.key, r.value, Tags(timestamp_ms=r.timestamp))
        for r in sent
    )


def mirror(data: bytes) -> Mirrored:
    """Return a set of one cluster as a mirror produces it into another.

    A wrapper without keys is not opened: its flag `honored` is cleared, so that its messages are
    counted. Others are opened, because their keys choose the partition, and compressed again.
    Control messages belong to their own cluster. Raises CorruptBatch.
    """
    parts, opened, unopened = [], 0, 0
    for batch in enriched.batches(data):
        if batch.control:
            continue
        if batch.codec == Codec.NONE:
            parts.append(data[batch.position : batch.end])
            continue
        tags = enriched.decode_tags(data, batch)
        if tags.unkeyed:
            parts.append(enriched.with_tags(data, batch, tags._replace(honored=False)))
            unopened += 1
        else:
            parts.append(_opened(data, batch))
            opened += 1
    return Mirrored(b"".join(parts), opened, unopened)


def _opened(data: bytes, wrapper: Batch) -> bytes:
    records = [
        record._replace(offset=number)
        for number, record in enumerate(enriched.decode_records(data, wrapper))
    ]
    return enriched.encode_batch(records, codec=wrapper.codec)


def _produce(step: script.Produce, now_ms: int, log_of: LogOf) -> Row:
    _check_version("produce", step.version)
    log = log_of(step.broker, step.partition)
    records = [
        Record(number, one.time_or(NO_TIMESTAMP), TimestampType.CREATE_TIME, *one.content)
        for number, one in enumerate(step.records)
    ]
    data = step.given_set() or message_set(step, records)
    first, base = log.log_end_offset, log.active.base_offset
    judged = log.append_as_leader(data, now_ms=now_ms)
    return {
        "outcome": "in place",
        "first_offset": first,
        "last_offset": judged.ends[-1],
        "formats": _formats(judged.data),
        "bytes": len(judged.data),
        "timestamp": now_ms,
        "rolled": "yes" if log.active.base_offset != base else "",
    }


def _replicate(step: script.Replicate, now_ms: int, log_of: LogOf) -> Row:
    leader, log = log_of(step.leader, step.partition), log_of(step.broker, step.partition)
    first = log.log_end_offset
    check_offset(leader, first)
    data = leader.read(first, leader.log_end_offset, step.bytes)
    size = log.append_as_follower(data, now_ms=now_ms)
    if not size:
        return {"outcome": "nothing new", "bytes": 0}
    last = log.log_end_offset - 1
    return {"outcome": "as it is", "first_offset": first, "last_offset": last, "bytes": size}


def _mirror(step: script.Mirror, now_ms: int, log_of: LogOf) -> Row:
    source, log = (
        log_of(step.source, step.source_partition),
        log_of(step.broker, step.partition),
    )
    check_offset(source, step.offset)
    data = source.read(step.offset, source.high_watermark, step.bytes)
    with _readable():
        sent = mirror(data)
    if not sent.data:
        return {"outcome": "nothing new", "bytes": 0, "opened": 0, "unopened": 0}
    first = log.log_end_offset
    judged = log.append_as_leader(sent.data, now_ms=now_ms)
    return {
        "outcome": "recompressed" if sent.opened else "in place",
        "first_offset": first,
        "last_offset": judged.ends[-1],
        "formats": _formats(judged.data),
        "bytes": len(judged.data),
        "stored_bytes": len(data),
        "opened": sent.opened,
        "unopened": sent.unopened,
    }


def _fetch(step: script.Fetch, _now_ms: int, log_of: LogOf) -> Row:
    _check_version("fetch", step.version)
    log = log_of(step.broker, step.partition)
    check_offset(log, step.offset)
    data = log.read(step.offset, log.high_watermark, step.bytes)
    with _readable():
        offsets = [
            str(record.offset)
            for batch in enriched.batches(data)
            for record in enriched.decode_records(data, batch)
            if record.offset >= step.offset
        ]
    return {
        "outcome": "as stored",
        "formats": _formats(data),
        "bytes": len(data),
        "stored_bytes": len(data),
        "offsets": " ".join(offsets),
    }


def _list_offsets(step: script.ListOffsets, _now_ms: int, log_of: LogOf) -> Row:
    _check_version("list-offsets", step.version)
    log = log_of(step.broker, step.partition)
    if step.time in (_LATEST, _EARLIEST):
        offset = log.high_watermark if step.time == _LATEST else log.log_start_offset
        return {"outcome": "none", "first_offset": offset, "timestamp": NO_TIMESTAMP}
    found = _search(log, step.time)
    if found is None or found.offset >= log.high_watermark:
        return {"outcome": "after the last message", "first_offset": -1, "timestamp": -1}
    return {"outcome": "none", "first_offset": found.offset, "timestamp": found.timestamp}


def _search(log: EnrichedLog, time: int) -> Record | None:
    """Return the first record of a time or later: a binary search in the index, then the log."""
    for base in log.segments():
        found = enriched_index.lookup(log.entries(base), np.array([time], np.int64))
        data, batches = log.batches(base, int(found[0]))
        for batch in batches:
            if time_of(data, batch) >= time and not batch.control:
                with _readable():
                    records = enriched.decode_records(data, batch)
                return next(record for record in records if record.timestamp >= time)
    return None


def _compact(step: script.Compact, now_ms: int, log_of: LogOf) -> Row:
    if not log_of(step.broker, step.partition).topic.compacted:
        raise UsageError(f"cleanup.policy of {step.partition} does not include compact")
    return _retain(step, now_ms, log_of)


def _retain(step: script.Retain | script.Compact, now_ms: int, log_of: LogOf) -> Row:
    log = log_of(step.broker, step.partition)
    if log.topic.compacted:
        with _readable():
            done = enriched_clean.compact(log, now_ms)
        outcome = (
            f"{counted(done.batches_before, 'batch')} into {done.batches_after},"
            f" {counted(done.records, 'record')} deleted"
        )
    else:
        cleaned = enriched_clean.clean(log, now_ms)
        outcome = f"{counted(cleaned.segments, 'segment')} deleted"
        if cleaned.head_bytes:
            outcome += f", {counted(cleaned.head_bytes, 'byte')} cut from the head of the next"
    return {"outcome": outcome, "first_offset": log.log_start_offset}


@contextmanager
def _readable() -> Generator[None]:
    """Context manager in which a wrapper that cannot be opened is rejected: nobody did before."""
    try:
        yield
    except CorruptBatch as e:
        raise Rejected(f"{CORRUPT_MESSAGE}: {e.reason}", position=e.position) from e


def _formats(data: bytes) -> str:
    """Return magic and types of the messages and wrappers of `data`: `1 gzip, 1 normal`."""
    names = {enriched.message_type(batch).label for batch in enriched.batches(data, verify=False)}
    return ", ".join(f"{enriched.MAGIC} {name}" for name in sorted(names))


def _check_version(request: str, version: int) -> None:
    if version != _VERSION:
        raise UsageError(f"{request} version {version}: the dialect {ENRICHED} has {_VERSION}")


STEPS: Final[Mapping[str, Callable[..., Row]]] = {
    "produce": _produce,
    "replicate": _replicate,
    "mirror": _mirror,
    "fetch": _fetch,
    "list-offsets": _list_offsets,
    "retain": _retain,
    "compact": _compact,
}
"""The steps that differ from those of the brokers that shipped."""
