"""python -m conformance.writers PORT [--replicated]: writes to a broker until it is told to end, in all ways that leave other files behind.

Prints one line when all topics are there, and one with counts at the end.

    plain         retention by size, a roll every megabyte
    aged          retention by time, a roll every 2 s
    compacted     few keys, tombstones: the cleaner merges segments all the time
    both          compact,delete
    idempotent, transactional, transactional-compacted (one of three transactions aborts)
    preallocated  whole files from the start
    coming-*      deleted and made anew under the same name

With --replicated three brokers hold each topic, nothing is deleted, and one more topic is `compressed`.
"""

from __future__ import annotations

import asyncio
import os
import random
import signal
import sys
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Final

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from aiokafka.errors import KafkaError

_MB: Final = 1 << 20
_COMPACT: Final = {
    "cleanup.policy": "compact",
    "segment.bytes": _MB,
    "segment.ms": 1500,
    "min.cleanable.dirty.ratio": 0.01,
    "delete.retention.ms": 500,
}
_DELETE: Final = {"segment.bytes": _MB, "segment.ms": 5000, "retention.bytes": 3 * _MB}
TOPICS: Final[dict[str, dict[str, object]]] = {
    "plain": _DELETE,
    "aged": _DELETE | {"segment.ms": 2000, "retention.ms": 6000, "retention.bytes": -1},
    "compacted": _COMPACT,
    "both": _COMPACT | {"cleanup.policy": "compact,delete", "retention.ms": 8000},
    "idempotent": _DELETE,
    "transactional": _DELETE,
    "transactional-compacted": _COMPACT,
    "preallocated": _DELETE | {"preallocate": "true"},
}
REPLICATED: Final[dict[str, dict[str, object]]] = {
    name: settings | {"min.insync.replicas": 2, "retention.ms": -1, "retention.bytes": -1}
    for name, settings in (TOPICS | {"compressed": _DELETE}).items()
}
PLACES: Final = {0: [2, 1, 3], 1: [1, 3, 2], 2: [2, 3, 1], 3: [1, 2, 3]}
"""The brokers of the partitions of a replicated topic, by partition; the first one leads."""
CONTROLLER_S: Final = 180
_COMING: Final = ("coming-compacted", "coming-plain")
_PARTITIONS: Final = 2
LONGEST_TRANSACTION_MS: Final = 900_000
"""What brokers allow: a coordinator must not abort what a killed producer left open while copies are compared."""
_PAUSE_S: Final = 0.05
_BATCH: Final = 25


class _Writing:
    def __init__(self, port: int, partitions: int) -> None:
        self.server = f"127.0.0.1:{port}"
        self.partitions = partitions
        self.counts: Counter[str] = Counter()
        self.random = random.Random(port)

    def record(self, n: int) -> tuple[bytes | None, bytes]:
        key = f"key-{self.random.randrange(40)}".encode()
        value = None if n % 17 == 0 else self.random.randbytes(self.random.choice((10, 200, 6000)))
        return value, key

    async def send(self, producer: AIOKafkaProducer, topic: str, count: int = _BATCH) -> None:
        for n in range(count):
            value, key = self.record(n)
            await producer.send(topic, value, key, partition=self.random.randrange(self.partitions))
        await producer.flush()
        self.counts[topic] += count

    async def plain(self, topics: tuple[str, ...], **settings: object) -> None:
        async with AIOKafkaProducer(
            bootstrap_servers=self.server, linger_ms=5, **settings
        ) as producer:
            while True:
                for topic in topics:
                    await self.send(producer, topic)
                await asyncio.sleep(_PAUSE_S)

    async def transactions(self, topic: str) -> None:
        async with AIOKafkaProducer(
            bootstrap_servers=self.server,
            transactional_id=topic,
            transaction_timeout_ms=LONGEST_TRANSACTION_MS,
            linger_ms=5,
        ) as producer:
            while True:
                with suppress(_Aborts):
                    async with producer.transaction():
                        await self.send(producer, topic)
                        if self.random.randrange(3) == 0:
                            self.counts["aborted transactions"] += 1
                            raise _Aborts
                await asyncio.sleep(_PAUSE_S)

    async def commits(self) -> None:
        """Committed offsets: __consumer_offsets is compacted, too."""
        partition = TopicPartition("plain", 0)
        async with AIOKafkaConsumer(
            bootstrap_servers=self.server, group_id="soak", enable_auto_commit=False
        ) as consumer:
            consumer.assign([partition])
            offset = 0
            while True:
                offset += 1
                await consumer.commit({partition: offset})
                await asyncio.sleep(_PAUSE_S)

    async def coming_and_going(self, admin: AIOKafkaAdminClient) -> None:
        while True:
            for topic in _COMING:
                await made(admin, {topic: _COMPACT if topic.endswith("compacted") else _DELETE})
                async with AIOKafkaProducer(
                    bootstrap_servers=self.server, request_timeout_ms=5000
                ) as producer:
                    for _ in range(12):
                        await self.send(producer, topic)
                        await asyncio.sleep(_PAUSE_S)
                await admin.delete_topics([topic])
                self.counts["deleted topics"] += 1
            await asyncio.sleep(0.5)


