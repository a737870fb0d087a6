"""All records of a topic as rows in Spark: spark.read.format("kafkats") over the segment files, on
local[2], written to nowhere (noop). Wall time.

repeated    another data source with the same columns, rows and tasks, which yields one Arrow batch
            again and again: the cost of rows from Python in Spark itself
librdkafka  confluent-kafka, consuming the same topic from a broker (Kafka 4.3.1) on this machine
            into Python, batches of 10 000 messages. Once with default settings, reading key, value,
            offset and timestamp of every message. Once tuned: fetches of 16 MiB, long queues, no
            wait when they are full, no field read. It is installed for this run only; if
            that fails, aiokafka takes its place, and the row says so
no Spark    the same record batches in one thread of a Python process, discarded
kafka       Spark's own Kafka source reading from the same broker, the same columns; where its jars
            do not resolve, the row says so

The broker keeps running, so all contestants have the same share of the machine.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from bench import broker, segments
from bench.harness import (
    MIB,
    ROOT,
    Figure,
    Figures,
    process,
    scratch,
    take_turns,
    tell,
    times_cheaper,
    wall_seconds,
)
from bench.segments import Shape, write_indexes, write_segment
from kafkats.formats.model import Codec
from kafkats.paths import LOG
from kafkats.records.piece import read_piece
from kafkats.records.plan import ReadOptions, plan_read
from kafkats.search import Partition
from kafkats.segment.arrow import COLUMNS
from pyspark_kafkats.options import OURS, SPARKS

SEGMENTS = 4
ROUNDS = 3
SHAPES = {
    segments.V2_100: 64 * MIB,
    segments.V2_1K: 256 * MIB,
    Shape("v2 lz4 100 B", 2, 100, per_batch=0, codec=Codec.LZ4): 32 * MIB,
}
"""The size of a segment by shape: some million records, or a run of some seconds."""
SPARK_KAFKA = "org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0"
TOKEN_PROVIDER = "org.apache.spark:spark-token-provider-kafka-0-10_2.13"
OLDER = "org.apache.kafka:kafka-clients,org.apache.hadoop:hadoop-client-runtime"
RESOLVED = (
    ((SPARK_KAFKA, ""),),
    # where a repository lacks the token provider of that version: an older one works with it
    ((SPARK_KAFKA, TOKEN_PROVIDER), (f"{TOKEN_PROVIDER}:4.0.0", OLDER)),
)
"""Ways to the jars of Spark's Kafka source: what to resolve together, each without one package."""
RESOLVE_SECONDS = 300


def figures(*, small: bool = False) -> Figures:
    with scratch() as folder:
        consumer = _consumer(folder)
        jars, missing = _kafka_jars(folder)
        with _session(jars) as spark:
            spark.dataSource.register(Repeated)
            for shape, size in SHAPES.items():
                tell(shape.name)
                home = folder / shape.name.replace(" ", "-").replace(",", "")
                yield from _shape(
                    spark,
                    home,
                    shape,
                    size // 16 if small else size,
                    consumer,
                    with_kafka=bool(jars),
                )
    if missing:
        yield Figure(f"Spark's own Kafka source: not measured, {missing}", 0, "x")


