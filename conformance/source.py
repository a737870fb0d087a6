"""The Spark source against what each broker's own consumers read of every golden case: offsets, times, keys, values, headers, leader epochs."""

from __future__ import annotations

import json
import os
import shutil
import sys
from pathlib import Path

from pyspark.sql import SparkSession

from conformance.stage import stage
from conformance.tally import Tally
from tests.golden import Case, cases
from tests.records.rows import ASKED, View, differences, theirs, views

ROWS = "rows of the Spark source, as the consumer read them"
COMMITTED = "the same with read_committed"


def conform(tally: Tally, work: Path) -> None:
    """The last state of each case that was read, and what was committed in it."""
    asked = [(one, view) for one in cases() for view in _last(views(one))]
    with (
        _session() as spark,
        stage(tally.console, "asking Spark for all records", len(asked)) as advance,
    ):
        for one, view in asked:
            said, partitions = _compare(spark, one, view, work / f"{one.name}-{view.label}")
            check = COMMITTED if view.committed else ROWS
            for tp in partitions:
                wrong = [text for text in said if f" {tp}: " in text]
                tally.same(check, one.kafka, one.name, tp, wrong, [])
            advance()
    tally.expect_any(ROWS, 500)
    tally.expect_any(COMMITTED, 10)


def _last(found: list[View]) -> list[View]:
    plain = [view for view in found if not view.committed]
    return plain[-1:] + [view for view in found if view.committed]


def _compare(
    spark: SparkSession, one: Case, view: View, folder: Path
) -> tuple[list[str], list[str]]:
    """What differs; and the partitions that were compared."""
    root, report = folder / "root", folder / "skipped"
    root.mkdir(parents=True)
    one.unpack(view.state, root)
    roots = sorted(map(str, root.glob("disk-*"))) or [str(root)]
    level = "read_committed" if view.committed else "read_uncommitted"
    frame = (
        spark.read
        .format("kafkats")
        .options(
            columns=",".join(ASKED),
            isolationLevel=level,
            onCorruption="skip",
            skippedReport=str(report),
        )
        .load(roots)
    )
    table = frame.toArrow()
    skipped = set()
    for lines in report.glob("*.jsonl") if report.exists() else ():
        told = json.loads(lines.read_text().splitlines()[0])
        skipped.add(f"{told['topic']}-{told['partition']}")
    found = differences(one, view, table, skipped)
    shutil.rmtree(folder)
    return found, list(theirs(one, view))


def _session() -> SparkSession:
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    builder = SparkSession.builder.master("local[2]").appName("conformance")
    settings = {
        "spark.ui.enabled": "false",
        "spark.python.unix.domain.socket.enabled": "true",
        "spark.log.level": "ERROR",
    }
    for key, value in settings.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()
