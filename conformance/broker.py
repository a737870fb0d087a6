"""A real broker, Kafka 4.3.1, on a migrated log.dirs root: what a consumer gets from it, and what it does to the files.

The root is that of a KRaft broker which adopted the partitions of a rolling upgrade from 0.9 to 2.8: magic 0, 1 and 2 in one segment. All of
it becomes magic 2, then the broker starts, serves, stops, starts again and stops.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import signal
import subprocess
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, TypeAlias

from aiokafka import AIOKafkaConsumer, TopicPartition

from conformance import migrated
from conformance.judge import JUDGE
from conformance.migrated import Goal, New, Old
from conformance.tally import Tally
from tests.golden import Case, case
from tools.ports import free_ports

VERSION = "4.3.1"
SERVED = "a real broker serves all records of a migrated directory"
ANSWERED = "a real broker answers searches by time in a migrated directory"
UNTOUCHED = "a real broker recovers and deletes nothing of a migrated directory"
CASE: Final = ("adopt-4.1.0", "before", "records-before-append")
ORIGIN: Final = "upgrade-0.9-to-2.8"
"""Where its partitions come from, with recorded answers to searches by time."""
START_S = 120
READ_S = 60
SEARCHES = 60
Answers: TypeAlias = dict[tuple[str, int], tuple[int, int] | None]
"""(partition, timestamp) -> offset and timestamp of what a search found."""
STARTED = "Kafka Server started"
SKIPPED = "since clean shutdown file was found"
WORK_ON_LOGS = (
    "Recovering unflushed",
    "truncating",
    "Deleting segment",
    "Deleted log",
    "Rebuilding",
    "Corrupt",
    "Found file",
)
_LOG4J = """status = warn
appender.out.type = Console
appender.out.name = OUT
appender.out.layout.type = PatternLayout
appender.out.layout.pattern = %p %m (%c)%n
rootLogger.level = info
rootLogger.appenderRef.out.ref = OUT
"""


def serve(work: Path, tally: Tally) -> None:
    """Migrate the root, start the broker twice, and compare."""
    one, state, label = case(CASE[0]), *CASE[1:]
    root = work / "old"
    root.mkdir(parents=True)
    new = migrated.migrate(Old(one, state, one.unpack(state, root)), Goal(2), work, tally)
    before = _files(new)
    records: dict[str, list[Any]] = {}
    for start in ("first", "second"):
        with running(new.root, work) as (port, said):
            records, answers = asyncio.run(_consume(port, one))
        compare_served(f"{start} start", one, label, records, tally)
        compare_answers(f"{start} start", answers, tally)
        words = said.read_text(errors="replace")
        tally.same(
            UNTOUCHED,
            VERSION,
            one.name,
            f"{start} start: it says that it skips recovery",
            SKIPPED in words,
            True,
        )
        # The raft log of the cluster's own metadata is always recovered.
        lines = (line for line in words.splitlines() if "__cluster_metadata" not in line)
        worked = [line for line in lines if any(word in line for word in WORK_ON_LOGS)]
        tally.same(
            UNTOUCHED, VERSION, one.name, f"{start} start: its words about logs", worked[:3], []
        )
        after = _files(new)
        for path, sha256 in before.items():
            tally.same(
                UNTOUCHED,
                VERSION,
                one.name,
                f"{path} after the {start} stop",
                after.get(path),
                sha256,
            )
    _test_alarms(one, label, records, tally)


def compare_served(
    when: str, one: Case, label: str, records: dict[str, list[Any]], tally: Tally
) -> None:
    """Compare the records that a consumer read of every partition with those of the case."""
    said: dict[str, list[dict[str, Any]]] = {}
    for record in one.records(label):
        said.setdefault(record["tp"], []).append(record)
    for partition, ours in records.items():
        # Compacted topics had not been read yet; they hold what their origins hold.
        theirs = [
            migrated.as_recorded(record, 2) for record in said[partition.removeprefix("compact-")]
        ]
        migrated.same_list(SERVED, VERSION, one.name, f"{partition}, {when}", ours, theirs, tally)


def compare_answers(when: str, answers: Answers, tally: Tally) -> None:
    """offsetsForTimes, as the last broker of the upgrade answered it."""
    for (partition, timestamp), theirs in _recorded().items():
        if (partition, timestamp) in answers:
            ours = answers[partition, timestamp]
            tally.same(
                ANSWERED, VERSION, CASE[0], f"{timestamp} in {partition}, {when}", ours, theirs
            )


def _recorded() -> Answers:
    return {
        (recorded["tp"], timestamp): theirs and (theirs["offset"], theirs["timestamp"])
        for recorded in case(ORIGIN).times()
        if recorded["api"].startswith("Java consumer")
        for timestamp, theirs in recorded["answers"]
    }


async def _consume(port: int, one: Case) -> tuple[dict[str, list[Any]], Answers]:
    """Every record of every topic of the case, from the beginning; and searches by time, several in each partition."""
    partitions = [TopicPartition(topic, 0) for topic in one.info["topics"]]
    times = sorted({timestamp for _, timestamp in _recorded()})
    answers: Answers = {}
    async with _consumer(
        port
    ) as consumer:  # before it fetches, or answers would wait for the fetches
        for timestamp in times[:: max(1, len(times) // SEARCHES)]:
            for tp, hit in (
                await consumer.offsets_for_times(dict.fromkeys(partitions, timestamp))
            ).items():
                answers[_name(tp), timestamp] = hit and (hit.offset, hit.timestamp)
    records: dict[str, list[Any]] = {_name(tp): [] for tp in partitions}
    async with _consumer(port) as consumer:
        consumer.assign(partitions)
        await consumer.seek_to_beginning()
        ends = await consumer.end_offsets(partitions)
        deadline = time.monotonic() + READ_S
        while [
            tp for tp in partitions if await consumer.position(tp) < ends[tp]
        ] and time.monotonic() < deadline:
            for tp, some in (await consumer.getmany(timeout_ms=500)).items():
                records[_name(tp)] += map(_as_consumed, some)
    return records, answers


def _consumer(port: int) -> AIOKafkaConsumer:
    return AIOKafkaConsumer(bootstrap_servers=f"127.0.0.1:{port}", enable_auto_commit=False)


def _name(partition: TopicPartition) -> str:
    return f"{partition.topic}-{partition.partition}"


def _as_consumed(record: Any) -> tuple[object, ...]:
    return (
        record.offset,
        record.timestamp,
        ("CreateTime", "LogAppendTime")[record.timestamp_type],
        migrated.content(None if record.key is None else record.key.hex()),
        migrated.content(None if record.value is None else record.value.hex()),
        [[name, None if value is None else value.hex()] for name, value in record.headers],
    )


def _test_alarms(one: Case, label: str, records: dict[str, list[Any]], tally: Tally) -> None:
    """A record that was never written, and one that is missing, must be reported."""
    from conformance.alarms import CHECK, quiet_tally

    name, some = next(iter(records.items()))
    for what, wrong in (
        ("a wrong offset", [(-1, *some[0][1:]), *some[1:]]),
        ("a missing record", some[:-1]),
    ):
        quiet = quiet_tally()
        compare_served("self-test", one, label, {name: wrong}, quiet)
        tally.same(CHECK, VERSION, one.name, f"{what} in {name}", len(quiet.differences), 1)


def _files(new: New) -> dict[str, str]:
    """Logs and indexes of the case's topics; a broker may add snapshots, and rewrites checkpoints."""
    return {
        str(path.relative_to(new.root)): hashlib.sha256(path.read_bytes()).hexdigest()
        for old in new.old.partitions()
        for path in sorted(new.partition(old).iterdir())
        if path.suffix in (".log", ".index", ".timeindex")
    }


