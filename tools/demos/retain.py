"""The demo of retain: what a real broker's retention would delete and what pins the rest; then it is deleted, taken back, purged.

Called by scripts/demo, which sets the environment. The directory is tests/real-logs/retention-4.3.1: `before` is what a broker of
Kafka 4.3.1 held before its retention ran, `after` what it had left. Proved are against that broker's own files: the same
segments are gone, the log starts are the same, what is left is byte for byte the same; and after undo every file is as before.
Then the expired heads of segments go, too: what is left is what the broker's consumer had read, from the first batch on that has not
expired.
"""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from rich.filesize import decimal
from rich.table import Table

from kafkats.formats import dispatch
from kafkats.plans.plan import read_plan
from tests.golden import Case, case, retention_moment, retention_policy
from tools.demo_stage import (
    HOME,
    LOG,
    POLICY,
    begin,
    console,
    differences,
    failed,
    run_dag,
    unpack,
    write_policy,
)

DAG = "apply_retention"
UNASKED: dict[str, Any] = {"dry_run": False, "need_approval": False}
CASE = "retention-4.3.1"
COMPARED = (".log", ".index", ".timeindex")
LIMIT = datetime(2020, 9, 13, 12, 29, tzinfo=UTC)
"""Inside segments whose records have timestamps."""


def main() -> int:
    began = time.monotonic()
    begin()
    one = case(CASE)
    now = datetime.fromtimestamp(retention_moment(one) / 1000, UTC)
    console.rule("[bold]1 A broker's directory, as it lay there before retention")
    root = unpack("broker-1", one, "before")
    write_policy({"broker-1": root}, **retention_policy(one))

    tomorrow = now + timedelta(days=1)
    console.rule(f"[bold]2 airflow dags test {DAG}: dry run, as of a day later")
    forecast = run_dag(DAG, as_of=tomorrow.isoformat(), last_segment=True, dry_run=True)
    if forecast is None:
        return 1
    show_board(json.loads(Path(forecast["report"], "board.json").read_text()))
    console.print(f"  plots {forecast['report']}/timeline.png, reclaimable.png")
    wrong = list(differences(root, one, "before"))
    wrong += [] if forecast["pinned_bytes"] else ["the record from the future pins nothing"]

    console.rule(
        f"[bold]3 airflow dags test {DAG}: apply, as of {now:%Y-%m-%d %H:%M:%S} UTC, when the broker did"
    )
    ran = run_dag(DAG, as_of=now.isoformat(), last_segment=True, **UNASKED)
    if ran is None:
        return 1
    console.print(
        f"  [bold]{ran['outcome']}[/]: {ran['files_proved']} of {ran['files_planned']} files"
    )
    wrong += not_as_kafka(root, one)
    show_partitions(root, one)

    console.rule("[bold]4 kafkats undo; once more by hand; kafkats purge")
    wrong += undo_and_purge(root, one, Path(ran["runs"][0]), now)

    console.rule(
        f"[bold]5 airflow dags test {DAG}: inside segments, what is older than {LIMIT:%Y-%m-%d %H:%M:%S} UTC"
    )
    root = unpack("broker-2", one, "before")
    write_policy({"broker-2": root}, **retention_policy(one))
    ran = run_dag(
        DAG, as_of=now.isoformat(), before=LIMIT.isoformat(), inside_segments=True, **UNASKED
    )
    if ran is None:
        return 1
    heads = cut(Path(ran["plans"][0]["plan"]))
    console.print(f"  [bold]{ran['outcome']}[/]: the expired heads of {', '.join(heads)}")
    wrong += [] if heads else ["no segment has an expired head"]
    wrong += [line for name in heads for line in not_from_the_first(root / name, one)]

    console.rule("[bold]6 Proof: against the files of that broker")
    if failed(wrong):
        return 1
    console.print(
        "[bold green]the same segments were deleted, the log starts are the same[/] as Kafka's own, file by file (sha256)"
    )
    console.print(
        "[bold green]after undo every file was byte for byte as before[/] (sha256); purge freed the bytes"
    )
    console.print(
        "[bold green]inside segments all is there from the first batch on that has not expired[/], as the broker's consumer read it"
    )
    console.print(f"report  {Path(ran['report'], 'report.json')}\nlog     {LOG}")
    console.print(f"{time.monotonic() - began:.0f} s in all")
    return 0


def not_as_kafka(root: Path, one: Case) -> Iterator[str]:
    """Return the differences between what retention left and what the broker's own left."""
    after = one.files("after")
    for partition, told in one.info["retention"].items():
        if not isinstance(told["limits"], dict):
            continue  # there a client deleted records meanwhile
        logs = bases(root / partition)
        if logs != told["segments_after"]:
            yield f"{partition}: segments {logs}, the broker left {told['segments_after']}"
        start = one.info["partitions"][partition]["records"]["log_start_offset"]
        if logs[:1] != [start]:
            yield f"{partition}: begins at {logs[:1]}, the broker's log at {start}"
        for path in sorted((root / partition).iterdir()):
            theirs = after.get(f"{partition}/{path.name}")
            if path.suffix in COMPARED and theirs and sha256(path) != theirs[2]:
                yield f"{path}: differs from the broker's own"


