"""spark.read.format("kafkats"): the rows of real brokers' consumers, options, and what goes wrong."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pyarrow.compute as pc
import pytest
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import DataFrame, SparkSession

from bench.segments import V2_100, write_indexes, write_segment
from tests.builders.locks import broker
from tests.golden import Unpacked, case
from tests.records.rows import ASKED, differences, views

SAMPLE = ("timestamps-4.3.1", "transactions-4.3.1", "upgrade-0.9-to-2.8")
"""Times that microseconds cannot hold; aborted and open transactions; all magics, inside of one segment, too."""


@pytest.fixture
def load(spark: SparkSession) -> Any:
    def load(*paths: Path, **options: object) -> DataFrame:
        reader = spark.read.format("kafkats").options(**{
            name: str(value) for name, value in options.items()
        })
        return reader.load([str(path) for path in paths] if len(paths) != 1 else str(paths[0]))

    return load


@pytest.mark.examples(1)
@pytest.mark.parametrize("name", SAMPLE)
def test_rows_are_what_the_consumer_read(load: Any, golden: Unpacked, name: str) -> None:
    one = case(name)
    for view in views(one):
        level = "read_committed" if view.committed else "read_uncommitted"
        frame = load(
            golden(one, view.state),
            columns=",".join(ASKED),
            isolationLevel=level,
            maxPartitionBytes=4000,
        )
        assert differences(one, view, frame.toArrow()) == []


@pytest.mark.slow(1)
def test_columns(spark: SparkSession, load: Any, golden: Unpacked) -> None:
    root = golden("transactions-4.3.1", "data")
    frame = load(root)
    assert frame.columns[:7] == [
        "key",
        "value",
        "topic",
        "partition",
        "offset",
        "timestamp",
        "timestampType",
    ]
    assert "headers" not in frame.columns and "headers" in load(root, includeHeaders="true").columns
    shown = load(
        root, topics="txn-*", columns="Offset,control,transactional,headers", includeControl="true"
    )
    assert shown.columns == ["offset", "control", "transactional", "headers"]
    some = (
        spark.read
        .format("kafkats")
        .schema("directory string, `offset` bigint")
        .load(str(root / "txn-open-0"))
    )
    assert {row.directory for row in some.collect()} == {str(root / "txn-open-0")}
    frame.createOrReplaceTempView("records")
    counted = spark.sql(
        "select topic, count(*) n, max(offset) last from records group by topic order by topic"
    ).collect()
    assert [tuple(row) for row in counted] == [("txn", 191, 217), ("txn-open", 6, 5)]


@pytest.mark.slow(1)
def test_splits_offsets_and_times(load: Any, tmp_path: Path) -> None:
    log = write_segment(tmp_path / "data" / "events-0", V2_100, 4 << 20)
    write_indexes(log)
    whole = load(log.parent, columns="offset,timestampMs")
    rows = whole.toArrow()
    assert rows["offset"].to_pylist() == list(range(len(rows)))
    split = load(log.parent, columns="offset,timestampMs", maxPartitionBytes="1MiB")
    assert split.rdd.getNumPartitions() == 4
    assert split.toArrow() == rows
    some = load(
        tmp_path / "data", columns="offset", startingOffsets='{"events": {"0": 20000}}', endingOffsets='{"events": {"0": 20100}}'
    )  # fmt: skip
    assert some.toArrow()["offset"].to_pylist() == list(range(20000, 20100))
    times = rows["timestampMs"]
    begin, end = times[12345].as_py(), times[12400].as_py()
    some = load(log, columns="offset", startingTimestamp=begin, endingTimestamp=end)
    assert (
        some.toArrow()["offset"].to_pylist()
        == pc.indices_nonzero(
            pc.and_(pc.greater_equal(times, begin), pc.less(times, end))
        ).to_pylist()
    )
    assert load(log, startingTimestamp=times[-1].as_py() + 1).count() == 0


def test_damage_fails_or_is_told(load: Any, golden: Unpacked, tmp_path: Path) -> None:
    root = tmp_path / "data"
    shutil.copytree(golden("content-4.3.1-zstd", "data"), root)
    log = next(root.glob("shapes-0/*.log"))
    damaged = bytearray(log.read_bytes())
    damaged[300] ^= 1
    log.write_bytes(damaged)
    whole = load(golden("content-4.3.1-zstd", "data")).count()
    with pytest.raises(PySparkException, match=rf"CorruptBatch: {log} at byte \d+: CRC-32C"):
        load(root).count()
    found = load(root, onCorruption="skip", skippedReport=tmp_path / "skipped").count()
    (report,) = (tmp_path / "skipped").iterdir()
    (line,) = report.read_text().splitlines()
    told = json.loads(line)
    assert 0 < found < whole
    assert (told["topic"], told["partition"], told["log"]) == ("shapes", 0, str(log))
    assert told["position"] <= 300 < told["position"] + told["bytes"]


@pytest.mark.slow(13)
def test_retention_between_plan_and_read(load: Any, tmp_path: Path) -> None:
    root = tmp_path / "data"
    root.mkdir()
    case("retention-4.3.1").unpack("before", root)
    logs = sorted((root / "time-some-0").glob("*.log"))
    with broker(root):
        frame = load(root, topics="time-some", columns="offset", maxPartitionBytes=1)
        rows = frame.rdd
        assert rows.getNumPartitions() > 1, "planned"
        whole = frame.count()
        for log in logs[:2]:
            log.unlink()
        left = sorted(row.offset for row in rows.collect())
    assert (left[0], len(left)) == (int(logs[2].stem), whole - int(logs[2].stem))


def test_wrong_words(load: Any, golden: Unpacked) -> None:
    with pytest.raises(
        AnalysisException, match="UsageError: there is no option topic; there are path"
    ):
        load(golden("transactions-4.3.1", "data"), topic="a")
