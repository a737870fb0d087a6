"""A torn tail beside the clean-shutdown marker of a real broker, recovered by kafkats before the next start.

A broker stops cleanly, and the last bytes of one log are cut: its recovery point and its high watermark name offsets
past the cut. The plan removes the marker and cuts the tail. The next broker must recover empty segments only, have the
planned log end, give out no offset twice, and serve all records below it.
"""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Final, NamedTuple

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import NewTopic

from conformance.soaked import Broker
from conformance.tally import Tally
from conformance.writers import administered
from kafkats import paths
from kafkats.logdir.checkpoints import read_offsets
from kafkats.logdir.partition import log_bases
from kafkats.paths import PartitionName

MARKED: Final = (
    "a log that was torn beside a marker has the planned end, and serves and appends records"
)
RESTORED: Final = "undo brings back every file, the marker with its broker epoch, too"
TORN: Final = TopicPartition("torn", 0)
SOUND: Final = TopicPartition("sound", 0)
_BATCHES: Final = 10
_RECORDS: Final = 3
_END: Final = _BATCHES * _RECORDS
_RECOVERING: Final = re.compile(r"partition=([^],]+).*Recovering unflushed segment (\d+)")
_UNCLEAN: Final = "handleBrokerUncleanShutdown: changing 2 partition"
"""The controller's word (ReplicationControlManager) if a broker registers without its last epoch: it takes it out of ISR and ELR."""

Command = Callable[..., int]
"""Runs a command of kafkats and returns its exit code."""


class Told(NamedTuple):
    """The answers of a broker about a partition: its log end, the offset of a new record, and the offsets that it serves then."""

    end: int
    appended: int
    offsets: list[int]
    distinct: int
    """The number of different values."""


def conform(
    broker: Broker, start: Callable[[Broker, Path], None], kafkats: Command, tally: Tally
) -> None:
    """Compare one release. `start` starts a broker at rest, and waits for its word in a file."""
    broker.start()
    asyncio.run(_write(broker.port))
    broker.stop()
    marker = broker.root / paths.CLEAN_SHUTDOWN
    log = broker.root / "torn-0" / paths.segment_file(0, paths.LOG)
    os.truncate(log, log.stat().st_size - 5)
    planned = _END - _RECORDS
    points, marks = (
        read_offsets(broker.root / name)[PartitionName("torn", 0, "")]
        for name in (paths.RECOVERY_POINT, paths.HIGH_WATERMARK)
    )

    def same(what: str, found: object, wanted: object, check: str = MARKED) -> None:
        tally.same(check, broker.version, "marked", what, found, wanted)

    same("recovery point and high watermark past the cut", (points, marks), (_END, _END))
    before = _files(broker.root)
    same("a marker with an epoch", b"brokerEpoch" in before[marker.name][0], True)
    _recover(broker, "undone", kafkats, same)
    same("undo", kafkats("undo", broker.work / "undone.run"), 0, RESTORED)
    same("every file", _files(broker.root), before, RESTORED)
    _recover(broker, "plan", kafkats, same)
    same("the marker is removed", marker.exists(), False)
    same("the planned end", log_bases(broker.root / "torn-0")[-1], planned)
    said = broker.work / "broker.out"
    said.write_bytes(b"")
    start(broker, said)
    text = said.read_text(errors="replace")
    found = {name: int(base) for name, base in _RECOVERING.findall(text)}
    wanted = {"torn-0": planned, "sound-0": _END}
    same("the controller takes the stop for an unclean one", _UNCLEAN in text, True)
    same("recovered", {name: found.get(name) for name in wanted}, wanted)
    told = {name: asyncio.run(_ask(broker.port, name)) for name in (TORN, SOUND)}
    broker.stop()
    for name, end in ((TORN, planned), (SOUND, _END)):
        same(name.topic, told[name], Told(end, end, [*range(end + 1)], end + 1))
    same("undo after the start", kafkats("undo", broker.work / "plan.run"), 3, RESTORED)
    tally.expect(MARKED, broker.version, at_least=8)
    tally.expect(RESTORED, broker.version, at_least=3)


def _recover(
    broker: Broker, name: str, kafkats: Command, same: Callable[[str, object, object], None]
) -> None:
    plan = broker.work / name
    same("exit code of plan", kafkats("plan", "recover", broker.root, "-o", plan), 0)
    same("exit code of apply", kafkats("apply", plan, "--digest", "any"), 0)


def _files(root: Path) -> dict[str, tuple[bytes, int, int]]:
    """The bytes, the mode and the mtime of every file but the lock."""
    return {
        str(path.relative_to(root)): (
            path.read_bytes(),
            path.stat().st_mode,
            path.stat().st_mtime_ns,
        )
        for path in root.rglob("*")
        if path.is_file() and path.name != paths.LOCK
    }


async def _write(port: int) -> None:
    server = f"127.0.0.1:{port}"
    admin = await administered(server)
    await admin.create_topics([NewTopic(one.topic, 1, 1) for one in (TORN, SOUND)])
    await admin.close()
    async with AIOKafkaProducer(bootstrap_servers=server) as producer:
        for topic in (TORN.topic, SOUND.topic):
            for n in range(_BATCHES):
                batch = producer.create_batch()
                for m in range(_RECORDS):
                    batch.append(key=None, value=b"%d" % (n * _RECORDS + m), timestamp=None)
                sent = await producer.send_batch(batch, topic, partition=0)
                await sent


async def _ask(port: int, partition: TopicPartition) -> Told:
    server = f"127.0.0.1:{port}"
    async with AIOKafkaConsumer(bootstrap_servers=server, auto_offset_reset="earliest") as consumer:
        end = (await consumer.end_offsets([partition]))[partition]
        async with AIOKafkaProducer(bootstrap_servers=server) as producer:
            sent = await producer.send_and_wait(partition.topic, b"new", partition=0)
        consumer.assign([partition])
        records = [await consumer.getone(partition) for _ in range(sent.offset + 1)]
    values = {record.value for record in records}
    return Told(end, sent.offset, [record.offset for record in records], len(values))
