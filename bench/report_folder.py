"""Makes a large folder of reports for the pages in Airflow, and measures the pages on it.

    python -m bench.report_folder make FOLDER [--runs 1000] [--partitions 10000] [--segments 100]
    python -m bench.report_folder measure FOLDER [--times 20]

`make` writes what the task `report` writes: tables with the schemas of the product, overview.json by its functions. The newest
run is one of retention and has a row per segment; the others have small files only, as a page reads no more of them.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import random
import statistics
import sys
import time
import urllib.request
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa

ROOT: Final = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "plugins")]

DAY_MS: Final = 86_400_000
_METRICS: Final = "kafkats-metrics/metrics"
_TOKEN: Final = "bench"
VOLUMES: Final = 24
PER_TOPIC: Final = 20
"""Partitions of a topic."""
PIECE: Final = 65_536
"""Segments that are in memory at a time."""
DAGS: Final = (
    "rebuild_time_indexes",
    "apply_retention",
    "roll_segments",
    "migrate_message_format",
)
KINDS: Final = (
    ("missing-index", "damage"),
    ("empty-index", "damage"),
    ("not-in-log", "damage"),
    ("torn-tail-marked-clean", "danger"),
    ("below-maximum", "damage"),
)


def make(folder: Path, *, runs: int, partitions: int, segments: int, now_ms: int) -> None:
    """Write the folder: `runs` runs of the last days, the newest with `partitions` x `segments` rows."""
    draw = random.Random(1)
    for n in range(runs - 1):
        _small_run(folder, n, now_ms, draw)
    _newest_run(folder, now_ms, partitions, segments)


def log_dirs() -> list[str]:
    return [f"/data/kafka-{n // 4}/disk-{n % 4}" for n in range(VOLUMES)]


def _small_run(folder: Path, n: int, now_ms: int, draw: random.Random) -> None:
    at_ms = now_ms - (n + 1) * 20 * 60_000
    dag_id, run_id = DAGS[n % len(DAGS)], f"scheduled__{at_ms}"
    run = folder / dag_id / run_id
    change = run / "spark_default" / f"run-{n:016x}"
    change.mkdir(parents=True)
    digest = hashlib.sha256(str(n).encode()).hexdigest()
    chosen = draw.sample(log_dirs(), 6)
    volumes = [_volume(dag_id, log_dir, draw) for log_dir in chosen]
    kept = {log_dir: draw.randrange(10**9, 10**11) for log_dir in chosen[:2]}
    purged = at_ms + 7 * DAY_MS < now_ms
    undo = {
        "run": str(change),
        "operation": "rebuild",
        "digest": digest,
        "ended_ms": at_ms,
        "until_ms": at_ms + 7 * DAY_MS,
        "bytes": kept,
    }
    overview = {
        "format": 1,
        "dag_id": dag_id,
        "run_id": run_id,
        "written_ms": at_ms,
        "outcome": "rebuilt and proved",
        "failed": n % 50 == 49,
        "volumes": volumes,
        "undo": [undo],
    }
    totals = {
        "files": 12,
        "blocked": 0,
        "segments": 6,
        "partitions": 4,
        "read_bytes": 10**9,
        "write_bytes": 10**6,
        "segments_seen": 10**4,
    }
    plan = {
        "plan": str(change.with_name(f"plan-{digest[:16]}")),
        "digest": digest,
        "totals": totals,
    }
    answer = {
        "format": 1,
        "option": "Approve",
        "digests": [digest],
        "by": "Ada",
        "why": "answered by Ada",
        "answered_ms": at_ms - 600_000,
    }
    question = {
        "options": {"Approve": [digest], "Reject": []},
        "plans": [plan],
        "asked_ms": at_ms - 900_000,
        "until_ms": at_ms + DAY_MS,
    }
    report = {
        "outcome": "rebuilt and proved",
        "failures": [],
        "remarks": [],
        "volumes": chosen,
        "plans": [plan],
        "runs": [str(change)],
    }
    where = {"dag_id": dag_id, "run_id": run_id}
    _json(run / "overview.json", overview)
    _json(run / "report.json", report)
    _json(run / "question.json", question | where)
    _json(run / "approval.json", answer | where)
    _json(
        change / "run.json",
        {
            "operation": "rebuild",
            "run_id": f"{n:016x}",
            "digest": digest,
            "directories": {},
            "format": 1,
        },
    )
    _json(change / "report.json", {"exit_code": 0, "outcomes": {"done": 12}})
    _json(change / "proof.json", {"files": 12, "undone": 0})
    if purged:
        _json(
            change / "purge.json",
            {"at_ms": at_ms + 7 * DAY_MS, "freed_bytes": sum(kept.values()), "files": 12},
        )


def _volume(dag_id: str, log_dir: str, draw: random.Random) -> dict[str, Any]:
    size = draw.randrange(10**11, 4 * 10**12)
    kinds: dict[str, dict[str, int]] = {}
    for kind, severity in draw.sample(KINDS, draw.randrange(3)):
        kinds.setdefault(severity, {})[kind] = draw.randrange(1, 400)
    made: dict[str, Any] = {
        "log_dir": log_dir,
        "partitions": draw.randrange(100, 600),
        "segments": draw.randrange(10**3, 10**4),
        "bytes": size,
        "log_bytes": size * 99 // 100,
        "kinds": kinds,
        "depth": "full" if dag_id == "migrate_message_format" else "tail",
    }
    if dag_id == "migrate_message_format":
        made["magic_bytes"] = [size // 50, size // 5, size - size // 50 - size // 5]
    if dag_id == "apply_retention":
        made["reclaimable"] = {
            "now_bytes": size // 20,
            "day_bytes": size // 15,
            "week_bytes": size // 8,
            "pinned_bytes": size // 100,
            "vetoed_bytes": 0,
        }
    return made


def _newest_run(folder: Path, now_ms: int, partitions: int, segments: int) -> None:
    from kafkats_airflow.reports import common, overview
    from kafkats_airflow.runs.overview import Overview

    from kafkats.plans.facts import SEGMENTS, Summed

    run = folder / "apply_retention" / f"scheduled__{now_ms}"
    run.mkdir(parents=True)
    step = max(PIECE // segments // PER_TOPIC, 1) * PER_TOPIC
    some = [range(at, min(at + step, partitions)) for at in range(0, partitions, step)]
    seen = Summed()

    def rows() -> Iterator[pa.Table]:
        for one in some:
            table = segments_table(one, segments, now_ms, of=some[-1].stop)
            seen.add(table)
            yield table

    change = common.Change(run / "segments.parquet", run / "after.parquet", seen.summary, ())
    common.write_rows(change.before, rows(), SEGMENTS)
    common.write_rows(change.after, (), SEGMENTS)
    _retention(run, some, segments, now_ms)
    began = time.process_time()
    common.write_health(run, change)
    volumes = overview.volumes_of(log_dirs(), change.at_the_end(common.SEGMENT))
    print(f"figures of {partitions * segments:,} segments: {time.process_time() - began:.0f} s CPU")
    made = Overview(
        format=1,
        dag_id="apply_retention",
        run_id=run.name,
        written_ms=now_ms,
        outcome="dry run",
        dry_run=True,
        volumes=volumes,
    )
    _json(run / "overview.json", made.model_dump(mode="json"))
    _json(
        run / "report.json",
        {
            "outcome": "dry run",
            "failures": [],
            "remarks": [],
            "volumes": log_dirs(),
            "plans": [],
            "seen": seen.summary,
        },
    )


def _retention(run: Path, some: Sequence[range], segments: int, now_ms: int) -> None:
    """Decide on these segments, half of which have expired, and write the files of the page Retention."""
    from dataclasses import asdict

    from kafkats.config.policy import Policy
    from kafkats.plans.facts import read_in_pieces, write_tables
    from kafkats.plans.rows import whole_partitions
    from kafkats.retention.plan import RETENTION, RetainOptions, plan_retain
    from kafkats.retention.plot import reclaimable
    from kafkats.retention.summary import by_topic, deleted_by, summary_rows
    from kafkats.retention.what_if import NAME, basis_of

    limits = {"cleanup.policy": "delete", "retention.ms": 50 * 3_600_000}
    policy, options = Policy.model_validate({"topics": {"*": limits}}), RetainOptions(now_ms)
    path = run / "retention.parquet"
    tables = (segments_table(one, segments, now_ms, of=some[-1].stop) for one in some)
    write_tables(path, (plan_retain(table, policy, options)[1] for table in tables))

    def pieces() -> Iterator[pa.Table]:
        return whole_partitions(read_in_pieces(path, RETENTION))

    rows = [row for piece in pieces() for row in summary_rows(piece, now_ms)]
    topics = by_topic(rows)
    board = {
        "now_ms": now_ms,
        "topics": topics,
        "partitions": rows,
        "lines": {one["topic"]: now_ms - 50 * 3_600_000 for one in topics},
        "by_state": dict(reclaimable(pieces(), now_ms)),
        "deleted_by": deleted_by(pieces()),
    }
    _json(run / "board.json", board)
    _json(run / NAME, basis_of(policy, asdict(options), [one["topic"] for one in topics]))


def segments_table(partitions: range, segments: int, now_ms: int, *, of: int) -> pa.Table:
    """facts.SEGMENTS of these partitions `of` all, sorted; every 100th has defects."""
    from kafkats.plans.facts import FILE, FINDING, SEGMENTS

    count = len(partitions) * segments
    rows = np.arange(count)
    at, place = rows // segments, rows % segments
    partition = at + partitions.start
    dirs = pa.array(log_dirs()).take(pa.array(partition * VOLUMES // of))
    topics = [f"topic-{n // PER_TOPIC:05}" for n in partitions]
    names = pa.array([
        f"{topic}-{n % PER_TOPIC}" for topic, n in zip(topics, partitions, strict=True)
    ])
    bad = (partition % 100 == 7) & (place % 3 == 0)
    kind = rows % len(KINDS)
    base = place.astype(np.int64) * 100_000
    first = now_ms - (segments - place).astype(np.int64) * 3_600_000
    file = _files(count, FILE, 2**30, base)
    small = _files(count, FILE, 10_000, base)
    findings = _findings(bad, kind, FINDING)
    severity = np.array([one[1] for one in KINDS])[kind]
    given: dict[str, Any] = {
        "log_dir": dirs,
        "partition_dir": names.take(pa.array(at)),
        "topic": pa.array(topics).take(pa.array(at)),
        "partition": pa.array((partition % PER_TOPIC).astype(np.int32)),
        "base_offset": base,
        "next_base_offset": np.where(place == segments - 1, -1, base + 100_000),
        "active": place == segments - 1,
        "high_watermark": np.full(count, 100_000 * segments),
        "clean": np.ones(count, bool),
        "recovery": np.zeros(count, bool),
        "depth": pa.array(["full"] * count),
        "log": file,
        "index": small,
        "timeindex": small,
        "first_timestamp": first,
        "max_timestamp": first + 3_599_000,
        "magic_bytes": pa.FixedSizeListArray.from_arrays(
            pa.array(np.tile(np.array([0, 0, 2**30]), count)), 3
        ),
        "worst": pa.array(np.where(bad, severity, "")),
        "findings": findings,
    }
    columns = [
        pa.array(given[one.name]).cast(one.type) if one.name in given else pa.nulls(count, one.type)
        for one in SEGMENTS
    ]
    return pa.Table.from_arrays(columns, schema=SEGMENTS)


def _files(count: int, kind: pa.DataType, size: int, spread: np.ndarray) -> pa.StructArray:
    sizes = size - spread % 977
    zeros = np.zeros(count, np.int64)
    return pa.StructArray.from_arrays(
        [pa.array(one) for one in (sizes, zeros, zeros, zeros)], fields=list(kind)
    )


def _findings(bad: np.ndarray, kind: np.ndarray, struct: pa.DataType) -> pa.ListArray:
    offsets = np.concatenate([[0], np.cumsum(bad)]).astype(np.int32)
    of = kind[bad]
    many = len(of)
    columns = {
        "kind": pa.array(np.array([one[0] for one in KINDS])[of]),
        "severity": pa.array(np.array([one[1] for one in KINDS])[of]),
        "file": pa.array(["00000000000000000000.timeindex"] * many),
        "position": pa.array(np.zeros(many, np.int64)),
        "entry": pa.array(np.zeros(many, np.int64)),
        "expected": pa.array([""] * many),
        "found": pa.array([""] * many),
        "reason": pa.array(["the last timestamp is below the log's maximum"] * many),
    }
    given = [columns[one.name].cast(one.type) for one in struct]
    flat = pa.StructArray.from_arrays(given, fields=list(struct))
    return pa.ListArray.from_arrays(pa.array(offsets), flat)


def _json(path: Path, content: Any) -> None:
    path.write_text(json.dumps(content))


def measure(folder: Path, times: int = 20) -> None:
    """Print the time of each page, first and p95 of `times` more: CPU of the server, the answer, `data-ready` in Chromium.

    Then the memory that the pages add to a process that has what an api-server has imported.
    """
    os.environ["KAFKATS_METRICS_TOKEN"] = _TOKEN  # before the settings of the plugin are read
    import airflow.api_fastapi.core_api.app  # noqa: F401  # the api-server has it
    import psutil

    from tests.browser.forms import chromium
    from tests.ui.harness import served
    from tests.ui.looking import looking

    process = psutil.Process()
    before = process.memory_info().rss
    with served(folder) as site:
        for page in [*paths(folder), f"../{_METRICS}"]:
            first, *rest = [_answered(f"{site}/{page}") for _ in range(times + 1)]
            told = f"{page}: answer first {first[0]:.0f} ms, p95 {_p95([one[0] for one in rest]):.0f} ms"
            print(
                f"{told}; server CPU median {statistics.median(one[1] for one in rest):.0f} ms; {first[2] / 1024:.0f} KiB"
            )
        added = (process.memory_info().rss - before) / 1024**2
        with chromium() as browser:
            for page in paths(folder):
                with looking(browser) as seen:
                    first_ms, *more = [_ready(seen, f"{site}/{page}") for _ in range(times + 1)]
                    print(
                        f"{page}: data-ready, cold cache {first_ms:.0f} ms, then p95 {_p95(more):.0f} ms {seen.complaints or ''}"
                    )
    print(f"RSS added to the server: {added:.0f} MiB")


def paths(folder: Path) -> list[str]:
    """The pages that are measured; those about one run show the newest."""
    newest = max((folder / "apply_retention").iterdir(), key=lambda one: one.name)
    run = f"dag_id=apply_retention&run_id={newest.name}"
    of_run = [f"{page}?{run}" for page in ("run", "health", "run-retention")]
    return ["volumes", "runs", "dag?dag_id=apply_retention", *of_run]


def _answered(url: str) -> tuple[float, float, int]:
    """Wall time, this process's CPU time, in ms; bytes."""
    cpu, began = time.process_time(), time.perf_counter()
    request = urllib.request.Request(url.replace("/kafkats/../", "/"))
    if url.endswith(_METRICS):
        request.add_header("Authorization", f"Bearer {_TOKEN}")
    with urllib.request.urlopen(request) as answer:
        size = len(answer.read())
    return 1000 * (time.perf_counter() - began), 1000 * (time.process_time() - cpu), size


def _ready(seen: Any, url: str) -> float:
    began = time.perf_counter()
    seen.open(url)
    return 1000 * (time.perf_counter() - began)


def _p95(taken: list[float]) -> float:
    return sorted(taken)[max(-(-95 * len(taken) // 100) - 1, 0)]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("verb", choices=["make", "measure"])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--runs", type=int, default=1000)
    parser.add_argument("--partitions", type=int, default=10_000)
    parser.add_argument("--segments", type=int, default=100)
    parser.add_argument("--times", type=int, default=20)
    given = parser.parse_args()
    if given.verb == "make":
        make(
            given.folder,
            runs=given.runs,
            partitions=given.partitions,
            segments=given.segments,
            now_ms=time.time_ns() // 1_000_000,
        )
    else:
        measure(given.folder, given.times)


if __name__ == "__main__":
    main()
