"""Folders of runs about golden directories, with the files that the task `report` writes."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from kafkats import tables
from kafkats.config import Policy
from kafkats.lookup.partitions import lookup_partitions
from kafkats.lookup.record_scatter import cloud_unit
from kafkats.plans.facts import SEGMENTS, write_table
from kafkats.plans.files import write_json
from kafkats.plans.units import list_units
from kafkats.retention import summary
from kafkats.retention.plan import RetainOptions, plan_retain
from kafkats.retention.plot import reclaimable
from kafkats.retention.summary import summary_rows
from kafkats.retention.what_if import NAME, basis_of
from kafkats.rolling.by_topic import by_day, by_topic
from kafkats.rolling.simulate import SIMULATED, SimulateOptions, partitions, simulate_partition
from kafkats.tables import grid
from kafkats.tables.cells import build_unit
from tests.builders.findings import finding, segments
from tests.builders.operations import inventoried
from tests.builders.partitions import batch, write_indexes
from tests.golden import Unpacked, case, retention_moment
from tests.ui.folders import DAY_MS, HOSTILE, HOUR_MS

REBUILT: Final = "dag_id=rebuild_time_indexes&run_id=manual__health"
LOOKED_UP: Final = "dag_id=build_lookup_tables&run_id=manual__table"
EXPORTED: Final = "dag_id=export_offsets&run_id=manual__export"
ROLLED: Final = "dag_id=roll_segments&run_id=manual__rolling"
RETAINED: Final = "dag_id=apply_retention&run_id=manual__retention"
FIRST_MS: Final = 444_444 * HOUR_MS
NOW_MS: Final = retention_moment(case("retention-4.3.1"))
POLICY: Final = Policy.model_validate({
    "topics": {
        "time-some": {"cleanup.policy": "delete", "retention.ms": NOW_MS - 1_600_000_100_000},
        "future-pins": {"cleanup.policy": "delete", "retention.ms": 86_400_000},
        "size": {"cleanup.policy": "delete", "retention.bytes": 9000},
        "*": {"cleanup.policy": "delete", "retention.ms": 195_000_000_000},
    }
})


def write_health(folder: Path, golden: Unpacked, *more: Any, after: pa.Table | None = None) -> Path:
    """A run that looked at the damaged indexes of a golden directory, and at `more` rows."""
    run = folder / "rebuild_time_indexes" / "manual__health"
    run.mkdir(parents=True)
    seen = [inventoried(golden("crash-4.3.1", "before")), segments(*more)]
    write_table(run / "segments.parquet", pa.concat_tables(seen))
    write_table(run / "after.parquet", SEGMENTS.empty_table() if after is None else after)
    return run


def write_retention(folder: Path, golden: Unpacked) -> Path:
    """A dry run of retention on a golden directory."""
    run = folder / "apply_retention" / "manual__retention"
    run.mkdir(parents=True)
    seen, options = inventoried(golden("retention-4.3.1", "before")), RetainOptions(NOW_MS)
    verdicts = plan_retain(seen, POLICY, options)[1]
    rows = summary_rows(verdicts, NOW_MS)
    topics = sorted(set(verdicts["topic"].to_pylist()))
    write_table(run / "segments.parquet", seen)
    write_table(run / "retention.parquet", verdicts)
    board = {
        "now_ms": NOW_MS,
        "topics": summary.by_topic(rows),
        "partitions": rows,
        "lines": {one: NOW_MS - ms for one in topics if (ms := POLICY.limits(one)[0]) >= 0},
        "by_state": dict(reclaimable(verdicts, NOW_MS)),
    }
    write_json(run / "board.json", board)
    write_json(run / NAME, basis_of(POLICY, asdict(options), topics))
    return run


def write_rolling(folder: Path, root: Path) -> Path:
    """A dry run that simulated rolling on topics of two weeks: one rolls daily, one weekly, one by size."""
    run = folder / "roll_segments" / "manual__rolling"
    run.mkdir(parents=True)
    weekly = [[DAY_MS * n // 3 for n in range(21)], [DAY_MS * n // 3 for n in range(21, 42)]]
    daily = [[DAY_MS * day + HOUR_MS * n for n in range(0, 24, 6)] for day in range(14)]
    for name, times in {"orders-0": weekly, "orders-1": weekly, "clicks-0": daily}.items():
        write_partition(root / name, times)
    policy = Policy.model_validate({
        "topics": {
            "orders": {"segment.ms": DAY_MS, "segment.jitter.ms": HOUR_MS},
            "clicks": {"segment.ms": 7 * DAY_MS, "retention.ms": 30 * DAY_MS},
        }
    })
    units = list(list_units([root]))
    options = SimulateOptions(FIRST_MS + 15 * DAY_MS)
    rows = [simulate_partition(some, policy, options) for some in partitions(units)]
    simulated = pa.Table.from_batches(rows, SIMULATED)
    write_table(run / "simulation-days.parquet", by_day(simulated))
    write_json(run / "simulation.json", {"now_ms": options.now_ms, **by_topic(simulated)})
    return run


def write_partition(path: Path, times_of: list[list[int]]) -> None:
    """A partition directory with a record at each of these times, in ms after FIRST_MS."""
    path.mkdir(parents=True)
    offset = 0
    for times in times_of:
        log = path / f"{offset:020}.log"
        records = (batch(offset + n, FIRST_MS + time) for n, time in enumerate(times))
        log.write_bytes(b"".join(records))
        write_indexes(log)
        offset += len(times)


def write_offsets(folder: Path, golden: Unpacked, table: Path) -> Path:
    """A run that built a lookup table of two hours, with an hour left out between them."""
    root = golden("retention-4.1.0", "after")
    run = folder / "build_lookup_tables" / "manual__table"
    (run / "broker-1").mkdir(parents=True)
    for begin in (FIRST_MS, FIRST_MS + 2 * HOUR_MS):
        tables.build(table, lookup_partitions([root]), begin, begin + HOUR_MS, step_ms=1000)
    rows = [cloud_unit(one, FIRST_MS, FIRST_MS + HOUR_MS) for one in lookup_partitions([root])]
    write_table(run / "broker-1" / "clouds.parquet", pa.Table.from_batches(rows))
    built = {"table": str(table), "from_ms": FIRST_MS, "to_ms": FIRST_MS + 3 * HOUR_MS}
    write_json(run / "report.json", {"outcome": "built", "tables": [built]})
    return run


def write_export(folder: Path, golden: Unpacked) -> Path:
    """A run that exported offsets, and kept cells of the time around."""
    root = golden("retention-4.1.0", "after")
    run = folder / "export_offsets" / "manual__export"
    (run / "broker-1").mkdir(parents=True)
    cells = grid(FIRST_MS + 1_600_000, FIRST_MS + 1_700_000, 1000)
    rows = [build_unit(one, cells) for one in lookup_partitions([root])]
    write_table(run / "broker-1" / "cells.parquet", pa.Table.from_batches(rows))
    write_json(run / "report.json", {"outcome": "exported"})
    return run


def hostile_rows() -> list[Any]:
    """Segments of a partition directory with a hostile name, and a hostile reason."""
    bad = finding("missing-index", f"{HOSTILE}.timeindex") | {"reason": HOSTILE}
    return [(HOSTILE, 0, [bad]), (HOSTILE, 10, [])]
