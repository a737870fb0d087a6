"""A broker that rejoins its cluster: its words about truncations, its logs, and the records that it serves."""

from __future__ import annotations

import asyncio
import hashlib
import re
from dataclasses import replace
from pathlib import Path
from typing import Final, NamedTuple, TypeAlias

from aiokafka import AIOKafkaConsumer, TopicPartition

from conformance.recovered import partitions
from kafkats import paths
from kafkats.errors import CorruptBatch
from kafkats.formats import dispatch
from kafkats.formats.model import Batch
from kafkats.logdir.checkpoints import read_epochs
from kafkats.logdir.partition import log_bases

QUIET_MS: Final = 3000
"""A consumer that gets nothing for so long has read all."""
_ALL: Final = 2**63
Records: TypeAlias = dict[str, tuple[int, str]]
"""The count of a partition's records, and a digest over them."""
_TRUNCATING: Final = (
    re.compile(r"(Truncating) partition (\S+) (.*) \(kafka\.server"),
    re.compile(r"Log partition=(\S+), dir=\S+\] (Truncating to) (.*) \("),
)
_CUT: Final = re.compile(r"Log partition=(\S+), dir=\S+\] Truncating to offset (\d+)")
_LOADED: Final = re.compile(r"Completed load of Log\(dir=(\S+), .*logEndOffset=(\d+)\)")


class Logs(NamedTuple):
    """A partition directory: its batches, across all segments."""

    start: int
    """The base offset of the first segment."""
    end: int
    size: int
    sha256: str
    """A digest over the bytes, but of appended batches over all but the times that a broker writes."""
    epochs: tuple[tuple[int, int], ...]


def truncations(words: str) -> list[str]:
    """Return a broker's lines about truncations by its fetchers, without directories, sorted."""
    return sorted(
        " ".join(match.groups()) for form in _TRUNCATING for match in form.finditer(words)
    )


def fetched_after_start(words: str, root: Path) -> dict[str, int]:
    """Return the bytes of the batches that a broker has fetched since its start, by partition directory.

    `words` are what it printed since then. They begin at the log end that it loaded, or where it truncated the log.
    """
    begins = {Path(at).name: int(end) for at, end in _LOADED.findall(words)}
    for name, offset in _CUT.findall(words):
        begins[name] = min(begins[name], int(offset))
    return {
        directory.name: sum(
            batch.size
            for data in _segments(directory)
            for batch in _whole(data)
            if batch.last_offset >= begins[directory.name]
        )
        for directory in partitions(root)
    }


def log_ends(root: Path) -> dict[str, int]:
    """Return the log end offsets by partition directory."""
    return {directory.name: logs_of(directory).end for directory in partitions(root)}


def logs_of(directory: Path, appended: int = _ALL) -> Logs:
    """Return a partition's batches up to the last whole one, with their leader epochs.

    From the offset `appended` on, coordinators have written markers and states at their own times.
    """
    bases = log_bases(directory)
    end, digest, size = bases[-1], hashlib.sha256(), 0
    for data in _segments(directory):
        for batch in _whole(data):
            end = max(end, batch.last_offset + 1)
            size += batch.size
            digest.update(_compared(data, batch, appended))
    file = directory / paths.LEADER_EPOCH
    epochs = tuple((e.epoch, e.start_offset) for e in read_epochs(file)) if file.exists() else ()
    return Logs(bases[0], end, size, digest.hexdigest(), epochs)


def _compared(data: bytes, batch: Batch, appended: int) -> bytes:
    if batch.base_offset < appended:
        return data[batch.position : batch.position + batch.size]
    return repr(replace(batch, position=0, crc=0, base_timestamp=0, max_timestamp=0)).encode()


def _segments(directory: Path) -> list[bytes]:
    return [
        (directory / paths.segment_file(base, paths.LOG)).read_bytes()
        for base in log_bases(directory)
    ]


def _whole(data: bytes) -> list[Batch]:
    """Return the batches before zeros of a preallocated log."""
    found: list[Batch] = []
    try:
        found.extend(dispatch.batches(data))
    except CorruptBatch as e:
        if any(data[e.position or 0 :]):
            raise
    return found


async def consumed(port: int, names: list[str], isolation: str) -> Records:
    """Read partitions from their beginning to the end that `isolation` allows, from one broker."""
    wanted = [
        TopicPartition(name.rpartition("-")[0], int(name.rpartition("-")[2])) for name in names
    ]
    digests = {tp: hashlib.sha256() for tp in wanted}
    counts = dict.fromkeys(wanted, 0)
    async with AIOKafkaConsumer(
        bootstrap_servers=f"127.0.0.1:{port}", enable_auto_commit=False, isolation_level=isolation
    ) as consumer:
        consumer.assign(wanted)
        await consumer.seek_to_beginning()
        ends = await consumer.end_offsets(wanted)
        while some := await consumer.getmany(timeout_ms=QUIET_MS):
            for tp, records in some.items():
                counts[tp] += len(records)
                for r in records:
                    about = (r.offset, r.timestamp, r.timestamp_type, r.key, r.value, r.headers)
                    digests[tp].update(repr(about).encode())
        short = [tp for tp in wanted if await consumer.position(tp) < ends[tp]]
        if short:
            raise RuntimeError(f"no more records before the ends of {short}")
    return {f"{tp.topic}-{tp.partition}": (counts[tp], digests[tp].hexdigest()) for tp in wanted}


def read_all(port: int, names: list[str]) -> dict[str, Records]:
    """Return all records of partitions and the committed ones, by isolation level."""
    return {
        isolation: asyncio.run(consumed(port, names, isolation))
        for isolation in ("read_uncommitted", "read_committed")
    }
