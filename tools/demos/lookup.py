"""The demo of lookup: two hourly runs build a table; what it answers is what a real broker answered; then it is exported, and drawn.

Called by scripts/demo, which sets the environment. The directory is tests/real-logs/retention-4.1.0, what a broker of Kafka 4.1.0
held when it was asked for the offsets of some two hundred times in each partition. Proved is that the table has the same answer in
every cell that these recorded ones tell, and that the exports name the same offsets.
"""

from __future__ import annotations

import bisect
import csv
import json
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rich.table import Table

from kafkats import tables
from kafkats.lookup.marks import read_marks
from tests.golden import case
from tools.demo_stage import (
    HOME,
    LOG,
    POLICY,
    REPORTS,
    airflow,
    begin,
    console,
    differences,
    failed,
    run_dag,
    unpack,
    write_policy,
)

DAG = "build_lookup_tables"
CASE = "retention-4.1.0"
HOUR_MS = 3_600_000
FIRST = datetime(2020, 9, 13, 12, tzinfo=UTC)
"""The hour in which the records' times begin; the next one is that of the answers past the end."""
AT = datetime(2020, 9, 13, 12, 28, 30, tzinfo=UTC)
STEP = "1s"


def main() -> int:
    began = time.monotonic()
    begin()
    one = case(CASE)
    console.rule("[bold]1 A broker's directory, and its answers to searches by time")
    root = unpack("broker-1", one, one.states[-1])
    write_policy({"broker-1": root})
    answers = one.times()
    console.print(
        f"  {sum(len(asked['answers']) for asked in answers)} recorded answers for {len(answers)} partitions"
    )

    console.rule(f"[bold]2 airflow dags test {DAG}: the second hour first, then the first")
    folder = REPORTS / "lookup" / "spark_default-broker-1"
    if airflow("db", "migrate"):
        console.print(f"[red]airflow db migrate failed[/]: see {LOG}")
        return 1
    for hour in (1, 0):
        if not build(hour):
            return 1
    wrong = [*not_as_library(root, folder), *differences(root, one, one.states[-1])]

    console.rule("[bold]3 Proof: cell by cell against what the broker answered")
    view = tables.read(folder)
    wrong += not_as_broker(view, answers)

    console.rule("[bold]4 airflow dags test export_offsets: for Spark, and for Kafka's own tool")
    wrong += export(folder)

    console.rule("[bold]5 Pictures, in the runs' folders")
    drawn = sorted(REPORTS.glob("**/*.png"))
    for path in drawn:
        console.print(f"  {path}", soft_wrap=True)
    if {path.stem for path in drawn} != {"staircase", "disorder", "calendar"}:
        wrong.append("not all pictures were drawn")
    if failed(wrong, most=20):
        return 1
    console.print(
        "[bold green]every cell that the broker's answers tell has the broker's offset[/]; exports name the same"
    )
    console.print(f"table   {folder}\nlog     {LOG}\n{time.monotonic() - began:.0f} s in all")
    return 0


def build(hour: int) -> bool:
    """The run for one hour, as the scheduler makes it: it ends when the next one begins."""
    ends = FIRST.timestamp() + (hour + 1) * 3600
    known = set(REPORTS.glob("*/*/report.json"))
    conf = {"policy": str(POLICY), "folder": str(REPORTS), "step": STEP}
    # `dags test` is a run by hand: it would add the hour before now.
    conf |= {
        "from": datetime.fromtimestamp(ends - 3600, UTC).isoformat(),
        "to": datetime.fromtimestamp(ends, UTC).isoformat(),
    }
    code = airflow(
        "dags",
        "test",
        DAG,
        datetime.fromtimestamp(ends, UTC).isoformat(),
        "--conf",
        json.dumps(conf),
    )
    found = set(REPORTS.glob("*/*/report.json")) - known
    if code or not found:
        console.print(f"[red]the run failed[/]: see {LOG}")
        return False
    said = json.loads(found.pop().read_text())
    cells = f"{said['added']:,} cells added, {said['closed']:,} closed, {said['open']:,} open"
    console.print(f"  [bold]{said['from']} to {said['to']}[/]: {cells}")
    return True


