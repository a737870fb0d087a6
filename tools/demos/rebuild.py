"""The demo of rebuild: three real brokers' directories lose time indexes as in a hard failure; one DAG run repairs them.

Called by scripts/demo, which sets the environment. The directories are tests/real-logs, written by Kafka 4.3.1 and 3.9.1
(magic 2) and 2.8.2 (magic 1). The proof at the end uses none of our code: every file of both directories must have the sha256 that
was recorded when Kafka itself had written it.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pyarrow.parquet as pq
from rich.table import Table

from kafkats.plans.run import WROTE
from tests.golden import case
from tools.demo_stage import (
    HOME,
    LOG,
    begin,
    console,
    differences,
    run_dag,
    say_whole,
    unpack,
    write_policy,
)

CASES = {
    "broker-1": "matrix-4.3.1-v2",
    "broker-2": "matrix-3.9.1-v2",
    "broker-3": "matrix-2.8.2-v1",
}
SHOWN = 12
MARKER = ".kafka_cleanshutdown"


def missing(path: Path) -> None:
    path.unlink()


def empty(path: Path) -> None:
    path.write_bytes(b"")


def padded(path: Path) -> None:
    """Preallocated and never cut to size: sparse zeros up to segment.index.bytes."""
    os.truncate(path, 10 * 1024 * 1024 // 12 * 12)


def zeroed(path: Path) -> None:
    """The length reached the disk, the content did not."""
    path.write_bytes(bytes(path.stat().st_size))


def short(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-12])


def torn(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-5])


def stale(path: Path) -> None:
    """Old content of the same blocks: timestamps of long ago."""
    path.write_bytes(
        b"".join(
            i.to_bytes(8, "big") + i.to_bytes(4, "big")
            for i in range(1, path.stat().st_size // 12 + 1)
        )
    )


DAMAGES: list[tuple[str, Callable[[Path], None]]] = [
    ("removed", missing),
    ("emptied", empty),
    ("padded with zeros", padded),
    ("turned to zeros", zeroed),
    ("last entry lost", short),
    ("cut inside an entry", torn),
    ("old content of its blocks", stale),
]


def main() -> int:
    began = time.monotonic()
    begin()

    console.rule("[bold]1 Three real brokers' directories after a hard failure")
    roots = {broker: unpack(broker, case(name)) for broker, name in CASES.items()}
    for root in roots.values():
        (root / MARKER).unlink()
    damaged = [path for root in roots.values() for path in damage(root)]
    write_policy(roots)
    console.print(f"{len(damaged)} time indexes damaged, clean-shutdown markers gone; in {HOME}")

    console.rule("[bold]2 airflow dags test rebuild_time_indexes")
    report = run_dag("rebuild_time_indexes", need_approval=False)
    if report is None:
        return 1
    folder = Path(report["report"])

    console.rule("[bold]3 What it found, and what it did")
    show_findings(folder)
    show_actions(folder)

    console.rule("[bold]4 Proof: compared with what Kafka itself had written")
    wrong = [
        line
        for broker, root in roots.items()
        for line in differences(root, case(CASES[broker]), without=frozenset({MARKER}))
    ]
    repaired = {str(Path(a["log_dir"], a["partition_dir"], a["file"])) for a in actions(folder)}
    wrong += [
        f"{path}: damaged, but not repaired" for path in sorted(set(map(str, damaged)) - repaired)
    ]
    wrong += [
        f"{path}: repaired, but nobody had damaged it"
        for path in sorted(repaired - set(map(str, damaged)))
    ]
    files = sum(
        sum(1 for _, _, sha256 in case(name).files("data").values() if sha256) - 1
        for name in CASES.values()
    )
    for line in wrong:
        console.print(f"[red]{line}[/]")
    if wrong:
        console.print(f"[bold red]the proof FAILED for {len(wrong)} files[/]")
        return 1
    console.print(
        f"[bold green]all {files} files, {len(damaged)} of them repaired, are byte for byte Kafka's own[/] (sha256)"
    )
    console.print(
        f"seen    {report['seen']['segments']} segments, {report['seen']['log_bytes']:,} bytes of log"
    )
    for task in ("plan", "apply", "verify"):
        for said in (stage for rates in report["rates"][task] for stage in rates.values()):
            rate = f"{said['bytes']:,} bytes in {said['seconds']} s, {said['bytes_per_second'] / 1e6:.2f} MB/s"
            console.print(f"{task:8}{said['of_units']} units, {rate}")
    console.print(
        "        (Python workers' start and compilation included; scripts/bench measures large segments)"
    )
    say_whole(f"report  {folder / 'report.json'}\nplot    {folder / 'health.png'}\nlog     {LOG}")
    say_whole(f"undo    .venv/bin/kafkats undo {report['runs'][0]}")
    console.print(f"{time.monotonic() - began:.0f} s in all")
    return 0


def damage(root: Path) -> list[Path]:
    """Two of three time indexes of sealed segments, in turn by every way that a hard failure leaves them."""
    done: dict[str, list[str]] = {}
    sealed = [
        path
        for partition in sorted(root.iterdir())
        for path in sorted(partition.glob("*.timeindex"))[:-1]
    ]
    # Uncompressed magic 1 is indexed per message set on append, per message on recovery: both right, but not equal.
    sealed = [
        path
        for path in sealed
        if "broker-3" not in path.parts or not path.parent.name.startswith("none")
    ]
    chosen = [path for n, path in enumerate(sealed) if n % 3 != 2]
    for turn, path in enumerate(chosen):
        name, do = DAMAGES[(turn + len(root.parts[-2])) % len(DAMAGES)]
        do(path)
        done.setdefault(name, []).append(f"{path.parent.name}/{path.stem.lstrip('0') or '0'}")
    for name, paths in done.items():
        console.print(f"    {name:32}{', '.join(paths)}")
    return chosen


def show_findings(folder: Path) -> None:
    table = Table(box=None, header_style="bold")
    for column in ("severity", "defect", "segments", "for example"):
        table.add_column(column, overflow="fold")
    rows = pq.read_table(
        folder / "segments.parquet", columns=["partition_dir", "findings"]
    ).to_pylist()
    found: dict[tuple[str, str], list[str]] = {}
    for row in rows:
        for finding in row["findings"] or []:
            place = f"{row['partition_dir']}/{finding['file']}: {finding['reason']}"
            found.setdefault((finding["severity"], finding["kind"]), []).append(place)
    for (severity, kind), places in sorted(found.items()):
        table.add_row(severity, kind, str(len(places)), places[0])
    console.print(table)


def actions(folder: Path) -> list[dict[str, object]]:
    rows = pq.read_table(folder / "actions.parquet").to_pylist()
    return [row for row in rows if row["outcome"] in WROTE]


def show_actions(folder: Path) -> None:
    table = Table(box=None, header_style="bold")
    for column in ("action", "file", "because", "before", "after", "outcome"):
        table.add_column(
            column, overflow="fold", justify="right" if column in {"before", "after"} else "left"
        )
    rows = pq.read_table(folder / "actions.parquet").to_pylist()
    for row in rows[:SHOWN]:
        before = "" if row["before_bytes"] < 0 else f"{row['before_bytes']:,}"
        name = f"{row['partition_dir']}/{row['file']}"
        table.add_row(
            row["action"], name, row["reason"], before, f"{row['after_bytes']:,}", row["outcome"]
        )
    console.print(table)
    if len(rows) > SHOWN:
        console.print(f"... and {len(rows) - SHOWN} more, in {folder / 'actions.parquet'}")


if __name__ == "__main__":
    sys.exit(main())
