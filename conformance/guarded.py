"""Real brokers are killed under load, and `kafkats recover` runs before each restart.

    scripts/conformance guard           4 kills: 2 each of 4.3.1 and 2.8.2
    scripts/conformance guard --full    200, of 4.3.1, 3.9.1 and 2.8.2

Every second kill is made a loss of power: of some logs the bytes above the recovery point are cut or
zeroed, and some indexes and snapshots above it are missing. Every third recovery is itself killed with
-9 at a moment that the dice choose, and another one follows, as a service manager would have it; every
second of these also lost the work area, as a pod's is lost.

Compared are: the exit code; the log ends with what preflight says before the recovery of the broker's
own; the segments that the broker then recovers; and all records that were acknowledged, or, after a
loss of power, those below the recovery points.
"""

from __future__ import annotations

import asyncio
import json
import logging
import random
import re
import shutil
import subprocess
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from aiokafka.errors import KafkaError

from conformance.soak import settings
from conformance.soaked import START_S, STARTED, Broker, until
from conformance.tally import Tally
from kafkats import paths
from kafkats.errors import CorruptBatch
from kafkats.execution.local import LocalExecutor
from kafkats.formats.framing import frames
from kafkats.logdir.checkpoints import read_offsets
from kafkats.logdir.partition import log_bases
from kafkats.recovery.start import predict_start

KILLS: Final = {False: {"4.3.1": 2, "2.8.2": 2}, True: {"4.3.1": 80, "3.9.1": 60, "2.8.2": 60}}
SEED: Final = 31
TOPICS: Final = {"plain": 6, "small": 4, "compacted": 1}
"""Topics and their partitions. `small` and `compacted` have small segments."""
COMPACTED: Final = "compacted"
KEYS: Final = 40
_SMALL: Final = {"segment.bytes": str(1 << 20), "index.interval.bytes": "512"}
_CONFIGS: Final = {
    "small": _SMALL,
    COMPACTED: {
        **_SMALL,
        "cleanup.policy": "compact",
        "min.cleanable.dirty.ratio": "0.01",
    },
}
LOAD_S: Final = (1.0, 5.0)
STARTS: Final = "recover lets the broker start"
ENDS: Final = "logs end where preflight says that the broker's own recovery ends them"
RECORDS: Final = (
    "every acknowledged record is still there; after a loss of power, every flushed one"
)
CHEAP: Final = "the broker recovers empty segments only"
LEFT: Final = "recover leaves no partition to the broker"
_RECOVERING: Final = re.compile(r"partition=([^],]+).*Recovering unflushed segment (\d+)")
_INTERNAL: Final = "__"

Ends = dict[str, int]
Acknowledged = dict[str, dict[int, bytes]]


def conform(tally: Tally, work: Path) -> None:
    logging.getLogger("aiokafka").setLevel(logging.CRITICAL)  # its broker is killed
    dice = random.Random(SEED)
    for version, kills in KILLS[settings.full].items():
        if not settings.versions or version in settings.versions:
            _kill_often(version, kills, work / version, dice, tally)


def _kill_often(version: str, kills: int, work: Path, dice: random.Random, tally: Tally) -> None:
    broker = Broker(version, work, level="info")
    acknowledged: Acknowledged = defaultdict(dict)
    try:
        broker.start()
        asyncio.run(make_topics(broker.port))
        for number in range(kills):
            load(broker, dice.uniform(*LOAD_S), acknowledged)
            power = number % 2 == 1
            if power:
                _lose_power(broker.root, dice, acknowledged)
            name = f"kill {number}, {'power loss' if power else 'killed'}"
            expected = _predicted(broker)
            _recover(broker, number, dice, name, tally)
            _restart(broker, expected, name, tally)
            asyncio.run(_check_records(broker, acknowledged, expected, name, tally))
        for check in (STARTS, ENDS, RECORDS, CHEAP):
            tally.expect(check, version, kills)
    finally:
        broker.close()
        shutil.rmtree(work, ignore_errors=True)


