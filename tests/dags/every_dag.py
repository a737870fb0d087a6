"""All DAGs on the volumes of some connections, one after another: each has to do what it is for.

`run` runs a DAG with params to its end, `disks` are the log directories as only the test sees them.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

from kafkats_airflow.tasks import end_run

from kafkats.formats.dispatch import batches
from kafkats.logdir.partition import log_bases
from tests.dags.hosts import WRONG
from tests.golden import case

Run = Callable[..., Any]
OLD: Final = "matrix-0.10.2.2-v1"
"""Of magic 1: there is something to migrate, too."""
EXPIRED: Final[dict[str, Any]] = {
    "cleanup.policy": "delete", "retention.ms": 1, "segment.ms": 1, "kafkats.guard.max.share": 1.0,
}  # fmt: skip
"""Settings of topics by which every closed segment is deleted, and every active one rolled."""


def repair_and_look_up(run: Run, runs: Path, disks: list[Path]) -> None:
    """Rebuild and undo it, recover, build lookup tables, export offsets, and look for old reports."""
    rebuilt = run("rebuild_time_indexes")
    assert all((root / WRONG).exists() for root in disks)
    digest = end_run.digest_of(end_run.open_runs(_folder(runs, "rebuild_time_indexes")))[:16]
    run("end_run", verb="undo", of_dag=rebuilt.dag_id, of_run=rebuilt.run_id, digest=digest)
    assert not any((root / WRONG).exists() for root in disks)
    for root in disks:
        (root / ".kafka_cleanshutdown").unlink(missing_ok=True)
        (root / "recovery-point-offset-checkpoint").unlink(missing_ok=True)
    run("recover_log_dirs", kafka="0.10.2")
    assert all((root / WRONG).exists() for root in disks)
    moments = [one["timestamp"] for one in case(OLD).records() if one["timestamp"] > 0]
    begin = datetime.fromtimestamp(min(moments) // 3_600_000 * 3600, UTC)
    hour = {"from": begin.isoformat(), "to": (begin + timedelta(hours=1)).isoformat()}
    run("build_lookup_tables", **hour)
    run("export_offsets", time=begin.isoformat(), missing="all")
    run("clean_reports")
    assert _report(runs, "clean_reports")["kept"]


def convert(run: Run, disks: Mapping[str, Path], canary: str) -> None:
    """Migrate in phases: the canary, then one more volume with each run; of a volume every log."""

    def formats() -> dict[str, set[int]]:
        return {name: set(_magics(root)) for name, root in disks.items()}

    run("migrate_message_format", phase="phase-1", from_magic=1, attested_by="the tests")
    run("migrate_message_format", phase="canary", from_magic=1, volumes=[canary])
    assert formats() == {name: {2 if name == canary else 1} for name in disks}
    for converted in range(min(2, len(disks)), len(disks) + 1):
        run("migrate_message_format", phase="phase-2", from_magic=1)
        found = [*formats().values()]
        assert (found.count({2}), found.count({1})) == (converted, len(disks) - converted)


def roll_and_delete(run: Run, runs: Path, disks: list[Path]) -> None:
    """Roll what is active, delete what has expired and free its space at once, look for old reports."""
    before, end = _segments(disks[0]), 200  # every log ends there
    run("roll_segments", generation="0.10.2", dry_run=False)
    assert _report(runs, "roll_segments")["outcome"] == "rolled and proved"
    rolled = {name: [*of, end] for name, of in before.items()}
    assert [_segments(root) for root in disks] == [rolled] * len(disks)
    run("apply_retention", generation="0.10.2", dry_run=False, undo_days=0)
    told = _report(runs, "apply_retention")
    assert told["outcome"] == "deleted and proved"
    assert told["freed_bytes"] > 0
    without_index = Path(WRONG).parent.name  # nothing proves that it has expired
    kept = {name: [end] for name in before} | {without_index: rolled[without_index]}
    assert [_segments(root) for root in disks] == [kept] * len(disks)
    run("clean_reports", dry_run=False)
    assert {"apply_retention", "roll_segments"} <= {one.parent.name for one in runs.glob("*/*")}


def _segments(root: Path) -> dict[str, list[int]]:
    """Return the base offsets of the segments, by partition."""
    return {one.name: log_bases(one) for one in sorted(root.glob("*-[0-9]"))}


def _magics(root: Path) -> Iterator[int]:
    for log in root.glob("*-[0-9]/*.log"):
        yield from (batch.magic for batch in batches(log.read_bytes()))


def _folder(runs: Path, dag: str) -> Path:
    [folder] = (runs / dag).iterdir()
    return folder


def _report(runs: Path, dag: str) -> dict[str, Any]:
    return dict(json.loads((_folder(runs, dag) / "report.json").read_bytes()))