def _shape(
    spark: SparkSession,
    home: Path,
    shape: Shape,
    size: int,
    consumer: Consumer,
    *,
    with_kafka: bool,
) -> Figures:
    (partition,) = broker.create_topic(home)
    records = _write(partition, shape, size)
    size = sum(log.stat().st_size for log in partition.glob(f"*{LOG}"))
    names = ",".join((*SPARKS, *OURS))
    sparks = ",".join(SPARKS)
    batch = home / "batch.arrow"
    tasks = _write_batch(partition, batch, names.split(","))
    with broker.running(home) as said:
        broker.wait_for(said, "Kafka Server started")
        address = _address(home)

        def ours(columns: str) -> DataFrame:
            return spark.read.format("kafkats").option("columns", columns).load(str(partition))

        if (found := ours("offset").count()) != records:
            raise RuntimeError(f"{found} rows of {records} records")
        repeated = (
            spark.read
            .format("repeated")
            .options(batch=str(batch), rows=str(records), tasks=str(tasks))
            .load()
        )
        contestants = {
            "ours": partial(wall_seconds, partial(_nowhere, ours(names))),
            "repeated": partial(wall_seconds, partial(_nowhere, repeated)),
            "ours, Spark's columns": partial(wall_seconds, partial(_nowhere, ours(sparks))),
            "consumer": partial(consumer.seconds, address, records),
            "tuned": partial(consumer.seconds, address, records, "tuned"),
            "no Spark": partial(wall_seconds, partial(_all_batches, partition)),
        }
        if with_kafka:
            theirs = spark.read.format("kafka").options(**{
                "kafka.bootstrap.servers": address, "subscribe": broker.TOPIC, "startingOffsets": "earliest", "minPartitions": tasks,
            }).load()  # fmt: skip
            contestants["kafka"] = partial(wall_seconds, partial(_nowhere, theirs))
        costs = take_turns(contestants, ROUNDS)
    rate = {name: records / statistics.median(cost) for name, cost in costs.items()}
    speed = f"{size / 1e6:,.0f} MB, {records:,} records"

    def beside(us: str, them: str, label: str, goal: float | None) -> Figure:
        detail = f"{speed}: {rate[us] / 1e6:.2f} / {rate[them] / 1e6:.2f} M records/s"
        what = "no Spark" if us == "no Spark" else "source"
        return Figure(
            f"{what}, {shape.name} / {label}",
            times_cheaper(costs, us, them),
            "x",
            goal,
            detail=detail,
        )

    yield beside("ours", "repeated", "a repeated batch, all default columns", 0.8)
    yield beside("ours, Spark's columns", "consumer", consumer.name, 3)
    yield beside("ours, Spark's columns", "tuned", f"{consumer.name}, tuned", None)
    yield beside("no Spark", "tuned", f"{consumer.name}, tuned", None)
    if with_kafka:
        yield beside("ours, Spark's columns", "kafka", "Spark's own Kafka source", 3)


def _session(jars: str) -> SparkSession:
    sys.path.insert(0, str(ROOT / "spark_jobs"))
    import fanout

    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = (
        SparkSession.builder.master("local[2]").appName("bench").config("spark.ui.enabled", "false")
    )
    for key, value in {**fanout.SETTINGS, **({"spark.jars": jars} if jars else {})}.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


def _address(home: Path) -> str:
    lines = (home / "server.properties").read_text().splitlines()
    listeners = next(line for line in lines if line.startswith("listeners="))
    return listeners.split("PLAINTEXT://")[1].split(",")[0]


def _nowhere(frame: DataFrame) -> None:
    frame.write.format("noop").mode("overwrite").save()


def _write(partition: Path, shape: Shape, size: int) -> int:
    """Write the topic's segments with their indexes. Return the number of records."""
    records = 0
    for _ in range(SEGMENTS):
        write_indexes(write_segment(partition, shape, size, records))
        with Partition(partition) as opened:
            records = opened.log_end_offset
    return records


def _write_batch(partition: Path, to: Path, names: list[str]) -> int:
    """Write the first batch that kafkats would give to Spark. Return the number of its tasks."""
    pieces = plan_read([partition], ReadOptions())
    schema = pa.schema([COLUMNS.field(name) for name in names])
    first = next(read_piece(pieces[0], schema))
    with pa.OSFile(str(to), "wb") as file, pa.ipc.new_stream(file, schema) as writer:
        writer.write(first)
    return max(
        2, round(sum(piece.end - piece.start for piece in pieces) / ReadOptions().piece_bytes)
    )


class Repeated(DataSource):
    """A data source that repeats one Arrow batch from a file."""

    @classmethod
    def name(cls) -> str:
        return "repeated"

    def schema(self) -> str:
        from kafkats.segment.arrow import spark_types

        types = spark_types()
        return ", ".join(f"`{name}` {types[name]}" for name in (*SPARKS, *OURS))

    def reader(self, schema: StructType) -> DataSourceReader:
        return RepeatedReader(dict(self.options))