async def make_topics(port: int) -> None:
    admin = AIOKafkaAdminClient(bootstrap_servers=f"127.0.0.1:{port}")
    await admin.start()
    try:
        topics = [
            NewTopic(name, count, 1, topic_configs=_CONFIGS.get(name, {}))
            for name, count in TOPICS.items()
        ]
        answer = await admin.create_topics(topics)
        refused = [error for error in answer.topic_errors if error[1]]
        if refused:
            raise RuntimeError(f"not created: {refused}")
    finally:
        await admin.close()


def load(broker: Broker, seconds: float, acknowledged: Acknowledged) -> None:
    """Write for some seconds, and kill the broker amid it. Keeps what it acknowledged."""
    killer = threading.Timer(seconds, broker.kill)
    killer.start()
    try:
        asyncio.run(_write(broker.port, seconds + 1, acknowledged))
    finally:
        killer.join()


async def _write(port: int, seconds: float, acknowledged: Acknowledged) -> None:
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda *_: None)  # connections end with the broker
    producer = AIOKafkaProducer(
        bootstrap_servers=f"127.0.0.1:{port}", enable_idempotence=True, linger_ms=2,
        request_timeout_ms=1000,
    )  # fmt: skip
    try:
        await asyncio.wait_for(producer.start(), START_S)
    except (TimeoutError, KafkaError):  # it was killed before it has answered
        with suppress(TimeoutError, KafkaError):
            await asyncio.wait_for(producer.stop(), 2.0)
        return
    end, number, pending = time.monotonic() + seconds, 0, []
    try:
        while time.monotonic() < end:
            for name, count in TOPICS.items():
                key = b"%d" % (number % KEYS)
                value = key + f" {time.time_ns()}-{number}".encode() * (1 + number % 40)
                partition = number % count
                send = producer.send(name, value, key=key, partition=partition)
                sent = await asyncio.wait_for(send, 1.0)
                pending.append((sent, f"{name}-{partition}", value))
            number += 1
            if number % 50 == 0:
                await asyncio.sleep(0)
    except (TimeoutError, KafkaError):
        pass
    for sent, partition, value in pending:
        if sent.done() and not sent.cancelled() and sent.exception() is None:
            acknowledged[partition][sent.result().offset] = value
    with suppress(TimeoutError, KafkaError):
        await asyncio.wait_for(producer.stop(), 2.0)


def _partitions(root: Path) -> list[Path]:
    named = (path for path in sorted(root.iterdir()) if paths.parse_partition(path.name))
    return [path for path in named if path.is_dir() and not path.name.startswith(_INTERNAL)]


def _lose_power(root: Path, dice: random.Random, acknowledged: Acknowledged) -> None:
    """Lose bytes that were not flushed. What was acknowledged above the recovery points may go."""
    points = {str(name): at for name, at in read_offsets(root / paths.RECOVERY_POINT).items()}
    for directory in _partitions(root):
        flushed = points.get(directory.name, 0)
        kept = acknowledged[directory.name]
        for offset in [offset for offset in kept if offset >= flushed]:
            del kept[offset]
        bases = log_bases(directory)
        if dice.random() < 0.6:
            _tear(directory / paths.segment_file(bases[-1]), max(flushed, bases[-1]), dice)
        for kind in (paths.OFFSET_INDEX, paths.TIME_INDEX, paths.SNAPSHOT):
            for base in bases:
                file = directory / paths.segment_file(base, kind)
                if base >= flushed and dice.random() < 0.2:
                    file.unlink(missing_ok=True)


def _tear(log: Path, flushed: int, dice: random.Random) -> None:
    """Cut or zero a log from a byte above the flushed ones on."""
    data = log.read_bytes()
    start = len(data)
    try:
        for frame in frames(data):
            if frame.offset >= flushed:
                start = frame.position
                break
    except CorruptBatch:
        return
    if start == len(data):
        return
    at = dice.randrange(start, len(data))
    with log.open("r+b") as file:
        file.truncate(at)
        if dice.random() < 0.5:
            file.truncate(len(data))


def _predicted(broker: Broker) -> Ends:
    start = predict_start(LocalExecutor(1), [broker.root], broker.version)
    return {one.partition_dir: one.log_end_offset for one in start.partitions}


