"""Folders of runs about golden directories, with the files that the task `report` writes."""

from __future__ import annotations

import shutil
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
from click.testing import CliRunner

from kafkats import tables
from kafkats.cli import cli
from kafkats.config.policy import Policy
from kafkats.lookup.partitions import lookup_partitions
from kafkats.lookup.record_scatter import cloud_unit
from kafkats.migration.census import CENSUS, census_unit, zero_copy
from kafkats.migration.phases import lose_zero_copy
from kafkats.plans.facts import SEGMENTS, write_table
from kafkats.plans.files import read_json, write_json
from kafkats.plans.units import list_units
from kafkats.retention import summary
from kafkats.retention.plan import RetainOptions, plan_retain
from kafkats.retention.plot import reclaimable
from kafkats.retention.summary import summary_rows
from kafkats.retention.what_if import NAME, basis_of
from kafkats.rolling.by_topic import by_day, by_topic
from kafkats.rolling.simulate import SIMULATED_NOW, SimulateOptions, partitions, simulate_partition
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
MIGRATED: Final = "dag_id=migrate_message_format&run_id=manual__canary"
RESTARTED: Final = "dag_id=recover_log_dirs&run_id=manual__restart"
OLD: Final = {"1": "matrix-0.10.2.2-v1", "2": "matrix-2.8.2-v1", "3": "matrix-2.8.2-v0"}
"""Brokers of `write_migration`, with the golden directory of each."""
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
        "by_state": dict(reclaimable([verdicts], NOW_MS)),
        "deleted_by": summary.deleted_by([verdicts]),
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
    simulated = pa.Table.from_batches(rows, SIMULATED_NOW)
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


def write_restart(folder: Path, place: Path) -> Path:
    """A dry run that looked at two brokers that were killed. A plan reserves: they are copies."""
    run = folder / "recover_log_dirs" / "manual__restart"
    run.mkdir(parents=True)
    roots = [place / "broker-1", place / "broker-2"]
    for root, name in zip(roots, ("crash-4.3.1", "crash-2.8.2"), strict=True):
        root.mkdir(parents=True)
        case(name).unpack("before", root)
    command("plan", "recover", *roots, "-o", place / "plan", "--go-on")
    shutil.copy(place / "plan" / "recovery.parquet", run)
    for root, kafka in zip(roots, ("4.3", "2.8"), strict=True):
        command("preflight", root, "--kafka", kafka, "--report", place / "start" / kafka)
    starts = [read_json(place / "start" / kafka / "report.json") for kafka in ("4.3", "2.8")]
    write_json(
        run / "report.json",
        {"outcome": "dry run", "volumes": list(map(str, roots)), "starts": starts},
    )
    return run


def write_migration(folder: Path, golden: Unpacked, scratch: Path) -> Path:
    """A run that converted a canary to magic 2, a day after a census of it and two other brokers."""
    dag, began_ms = folder / "migrate_message_format", FIRST_MS + DAY_MS
    counted = {broker: _counted(golden(name, "data")) for broker, name in OLD.items()}
    (root := scratch / "broker-1").mkdir(parents=True)
    case(OLD["1"]).unpack("data", root)
    command("plan", "migrate", root, "--to-magic", "2", "-o", scratch / "plan", "--json")
    digest = read_json(scratch / "plan" / "plan.json")["digest"]
    options = ("--digest", digest, "--run", scratch / "run", "--owner-stopped", "--json")
    command("apply", scratch / "plan", *options)
    after = counted | {"1": _counted(root)}
    every = [pa.concat_tables(one.values()) for one in (counted, after)]
    points = zip(
        (FIRST_MS, began_ms, began_ms + HOUR_MS), (every[0], every[0], every[1]), strict=True
    )
    run = dag / "manual__canary"
    run.mkdir(parents=True)
    write_table(run / "census.parquet", after["1"])
    write_json(run / "zero-copy.json", {"topics": zero_copy(after["1"])})
    burn_down = [{"at_ms": at_ms, "bytes": _by_magic(table)} for at_ms, table in points]
    write_json(run / "burn-down.json", {"points": burn_down})
    who = [one._asdict() for one in lose_zero_copy(1, 2)]
    of_broker = {"at": "2020-09-14T13:00:00+00:00", "by": "airflow manual__canary", "waits_for": ""}
    brokers = [
        {"broker": "1", "status": "certified", "phase": "canary", "next": "approve", **of_broker},
        *(
            {"broker": broker, "status": "certified", "phase": "phase-1", "next": "phase-2"}
            | of_broker
            | {"waits_for": "the canary, broker 1"}
            for broker in ("2", "3")
        ),
    ]
    write_json(run / "report.json", {
        "outcome": "converted and proved", "phase": "canary", "volumes": [str(root)],
        "times_ms": [began_ms, began_ms + HOUR_MS], "brokers": brokers,
        "ledger": "/var/lib/kafkats/ledger.jsonl", "loses_zero_copy": who,
        "magic_bytes": {"before": _by_magic(counted["1"]), "after": _by_magic(after["1"])},
    })  # fmt: skip
    return run


def _counted(root: Path) -> pa.Table:
    return pa.Table.from_batches([census_unit(one) for one in list_units([root])], CENSUS)


def _by_magic(census: pa.Table) -> list[int]:
    rows = census.select(["magic", "bytes"]).to_pylist()
    return [sum(row["bytes"] for row in rows if row["magic"] == magic) for magic in range(3)]


def write_plotted(folder: Path, golden: Unpacked, place: Path) -> dict[str, str]:
    """Runs for the pages of what is not in `story`: {name: address}. Their files are in `place`."""
    write_rolling(folder, place / "rolled")
    write_offsets(folder, golden, place / "lookup-table")
    write_migration(folder, golden, place / "migrated")
    write_restart(folder, place / "restarted")
    return {
        "rolling": f"run-rolling?{ROLLED}",
        "offsets": f"run-offsets?{LOOKED_UP}",
        "migration": f"run-migration?{MIGRATED}",
        "restart": f"run-restart?{RESTARTED}",
    }


def command(*words: object) -> None:
    """Run a command of kafkats; plans of damaged directories end with 1."""
    done = CliRunner().invoke(cli, [str(word) for word in words])
    assert done.exit_code in {0, 1} and (done.exception is None or done.exit_code), done.output