class RepeatedReader(DataSourceReader):
    def __init__(self, options: dict[str, str]) -> None:
        self.options = options

    def partitions(self) -> list[InputPartition]:
        rows, tasks = int(self.options["rows"]), int(self.options["tasks"])
        return [InputPartition(rows // tasks + (n < rows % tasks)) for n in range(tasks)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        with pa.OSFile(self.options["batch"]) as file:
            batch = pa.ipc.open_stream(file).read_next_batch()
        left = partition.value
        while left > 0:
            yield batch.slice(0, left)
            left -= batch.num_rows


# ---------------------------------------------------------------- the other contestants


class Consumer:
    """A Python interpreter and a program that consumes the topic and prints its duration."""

    def __init__(self, name: str, python: str, program: str) -> None:
        self.name, self.python, self.program = name, python, program

    def seconds(self, address: str, records: int, how: str = "default") -> float:
        done = subprocess.run(
            [self.python, "-c", self.program, address, broker.TOPIC, str(records), how],
            check=True, stdout=subprocess.PIPE, text=True, timeout=600,
        )  # fmt: skip
        return float(json.loads(done.stdout)["seconds"])


def _all_batches(partition: Path) -> None:
    schema = pa.schema([COLUMNS.field(name) for name in SPARKS])
    for piece in plan_read([partition], ReadOptions()):
        for _ in read_piece(piece, schema, reuse=True):
            pass


def _consumer(folder: Path) -> Consumer:
    python = folder / "venv" / "bin" / "python"
    with suppress(RuntimeError):
        process([sys.executable, "-m", "venv", folder / "venv"])
        process([python, "-m", "pip", "install", "-q", "confluent-kafka"])
        return Consumer("confluent-kafka consuming", str(python), _CONFLUENT)
    return Consumer(
        "aiokafka consuming (confluent-kafka could not be installed)", sys.executable, _AIOKAFKA
    )


def _kafka_jars(folder: Path) -> tuple[str, str]:
    """Return the jars of Spark's Kafka source, separated by commas, and why there are none."""
    missing = ""
    for n, parts in enumerate(RESOLVED):
        tell(f"resolving {' and '.join(name for name, _ in parts)}")
        found = [_resolved(*part, folder / f"ivy-{n}-{m}") for m, part in enumerate(parts)]
        missing = next((why for _, why in found if why), "")
        if not missing:
            return ",".join(jars for jars, _ in found), ""
    return "", missing


def _resolved(package: str, without: str, kept: Path) -> tuple[str, str]:
    nothing = kept.with_suffix(".py")
    nothing.write_text("")
    excluded = ["--exclude-packages", without] if without else []
    settings = ["--packages", package, *excluded, "--conf", f"spark.jars.ivy={kept}"]
    command = ["spark-submit", *settings, str(nothing)]
    try:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            timeout=RESOLVE_SECONDS, check=False,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired) as e:
        return "", f"{SPARK_KAFKA} could not be resolved ({type(e).__name__})"
    if done.returncode:
        unresolved = sorted({
            line.split(":: ")[1].split(";")[0]
            for line in done.stdout.splitlines()
            if "not found" in line and ":: " in line
        })
        return "", f"{SPARK_KAFKA} needs {', '.join(unresolved) or 'jars'} that did not resolve"
    return ",".join(str(jar) for jar in sorted((kept / "jars").glob("*.jar"))), ""


_CONFLUENT = """
import json, sys, time
from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition
address, topic, records, tuned = sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4] == "tuned"
settings = {"bootstrap.servers": address, "group.id": "bench", "enable.auto.commit": False, "check.crcs": True}
if tuned:
    settings |= {"queued.min.messages": 1000000, "queued.max.messages.kbytes": 1048576, "fetch.queue.backoff.ms": 1}
    settings |= {"max.partition.fetch.bytes": 16777216, "fetch.max.bytes": 134217728}
consumer = Consumer(settings)
consumer.get_watermark_offsets(TopicPartition(topic, 0))
began, seen = time.perf_counter(), 0
consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
while seen < records:
    messages = consumer.consume(min(10000, records - seen), timeout=30)
    seen += len(messages)
    if not tuned:
        rows = [(m.key(), m.value(), m.offset(), m.timestamp()) for m in messages]
print(json.dumps({"seconds": time.perf_counter() - began}))
"""
_AIOKAFKA = """
import asyncio, json, sys, time
from aiokafka import AIOKafkaConsumer, TopicPartition
address, topic, records, tuned = sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4] == "tuned"

async def main():
    settings = {"max_partition_fetch_bytes": 16777216, "fetch_max_bytes": 134217728} if tuned else {}
    consumer = AIOKafkaConsumer(bootstrap_servers=address, enable_auto_commit=False, **settings)
    await consumer.start()
    began, seen = time.perf_counter(), 0
    consumer.assign([TopicPartition(topic, 0)])
    await consumer.seek_to_beginning()
    while seen < records:
        seen += sum(map(len, (await consumer.getmany(timeout_ms=30000, max_records=10000)).values()))
    print(json.dumps({"seconds": time.perf_counter() - began}))
    await consumer.stop()

asyncio.run(main())
"""