def not_as_library(root: Path, folder: Path) -> Iterator[str]:
    """The same hours in the other order, in one process: the same files."""
    from kafkats.lookup.partitions import lookup_partitions

    first = int(FIRST.timestamp() * 1000)
    for begin_ms in (first, first + HOUR_MS):
        tables.build(
            HOME / "by-hand", lookup_partitions([root]), begin_ms, begin_ms + HOUR_MS, step_ms=1000
        )
    ours, theirs = (
        {path.name: path.read_bytes() for path in place.iterdir() if path.name != ".lock"}
        for place in (folder, HOME / "by-hand")
    )
    if ours != theirs:
        yield f"the table {folder} is not the one that is built in the other order: {sorted(ours)}, {sorted(theirs)}"
    else:
        console.print(
            f"  built in the other order, in one process: byte for byte the same {len(ours)} files"
        )


def not_as_broker(view: tables.View, answers: list[dict[str, Any]]) -> Iterator[str]:
    """Cells whose answer is another than the broker's. It tells a cell when it was asked for that very time, or gave the same
    answer for a time before and one after."""
    shown = Table(box=None, header_style="bold")
    for column in (
        "partition",
        "recorded answers",
        "cells",
        "told by them",
        "different offsets",
        "equal",
    ):
        shown.add_column(column, justify="left" if column == "partition" else "right")
    rows = view.rows.select([
        "topic",
        "partition",
        "timestamp",
        "offset",
        "record_timestamp",
    ]).to_pylist()
    all_told = all_offsets = 0
    for asked in answers:
        recorded = sorted(
            (target, (found["offset"], found["timestamp"]) if found else (-1, -1))
            for target, found in asked["answers"]
        )
        times = [target for target, _ in recorded]
        mine = [row for row in rows if f"{row['topic']}-{row['partition']}" == asked["tp"]]
        told, equal, offsets = 0, 0, set()
        for row in mine:
            at = bisect.bisect_left(times, row["timestamp"])
            if at == len(times) or (
                times[at] != row["timestamp"]
                and (at == 0 or recorded[at - 1][1] != recorded[at][1])
            ):
                continue
            told += 1
            offsets.add(recorded[at][1])
            if (row["offset"], row["record_timestamp"]) == recorded[at][1]:
                equal += 1
            else:
                yield f"{asked['tp']} at {row['timestamp']}: {row['offset']}, the broker said {recorded[at][1]}"
        shown.add_row(
            asked["tp"],
            str(len(times)),
            f"{len(mine):,}",
            f"{told:,}",
            str(len(offsets)),
            f"{equal:,}",
        )
        all_told, all_offsets = all_told + told, all_offsets + len(offsets)
    console.print(shown)
    if all_told < 10_000 or all_offsets < 50:
        yield f"{all_told} cells and {all_offsets} answers are too few for a proof"


def export(folder: Path) -> Iterator[str]:
    """Exports by DAG, from the volumes for Spark and from the table for Kafka's tool, name what the table has."""
    starts, _ = read_marks(folder, int(AT.timestamp() * 1000))
    expected = {
        (mark.topic, mark.partition): mark.offset if mark.offset >= 0 else mark.log_end
        for mark in starts
    }
    for to, source in (("spark-offsets", "volumes"), ("group-csv", "tables")):
        said = run_dag("export_offsets", time=AT.isoformat(), format=to, source=source)
        if said is None:
            yield f"the export to {to} failed"
            continue
        text = Path(said["export"]).read_text()
        found = read_csv(text) if to == "group-csv" else read_spark(text)
        console.print(f"  {to}: {len(found)} partitions in {said['export']}")
        yield from (
            f"{to}: {key} is {found.get(key)}, the table has {expected[key]}"
            for key in expected
            if found.get(key) != expected[key]
        )
        if found.keys() != expected.keys():
            yield f"{to}: other partitions than the table has"


def read_csv(text: str) -> dict[tuple[str, int], int]:
    return {
        (topic, int(partition)): int(offset)
        for topic, partition, offset in csv.reader(text.splitlines())
    }


def read_spark(text: str) -> dict[tuple[str, int], int]:
    starts = json.loads(json.loads(text)["startingOffsets"])
    return {
        (topic, int(partition)): offset
        for topic, offsets in starts.items()
        for partition, offset in offsets.items()
    }


if __name__ == "__main__":
    sys.exit(main())