def _words(broker: Broker) -> list[str]:
    return [
        sys.executable, "-m", "kafkats", "recover", "--kafka", broker.version,
        "--server-properties", str(broker.work / "server.properties"),
    ]  # fmt: skip


def _recover(broker: Broker, number: int, dice: random.Random, name: str, tally: Tally) -> None:
    """Recover as before a start; every third time another recovery was killed before."""
    if number % 3 == 1:
        process = subprocess.Popen(_words(broker), stderr=subprocess.DEVNULL)
        time.sleep(dice.uniform(0.3, 4.0))
        process.kill()
        process.wait()
        if dice.random() < 0.5:
            shutil.rmtree(broker.work / ".kafkats", ignore_errors=True)
    done = subprocess.run(_words(broker), capture_output=True, text=True, check=False)
    tally.same(STARTS, broker.version, "exit code", name, done.returncode, 0)
    told = [json.loads(line) for line in done.stderr.splitlines() if line.startswith("{")]
    wrong = [one for one in told if one["event"] in ("failed", "left-to-the-broker", "finding")]
    held = [one for one in wrong if one.get("kind") != "loses-records"]
    tally.same(STARTS, broker.version, "log lines", name, held, [])
    left = next(one["left_partitions"] for one in told if one["event"] == "start")
    tally.same(LEFT, broker.version, "partitions", name, left, [])


def _restart(broker: Broker, expected: Mapping[str, int], name: str, tally: Tally) -> None:
    said = broker.work / "broker.out"
    said.write_bytes(b"")
    broker.start()
    until(lambda: bool(STARTED.search(said.read_text(errors="replace"))), START_S, "the start")
    lines = said.read_text(errors="replace").splitlines()
    recovered = [m.groups() for line in lines if (m := _RECOVERING.search(line))]
    own = sorted(
        (partition, int(base))
        for partition, base in recovered
        if not partition.startswith(_INTERNAL)
    )
    ends = sorted(
        (partition, end)
        for partition, end in expected.items()
        if not partition.startswith(_INTERNAL)
    )
    tally.same(CHEAP, broker.version, "segments", name, own, ends)


async def _check_records(
    broker: Broker, acknowledged: Acknowledged, expected: Mapping[str, int], name: str, tally: Tally
) -> None:
    consumer = AIOKafkaConsumer(
        bootstrap_servers=f"127.0.0.1:{broker.port}", auto_offset_reset="earliest"
    )
    await consumer.start()
    try:
        every = [TopicPartition(topic, n) for topic, count in TOPICS.items() for n in range(count)]
        ends = await consumer.end_offsets(every)
        for one, end in ends.items():
            where = f"{one.topic}-{one.partition}"
            ended = expected.get(where, 0)  # a broker killed at once has not made every directory
            tally.same(ENDS, broker.version, "log end", f"{name}, {where}", end, ended)
            found = await read(consumer, one, end)
            kept = acknowledged[where]
            lost = lost_of(kept, found, compacted=one.topic == COMPACTED)
            tally.same(RECORDS, broker.version, "records", f"{name}, {where}", lost[:5], [])
            acknowledged[where] = found
    finally:
        await consumer.stop()


def lost_of(kept: Mapping[int, bytes], found: Mapping[int, bytes], *, compacted: bool) -> list[int]:
    """Return the offsets that are missing; of a compacted log those without a newer record of the key."""
    if not compacted:
        return [offset for offset, value in kept.items() if found.get(offset) != value]
    there = _newest(found)
    return [offset for key, offset in _newest(kept).items() if there.get(key, -1) < offset]


def _newest(records: Mapping[int, bytes]) -> dict[bytes, int]:
    """Return the highest offset of each key, with which its values begin."""
    return {records[offset].partition(b" ")[0]: offset for offset in sorted(records)}


async def read(consumer: AIOKafkaConsumer, one: TopicPartition, end: int) -> dict[int, bytes]:
    found: dict[int, bytes] = {}
    if not end:
        return found
    consumer.assign([one])
    await consumer.seek_to_beginning(one)
    until_ = time.monotonic() + START_S
    while (not found or max(found) < end - 1) and time.monotonic() < until_:
        for records in (await consumer.getmany(one, timeout_ms=500)).values():
            found |= {record.offset: record.value for record in records}
    return found
