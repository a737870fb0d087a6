"""Exports, read by those they are made for: a reset of a group by Kafka's own tool at a real broker, and Spark's own reader of its options.

The directory is that of a broker which adopted partitions of a rolling upgrade: magic 0, 1 and 2. It is looked up before the broker
starts; afterwards the broker's tool resets a group by our CSV, tells the group's offsets, and where it would go by itself.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, TypeAlias

import pyarrow as pa
import pyspark

from conformance import broker
from conformance.alarms import quiet_tally
from conformance.stage import stage
from conformance.tally import Tally
from kafkats.lookup.consumer_groups import Committed, read_committed_offsets
from kafkats.lookup.exports import export
from kafkats.lookup.lag import lag
from kafkats.lookup.marks import Mark, marks_of
from kafkats.lookup.partitions import LookupOptions, lookup_partitions
from kafkats.paths import HIGH_WATERMARK
from kafkats.search import Word
from tests.answers import lookup
from tests.golden import case

VERSION: Final = broker.VERSION
RESET = "a group's offsets after Kafka's own reset by our CSV"
SAME = "our CSV against Kafka's own reset to that time"
LAG = "lag by our reading of what Kafka's tool tells of a group"
OPTIONS = "Spark's own reader of its options"
SCHEMA = "Spark's options by their documented schema"
CHECK = "self-test: a wrong export is reported"
CASE: Final = "adopt-4.1.0"
TIMES: Final = (1_600_000_060_000, 1_600_300_000_000, 1_900_000_000_000)
"""Before all, in the middle, later than all."""
TOOL: Final = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
SPARK: Final = pyspark.__version__
SPARK_JAR: Final = "spark-sql-kafka-0-10_2.13"
FETCH_S: Final = 120
_LOG4J: Final = "status = off\nrootLogger.level = off\n"
Offsets: TypeAlias = dict[tuple[str, str, int], int]


def conform(tally: Tally, work: Path) -> None:
    """Both readers; meant to be a part of `conformance lookup`."""
    work.mkdir()
    root = work / "root"
    root.mkdir()
    one = case(CASE)
    path = one.unpack("before", root)
    (
        path / HIGH_WATERMARK
    ).unlink()  # it says 0: the only replica that starts goes to the log end at once
    words = [target for time in TIMES for target in (time, time + 5000)]
    rows = lookup([path], [*words, Word.LATEST, Word.EARLIEST], LookupOptions())
    asked = lookup([path], [*TIMES, Word.LATEST, Word.EARLIEST], LookupOptions(how="kafka"))
    topics = set(one.info["topics"])
    with stage(tally.console, "exports read by Kafka's own tool and by Spark", 2) as advance:
        read_by_spark(rows, tally)
        advance()
        reset_by_kafka(path, rows, asked, topics, work, tally)
        advance()
    tally.expect(RESET, VERSION, 3 * len(topics))
    tally.expect(SAME, VERSION, len(topics))
    tally.expect(LAG, VERSION, len(topics))


# ---------------------------------------------------------------- Kafka's tool


def reset_by_kafka(
    path: Path, rows: pa.Table, asked: pa.Table, topics: set[str], work: Path, tally: Tally
) -> None:
    (work / "tool.properties").write_text(_LOG4J)
    marks = {f"g{number}": _of(marks_of(rows, time), topics) for number, time in enumerate(TIMES)}
    expected = {
        (group, mark.topic, mark.partition): _expected(mark)
        for group, some in marks.items()
        for mark in some
    }
    several = work / "several.csv"
    several.write_text(
        "".join(
            export(some, to="group-csv", missing="all", group=group).text
            for group, some in marks.items()
        )
    )
    units = list(lookup_partitions([path]))
    with broker.running(path, work) as (port, _):

        def tool(*more: object) -> str:
            return _tool(work, port, *more)

        groups = [word for group in marks for word in ("--group", group)]
        tool("--reset-offsets", *groups, "--from-file", several, "--execute")
        with ThreadPoolExecutor(2) as pool:
            described = pool.submit(tool, "--describe", *groups)
            own = pool.submit(_own_reset, tool, TIMES[1], topics)
            single = work / "single.csv"
            single.write_text(export(marks["g0"], to="group-csv", missing="all").text)
            pool.submit(
                tool, "--reset-offsets", "--group", "alone", "--from-file", single, "--execute"
            ).result()
            exported = pool.submit(
                tool,
                "--reset-offsets",
                "--group",
                "alone",
                "--all-topics",
                "--to-current",
                "--export",
                "--dry-run",
            )
            said, alone, theirs = described.result(), exported.result(), own.result()
    committed = read_committed_offsets(said)
    compare_offsets("several groups", committed, expected, tally)
    group = {key: offset for key, offset in expected.items() if key[0] == "g0"}
    compare_offsets("one group", read_committed_offsets(alone, group="g0"), group, tally)
    ours = export(_of(marks_of(asked, TIMES[1]), topics), to="group-csv", missing="none").text
    for row in read_committed_offsets(ours):
        found = theirs.get((row.topic, row.partition))
        tally.same(
            SAME, VERSION, CASE, f"{TIMES[1]} in {row.topic}-{row.partition}", row.offset, found
        )
    _compare_lag(said, committed, units, tally)
    wrong = {key: offset + 1 for key, offset in group.items()}
    quiet = quiet_tally()
    compare_offsets("self-test", read_committed_offsets(alone, group="g0"), wrong, quiet)
    tally.same(
        CHECK, VERSION, CASE, "every offset is one too high", len(quiet.differences), len(wrong)
    )


def compare_offsets(what: str, committed: list[Committed], expected: Offsets, tally: Tally) -> None:
    found = {(row.group, row.topic, row.partition): row.offset for row in committed}
    for key in sorted(expected.keys() | found.keys()):
        tally.same(RESET, VERSION, CASE, f"{what}: {key}", expected.get(key), found.get(key))


def _compare_lag(said: str, committed: list[Committed], units: list[Any], tally: Tally) -> None:
    """Kafka's own LAG column, and the log's end, by the directory."""
    table = [line.split() for line in said.splitlines() if line.startswith("g")]
    theirs = {(line[0], line[1], int(line[2])): (int(line[4]), int(line[5])) for line in table}
    for row in lag(committed, units, now_ms=TIMES[-1]).to_pylist():
        key = row["group"], row["topic"], row["partition"]
        tally.same(
            LAG, VERSION, CASE, str(key), (row["log_end_offset"], row["lag"]), theirs.get(key)
        )


def _own_reset(tool: Any, time: int, topics: set[str]) -> dict[tuple[str, int], int]:
    """Return the offsets to which Kafka's tool would reset a group for that time."""
    moment = datetime.fromtimestamp(time / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%S.000+00:00")
    words = [word for topic in sorted(topics) for word in ("--topic", topic)]
    said = tool(
        "--reset-offsets",
        "--group",
        "nobody",
        *words,
        "--to-datetime",
        moment,
        "--export",
        "--dry-run",
    )
    return {(row.topic, row.partition): row.offset for row in read_committed_offsets(said)}


def _of(marks: list[Mark], topics: set[str]) -> list[Mark]:
    return [mark for mark in marks if mark.topic in topics]


def _expected(mark: Mark) -> int:
    """By the documentation, from the answer alone."""
    if mark.offset >= 0:
        return mark.offset
    return mark.log_end if mark.reason == "past-end" else mark.log_start


def _tool(work: Path, port: int, *words: object) -> str:
    options = (
        "-XX:TieredStopAtLevel=1",
        "-XX:+UseSerialGC",
        f"-Dlog4j2.configurationFile={work}/tool.properties",
    )
    command = [
        broker.java(), *options, "-cp", f"{broker.jars()}/*", TOOL, "--bootstrap-server", f"127.0.0.1:{port}", *map(str, words),
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    if done.returncode or "Error" in done.stdout:
        raise RuntimeError(
            f"kafka-consumer-groups {' '.join(map(str, words))}: {done.stdout} {done.stderr}"
        )
    return done.stdout


# ---------------------------------------------------------------- Spark


def read_by_spark(rows: pa.Table, tally: Tally) -> None:
    """Every option's value by Spark's JsonUtils where its jar can be had, else by the schema of its guide."""
    made = []
    for time in TIMES:
        starts, ends = marks_of(rows, time), marks_of(rows, time + 5000)
        made.append((starts, ends, export(starts, ends, to="spark-offsets", missing="all")))
        timed = [mark for mark in starts if mark.reason != "no-timestamps"]
        kept = {(mark.topic, mark.partition) for mark in timed}
        until = [mark for mark in ends if (mark.topic, mark.partition) in kept]
        made.append((timed, until, export(timed, until, to="spark-by-timestamp", missing="none")))
    asked, expected = [], []
    for starts, ends, one in made:
        for name, value in json.loads(one.text).items():
            if name in _KINDS:
                asked.append((_KINDS[name], value))
                expected.append(_meant(name, starts, ends))
    jar = spark_jar()
    check = OPTIONS if jar else SCHEMA
    if jar is None:
        tally.console.print(
            f"{SPARK_JAR} {SPARK} does not resolve: its options are held to their documented schema only"
        )
    found = _read_by_spark(jar, asked) if jar else [_by_schema(value) for _, value in asked]
    for (kind, value), ours, theirs in zip(asked, expected, found, strict=True):
        tally.same(check, SPARK, CASE, f"{kind} {value[:80]}", ours, theirs)
    tally.expect(check, SPARK, 12)
    if jar:
        (error,) = _read_by_spark(jar, [("offsets", '{"t":{"0":"earliest"}}')])
        tally.same(
            CHECK, SPARK, CASE, "a word where an offset belongs", error.startswith("error"), True
        )


_KINDS: Final = {
    "assign": "partitions", "startingOffsets": "offsets", "endingOffsets": "offsets",
    "startingOffsetsByTimestamp": "timestamps", "endingOffsetsByTimestamp": "timestamps",
}  # fmt: skip


def _meant(name: str, starts: list[Mark], ends: list[Mark]) -> str:
    words = []
    for start, end in zip(starts, ends, strict=True):
        place = f"{start.topic}-{start.partition}"
        if name == "assign":
            words.append(place)
        elif name.endswith("ByTimestamp"):
            words.append(f"{place}={(start if name.startswith('starting') else end).target_ms}")
        elif name == "startingOffsets":
            words.append(f"{place}={_expected(start)}")
        else:
            words.append(f"{place}={end.offset if end.offset >= 0 else end.log_end}")
    return " ".join(sorted(words))


def _read_by_spark(jar: Path, asked: list[tuple[str, str]]) -> list[str]:
    clients = next(Path(broker.jars()).glob("kafka-clients-*.jar"))
    classpath = [jar, clients, Path(pyspark.__file__).parent / "jars" / "*"]
    program = Path(__file__).parent / "java" / "SparkOptions.java"
    command = [
        broker.java(),
        "-XX:TieredStopAtLevel=1",
        "-cp",
        os.pathsep.join(map(str, classpath)),
        str(program),
    ]
    text = "".join(f"{kind}\t{value}\n" for kind, value in asked)
    return subprocess.run(
        command, input=text, capture_output=True, text=True, check=True
    ).stdout.splitlines()


def _by_schema(value: str) -> str:
    """As the guide of Spark's Kafka source has them: {"topicA":{"0":23,"1":-1}}, and {"topicA":[0,1]}."""
    words = []
    for topic, partitions in json.loads(value).items():
        for partition in partitions:
            number = f"={partitions[partition]:d}" if isinstance(partitions, dict) else ""
            words.append(f"{topic}-{int(partition)}{number}")
    return " ".join(sorted(words))


def spark_jar() -> Path | None:
    """The jar of Spark's Kafka source alone, beside Kafka's in the cache; None when it does not resolve."""
    folder = Path(broker.jars()).parent / f"spark-{SPARK}"
    jar = folder / f"{SPARK_JAR}-{SPARK}.jar"
    if jar.exists():
        return jar
    fetched = folder.with_name(f"{folder.name}.{os.getpid()}")
    fetched.mkdir()
    try:
        if shutil.which("mvn"):
            coordinate = f"org.apache.spark:{SPARK_JAR}:{SPARK}"
            command = [
                "mvn",
                "-q",
                "-B",
                "dependency:copy",
                f"-Dartifact={coordinate}",
                f"-DoutputDirectory={fetched}",
            ]
            subprocess.run(command, cwd=fetched, capture_output=True, check=True, timeout=FETCH_S)
        else:
            _by_ivy(fetched)
        folder.mkdir(exist_ok=True)
        (fetched / jar.name).rename(jar)
    except (OSError, subprocess.SubprocessError):
        return None
    finally:
        shutil.rmtree(fetched, ignore_errors=True)
    return jar


def _by_ivy(folder: Path) -> None:
    """As conformance/java does without Maven; what the one jar would bring along is left out."""
    nothing = folder / "nothing.py"
    nothing.touch()
    others = "org.apache.spark:spark-token-provider-kafka-0-10_2.13,org.apache.kafka:kafka-clients,org.apache.spark:spark-tags_2.13"
    others += ",com.google.code.findbugs:jsr305,org.apache.commons:commons-pool2,org.scala-lang.modules:scala-parallel-collections_2.13"
    command = [
        Path(pyspark.__file__).parent / "bin" / "spark-submit", "--packages", f"org.apache.spark:{SPARK_JAR}:{SPARK}",
        "--exclude-packages", others, "--conf", f"spark.jars.ivy={folder}/ivy", nothing,
    ]  # fmt: skip
    subprocess.run(command, capture_output=True, check=True, timeout=FETCH_S)
    jar = folder / f"{SPARK_JAR}-{SPARK}.jar"
    (folder / "ivy" / "jars" / f"org.apache.spark_{jar.name}").rename(jar)