@contextmanager
def running(data: Path, work: Path) -> Generator[tuple[int, Path], None, None]:
    """A broker on `data` inside of the `with`, stopped in order at its end: its port and the file of its words."""
    port, controller = free_ports(2)
    said = work / f"broker-{port}.log"
    (work / "log4j2.properties").write_text(_LOG4J)
    properties = {
        "process.roles": "broker,controller", "node.id": 1, "controller.quorum.voters": f"1@127.0.0.1:{controller}",
        "listeners": f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT", "controller.listener.names": "CONTROLLER",
        "log.dirs": data, "log.cleaner.enable": "false", "log.retention.ms": -1, "controlled.shutdown.enable": "false",
        "offsets.topic.replication.factor": 1, "offsets.topic.num.partitions": 1, "auto.create.topics.enable": "false",
    }  # fmt: skip
    (work / "server.properties").write_text(
        "".join(f"{key}={value}\n" for key, value in properties.items())
    )
    options = (
        "-Xmx512m",
        "-XX:+UseSerialGC",
        "-XX:TieredStopAtLevel=1",
        f"-Dlog4j2.configurationFile={work}/log4j2.properties",
    )
    command = [
        java(),
        *options,
        "-cp",
        f"{jars()}/*",
        "kafka.Kafka",
        str(work / "server.properties"),
    ]
    with said.open("wb") as out:
        process = subprocess.Popen(
            command, cwd=work, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT
        )
    try:
        _until(lambda: STARTED in said.read_text(errors="replace") or process.poll() is not None)
        if process.poll() is not None:
            raise RuntimeError(
                f"the broker did not start:\n{said.read_text(errors='replace')[-3000:]}"
            )
        yield port, said
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(START_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + START_S
    while not condition():
        if time.monotonic() > end:
            raise TimeoutError("the broker did not start in time")
        time.sleep(0.2)


def jars() -> str:
    found = subprocess.run(
        [str(JUDGE), "--kafka", VERSION, "jars"], check=True, capture_output=True, text=True
    )
    return found.stdout.strip()


def java() -> str:
    home = os.environ.get("JAVA_HOME")
    return str(Path(home, "bin", "java")) if home else "java"