class _Aborts(Exception):
    """Ends a transaction without a commit."""


async def administered(server: str) -> AIOKafkaAdminClient:
    """An administrator's client, as soon as the broker knows the cluster that it is of."""
    end = time.monotonic() + CONTROLLER_S
    while time.monotonic() < end:
        admin = AIOKafkaAdminClient(bootstrap_servers=server)
        with suppress(KafkaError):
            await admin.start()
            if admin._client.cluster.controller is not None:
                return admin
        await admin.close()
        await asyncio.sleep(0.3)
    raise RuntimeError("the broker has found no controller")


async def made(
    admin: AIOKafkaAdminClient,
    topics: dict[str, dict[str, object]],
    places: dict[int, list[int]] | None = None,
) -> None:
    """Create topics; again while one of that name is still being deleted, or brokers are missing."""
    count, replicas = (_PARTITIONS, 1) if places is None else (-1, -1)
    for _ in range(50):
        answer = await admin.create_topics([
            NewTopic(
                name,
                count,
                replicas,
                places,
                topic_configs={key: str(value) for key, value in settings.items()},
            )
            for name, settings in topics.items()
        ])
        errors = [error for error in answer.topic_errors if error[1] not in (0, 36)]
        if not errors:
            return
        await asyncio.sleep(0.2)
    raise RuntimeError(f"topics were not made: {errors}")


async def forever(work: Callable[[], Awaitable[None]]) -> None:
    """Again after what a busy broker answers."""
    while True:
        try:
            await work()
        except KafkaError as e:
            print(f"{work}: {e!r}", file=sys.stderr)
            await asyncio.sleep(0.5)


async def write(port: int, replicated: bool) -> None:
    writing = _Writing(port, len(PLACES) if replicated else _PARTITIONS)
    admin = await administered(writing.server)
    if replicated:
        await made(admin, REPLICATED, PLACES)
    else:
        await made(admin, TOPICS)
    print("all topics are there", flush=True)
    works: list[Callable[[], Awaitable[None]]] = [
        lambda: writing.plain(("plain", "aged", "compacted", "both", "preallocated")),
        lambda: writing.plain(("idempotent", "compacted"), enable_idempotence=True),
        lambda: writing.transactions("transactional"),
        lambda: writing.transactions("transactional-compacted"),
        writing.commits,
    ]
    if replicated:
        works.append(lambda: writing.plain(("compressed",), compression_type="gzip"))
    else:
        works.append(lambda: writing.coming_and_going(admin))
    tasks = [asyncio.ensure_future(forever(work)) for work in works]
    stopped = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopped.set)
    await stopped.wait()
    print(
        ", ".join(f"{name} {count}" for name, count in sorted(writing.counts.items())), flush=True
    )
    for task in tasks:
        task.cancel()
    os._exit(0)  # producers would wait for a broker that was killed


if __name__ == "__main__":
    asyncio.run(write(int(sys.argv[1]), "--replicated" in sys.argv))
