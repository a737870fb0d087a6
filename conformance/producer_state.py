"""Producers whose state a broker must have after its start: idempotent ones, and one with an open transaction.

`leave` writes with them before the broker is killed. `ask` sends raw requests with the same producer id and epoch
afterwards: what was written is not written again, a gap is refused, the next batch is accepted, and the open
transaction can be aborted.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from aiokafka import AIOKafkaProducer

from conformance.raw_requests import Answer, abort, produce
from conformance.writers import LONGEST_TRANSACTION_MS, administered
from kafkats import paths
from kafkats.formats import dispatch
from kafkats.formats.control import ControlType, decode_control_type
from kafkats.logdir.partition import log_bases
from kafkats.logdir.snapshot import ProducerEntry, read_snapshot

PARTITIONS: Final = 6
"""More than one of them keeps its last batch where the last bytes of every fifth log are lost."""
BATCHES: Final = 8
"""In each partition."""
BATCH_BYTES: Final = 900_000
_IDEMPOTENT: Final = ("once", "idempotent")
_OPEN: Final = "held"


class Known(NamedTuple):
    """A producer of a partition, by the snapshot at its log end."""

    topic: str
    partition: int
    producer: ProducerEntry

    @property
    def is_open(self) -> bool:
        return self.producer.txn_first_offset >= 0


class Told(NamedTuple):
    """The answers to one producer's requests."""

    old: Answer | None
    """To a batch before its last one."""
    again: Answer
    """To its last batch."""
    gap: Answer
    next: Answer
    next_again: Answer


async def leave(port: int) -> None:
    """Write to topics of their own, and leave a transaction open."""
    from aiokafka.admin import NewTopic

    server = f"127.0.0.1:{port}"
    admin = await administered(server)
    await admin.create_topics([NewTopic(name, PARTITIONS, 1) for name in ("once", _OPEN)])
    await admin.close()
    once = AIOKafkaProducer(bootstrap_servers=server, enable_idempotence=True)
    held = AIOKafkaProducer(
        bootstrap_servers=server,
        transactional_id=_OPEN,
        transaction_timeout_ms=LONGEST_TRANSACTION_MS,
    )
    for producer, topic in ((once, "once"), (held, _OPEN)):
        await producer.start()
        if producer is held:
            await producer.begin_transaction()
        for n in range(BATCHES * PARTITIONS):
            await producer.send_and_wait(topic, bytes(BATCH_BYTES), partition=n % PARTITIONS)
        await producer.stop()


def known(root: Path, ends: dict[str, int]) -> list[Known]:
    """Return the producers to ask for. `ends` are log ends by partition directory."""
    return [one for name, end in sorted(ends.items()) for one in _known(root / name, end)]


def _known(directory: Path, end: int) -> Iterator[Known]:
    topic, _, partition = directory.name.rpartition("-")
    snapshot = directory / paths.segment_file(end, paths.SNAPSHOT)
    if topic not in (*_IDEMPOTENT, _OPEN) or not snapshot.exists():
        return
    for entry in read_snapshot(snapshot):
        if (topic == _OPEN) == (entry.txn_first_offset >= 0) and entry.last_sequence >= 0:
            yield Known(topic, int(partition), entry)


def ask(port: int, one: Known) -> Told | int:
    """Return the answers to an idempotent producer's batches, or the error of the abort of an open transaction."""
    topic, partition, producer = one
    if one.is_open:
        return abort(port, topic, partition, producer)
    last, count = producer.last_sequence, producer.offset_delta + 1
    first = last - producer.offset_delta
    return Told(
        produce(port, topic, partition, producer, first - 1) if first else None,
        produce(port, topic, partition, producer, first, count),
        produce(port, topic, partition, producer, last + 3),
        produce(port, topic, partition, producer, last + 1),
        produce(port, topic, partition, producer, last + 1),
    )


def must_be(one: Known, told: Told | int, end: int) -> Told | int:
    """Return the answers that Kafka's rules give. Errors are only told from success: 1 stands for any."""
    if isinstance(told, int):
        return 0
    last = one.producer
    refused, accepted = Answer(1, -1), Answer(0, end)
    return Told(
        None if told.old is None else refused,
        Answer(0, last.last_offset - last.offset_delta),
        refused,
        accepted,
        accepted,
    )


def as_success(told: Told | int) -> Told | int:
    """Return answers with 1 for any error code."""
    if isinstance(told, int):
        return told
    old, *others = (Answer(1, -1) if answer and answer.error else answer for answer in told)
    return Told(old, *filter(None, others))


def aborted(directory: Path, producer: ProducerEntry) -> bool:
    """Whether a partition's last batch is the marker that aborts the producer's transaction."""
    filled = [
        data
        for base in log_bases(directory)
        if (data := (directory / paths.segment_file(base, paths.LOG)).read_bytes())
    ]
    *_, last = dispatch.batches(filled[-1])
    (record,) = dispatch.records(filled[-1], last)
    ours = last.control and last.producer_id == producer.producer_id
    return ours and decode_control_type(record.key) == ControlType.ABORT