def cut(plan: Path) -> list[str]:
    """The partitions in which a plan deletes the head of a segment."""
    return sorted({
        item["partition_dir"] for item in read_plan(plan).items.to_pylist() if item["log"]
    })


def not_from_the_first(partition: Path, one: Case) -> Iterator[str]:
    """Return the records that are missing or should be gone, compared with an earlier read."""
    read = [row for row in one.records("records-before") if row["tp"] == partition.name]
    now, first = [], -1
    for log in sorted(partition.glob("*.log")):
        data = log.read_bytes()
        for batch in dispatch.batches(data):
            first = batch.max_timestamp if first < 0 else first
            now += [
                (r.offset, r.timestamp, value_hash(r.value)) for r in dispatch.records(data, batch)
            ]
    start, expired = now[0][0], LIMIT.timestamp() * 1000
    if [
        (row["offset"], row["timestamp"], row["value_sha256"])
        for row in read
        if row["offset"] >= start
    ] != now:
        yield f"{partition}: other records than the consumer read from offset {start} on"
    if bases(partition)[0] != start or first < expired:
        yield f"{partition}: the log does not start with the first batch that has not expired"
    if not any(row["offset"] < start for row in read):
        yield f"{partition}: nothing has gone"
    if any(row["timestamp"] >= expired for row in read if row["offset"] < start):
        yield f"{partition}: a record is gone that had not expired"


def value_hash(value: bytes | None) -> str | None:
    return None if value is None else hashlib.sha256(value).hexdigest()[:16]


def undo_and_purge(root: Path, one: Case, run: Path, now: datetime) -> Iterator[str]:
    """Undo the DAG's run; do the same by hand and purge it."""
    kafkats("undo", str(run))
    yield from differences(root, one, "before")
    console.print("  undone: every file is the broker's own again")
    plan = HOME / "by-hand"
    words = ["--policy", str(POLICY), "--now", now.isoformat(), "--last-segment", "-o", str(plan)]
    kafkats("plan", "retain", str(root), *words)
    digest = json.loads((plan / "plan.json").read_text())["digest"]
    kafkats("apply", str(plan), "--digest", digest)
    yield from not_as_kafka(root, one)
    before = on_disk(root.parent)
    kafkats("purge", f"{plan}.run")
    freed = before - on_disk(root.parent)
    console.print(f"  purged: {decimal(before)} on the disk before, {decimal(freed)} freed")
    if freed <= 0:
        yield "purge freed nothing"


def kafkats(*words: str) -> None:
    ran = subprocess.run(["kafkats", *words], capture_output=True, text=True, check=False)
    with LOG.open("a") as log:
        log.write(f"$ kafkats {' '.join(words)}\n{ran.stdout}{ran.stderr}")
    console.print(f"  kafkats {words[0]}: {'done' if not ran.returncode else ran.stderr.strip()}")
    if ran.returncode:
        raise SystemExit(ran.returncode)


def bases(partition: Path) -> list[int]:
    return sorted(int(log.stem) for log in partition.glob("*.log"))


def sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def on_disk(folder: Path) -> int:
    return sum(512 * path.lstat().st_blocks for path in folder.rglob("*") if path.is_file())


def show_board(board: dict[str, Any]) -> None:
    table = Table(
        box=None,
        header_style="bold",
        title="the board: what goes, and what stands in the way of the rest",
    )
    sizes = {
        "now_bytes": "now",
        "day_bytes": "in 24 h",
        "week_bytes": "in 7 d",
        "pinned_bytes": "pinned",
    }
    table.add_column("partition")
    for column in ("bytes", *sizes.values(), "kept by"):
        table.add_column(column, justify="right")
    table.add_column("why, and until when", overflow="fold")
    for row in board["partitions"]:
        cells = [f"{row[name]:,}" if row[name] else "-" for name in ("bytes", *sizes)]
        kept = "" if row["kept_by"] is None else str(row["kept_by"])
        until = (
            ""
            if row["until_ms"] is None
            else f", {datetime.fromtimestamp(row['until_ms'] / 1000, UTC):%Y-%m-%d %H:%M}"
        )
        colour = "[red]" if row["pinned_bytes"] else ""
        table.add_row(f"{colour}{row['partition_dir']}", *cells, kept, f"{row['why']}{until}")
    console.print(table)


def show_partitions(root: Path, one: Case) -> None:
    table = Table(
        box=None, header_style="bold", title="segments (base offsets): before, Kafka's after, ours"
    )
    for column in ("partition", "limits", "before", "Kafka's", "ours", "log start"):
        table.add_column(column)
    for partition, told in one.info["retention"].items():
        limits = told["limits"]
        words = (
            ", ".join(f"{key}={value}" for key, value in limits.items())
            if isinstance(limits, dict)
            else "(none here)"
        )
        start = one.info["partitions"][partition]["records"]["log_start_offset"]
        cells = [
            " ".join(map(str, b))
            for b in (told["segments_before"], told["segments_after"], bases(root / partition))
        ]
        table.add_row(partition, words, *cells, str(start))
    console.print(table)


if __name__ == "__main__":
    sys.exit(main())
