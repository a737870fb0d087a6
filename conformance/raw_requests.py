"""Raw requests to a broker: batches of a producer with its own sequence numbers, and the marker that ends a transaction.

Produce version 3, Metadata version 1 and WriteTxnMarkers version 1 are known to all brokers from 2.8 to 4.3.
"""

from __future__ import annotations

import io
import socket
import struct
import time
from collections.abc import Callable
from typing import Final, NamedTuple, TypeVar

from kafkats.formats import v2
from kafkats.formats.model import Record, TimestampType
from kafkats.logdir.snapshot import ProducerEntry

ANSWER_S: Final = 30
READY_S: Final = 120
_PRODUCE: Final = 0
_METADATA: Final = 3
_WRITE_MARKERS: Final = 27
_NOT_READY: Final = (3, 5, 6, 7, 14, 15, 16)
"""Errors of a broker that has just started: no leader, no such topic yet, loading."""
_NO_TAGS: Final = b"\0"
T = TypeVar("T")


class Answer(NamedTuple):
    """The error code of a produce request, and the offset of its first record (-1 without one)."""

    error: int
    base_offset: int


class Replicas(NamedTuple):
    """The leader of a partition (-1: none), and its in-sync replicas."""

    leader: int
    in_sync: frozenset[int]


def produce(
    port: int, topic: str, partition: int, producer: ProducerEntry, sequence: int, count: int = 1
) -> Answer:
    """Send one batch of `count` records, the first with this sequence number. Raises OSError, TimeoutError."""
    now = time.time_ns() // 1_000_000
    batch = v2.encode_batch(
        [Record(n, now, TimestampType.CREATE_TIME, None, b"sent again") for n in range(count)],
        producer_id=producer.producer_id,
        producer_epoch=producer.producer_epoch,
        base_sequence=sequence,
    )
    return produce_batch(port, topic, partition, batch)


def produce_batch(
    port: int, topic: str, partition: int, batch: bytes, *, version: int = 3, acks: int = -1
) -> Answer:
    """Send a set as it is, by produce version 2 or 3, to be acknowledged by all in-sync replicas or by the leader (1).

    Raises OSError, TimeoutError.
    """
    head = b"" if version < 3 else struct.pack(">h", -1)  # no transactional id
    body = (
        head + struct.pack(">hi", acks, ANSWER_S * 1000)
        + struct.pack(">i", 1) + _string(topic)
        + struct.pack(">iii", 1, partition, len(batch)) + batch
    )  # fmt: skip

    def ask() -> Answer:
        answer = _asked(port, struct.pack(">hhih", _PRODUCE, version, 1, -1) + body)
        at = 4 + 4 + 2 + len(topic) + 4 + 4  # correlation id, topics, name, partitions, partition
        return Answer(*struct.unpack_from(">hq", answer, at))

    return _when_ready(ask, lambda answer: answer.error)


def abort(port: int, topic: str, partition: int, producer: ProducerEntry) -> int:
    """Write the marker that aborts a producer's open transaction. Returns the error code. Raises OSError, TimeoutError."""
    body = (
        b"\2" + struct.pack(">qh?", producer.producer_id, producer.producer_epoch, False)
        + b"\2" + bytes([len(topic) + 1]) + topic.encode()
        + b"\2" + struct.pack(">i", partition) + _NO_TAGS
        + struct.pack(">i", max(producer.coordinator_epoch, 0)) + _NO_TAGS
        + _NO_TAGS
    )  # fmt: skip

    def ask() -> int:
        answer = _asked(port, struct.pack(">hhih", _WRITE_MARKERS, 1, 1, -1) + _NO_TAGS + body)
        # correlation id, tags, markers, producer, topics, name, partitions, partition
        at = 4 + 1 + 1 + 8 + 1 + 1 + len(topic) + 1 + 4
        error: int = struct.unpack_from(">h", answer, at)[0]
        return error

    return _when_ready(ask, lambda error: error)


def replicas(port: int) -> dict[str, Replicas]:
    """Return the leader and the in-sync replicas of all partitions, as one broker knows them. Raises OSError."""
    answer = io.BytesIO(_asked(port, struct.pack(">hhihi", _METADATA, 1, 1, -1, -1)))

    def read(form: str) -> int:
        value: int = struct.unpack(form, answer.read(struct.calcsize(form)))[0]
        return value

    def text() -> str:
        return answer.read(max(read(">h"), 0)).decode()

    read(">i")  # correlation id
    for _ in range(read(">i")):
        read(">i"), text(), read(">i"), text()  # a broker: id, host, port, rack
    read(">i")  # controller
    known = {}
    for _ in range(read(">i")):
        read(">h")
        topic = text()
        read(">?")
        for _ in range(read(">i")):
            read(">h")
            partition, leader = read(">i"), read(">i")
            _, in_sync = ([read(">i") for _ in range(read(">i"))] for _ in range(2))
            known[f"{topic}-{partition}"] = Replicas(leader, frozenset(in_sync))
    return known


def _when_ready(ask: Callable[[], T], error_of: Callable[[T], int]) -> T:
    end = time.monotonic() + READY_S
    while True:
        answer = ask()
        if error_of(answer) not in _NOT_READY or time.monotonic() > end:
            return answer
        time.sleep(0.2)


def _asked(port: int, request: bytes) -> bytes:
    """Return the answer to one request, from its correlation id on."""
    with socket.create_connection(("127.0.0.1", port), timeout=ANSWER_S) as connection:
        connection.sendall(struct.pack(">i", len(request)) + request)
        (size,) = struct.unpack(">i", _read(connection, 4))
        return _read(connection, size)


def _read(connection: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        more = connection.recv(size - len(data))
        if not more:
            raise ConnectionError("the broker closed the connection: it knows no such request")
        data += more
    return data


def _string(text: str) -> bytes:
    return struct.pack(">h", len(text)) + text.encode()
