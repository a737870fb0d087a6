"""One morning of four brokers, for pictures and for looking at pages: real plans and changes of golden directories.

disk-0, broker 0   a dry run found danger and damage 7 h ago; a person's rebuild waits for an answer
disk-1, broker 1   a dry run of retention said 8 h ago what it would delete
disk-2, broker 2   the nightly rebuild repaired two indexes; undo is possible
disk-3, broker 3   last seen 40 h ago; a migration runs
disk-4, broker 4   in the policy, and never seen

Each figure of a page is that of the files: the reports are made from the same tables as the overviews.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import pyarrow.parquet as pq

from kafkats.retention.summary import summary_rows
from tests.builders.operations import inventoried
from tests.golden import case
from tests.ui.folders import DAY_MS, HOUR_MS, ended, live, write
from tests.ui.golden_runs import NOW_MS, command, write_health, write_retention

REBUILD: Final = "rebuild_time_indexes"
DONE: Final = {"units": 198, "of_units": 198, "bytes": 316_000, "of_bytes": 316_000}
WAITS: Final = "manual__rebuild"
BROKEN: Final = ("none-ct-0/00000000000000000043", "zstd-lat-0/00000000000000000000")


class Story:
    """Writes the runs. `place` is where the log directories are unpacked."""

    def __init__(self, folder: Path, place: Path, now_ms: int) -> None:
        self.folder, self.place, self.now_ms = folder, place, now_ms
        self.brokers = {str(place / f"disk-{n}"): str(n) for n in range(5)}
        self.applied = ""
        """The id of the run that can be undone."""

    def write(self, policy: Path) -> None:
        """Write the policy, the log directories and all runs."""
        volumes = [f"{{broker: '{n}', path: {path}}}" for path, n in self.brokers.items()]
        write(policy, f"volumes: [{', '.join(volumes)}]")
        self._unpack("disk-1", "retention-4.3.1", "before")
        for name in ("disk-2", "disk-3"):
            self._unpack(name, "matrix-4.3.1-v2", "data")
        self.asks()
        self._looked()
        self._retained()
        self._rebuilt()
        self._rolled_long_ago()
        self._migrates()

    def started(self, began_ms: int, *names: str, by: str = "") -> dict[str, Any]:
        volumes = {str(self.place / name): self.brokers[str(self.place / name)] for name in names}
        how = "manual" if by else "scheduled"
        return {"how": how, "by": by, "began_ms": began_ms, "volumes": volumes}

    def _unpack(self, name: str, golden: str, state: str) -> None:
        (root := self.place / name).mkdir(parents=True)
        case(golden).unpack(state, root)

    def _looked(self) -> None:
        at_ms, root = self.now_ms - 7 * HOUR_MS, self.place / "disk-0"
        write_health(self.folder, lambda *_: root)
        seen = self.seen(root)
        began = self.started(at_ms - 190_000, "disk-0", by="Ada")
        dry = {"outcome": "dry run", "dry_run": True, "started": began}
        run = ended(self.folder, at_ms, *seen, run="manual__health", **dry)
        live(run, at_ms - 60_000, state="done", started=began, **DONE)
        plan = self.planned(run, root, at_ms - 60_000)
        plans = self.question(run, plan, at_ms, began)["plans"]
        write(run / "report.json", {"outcome": "dry run", "volumes": [str(root)], "plans": plans})

    def _retained(self) -> None:
        at_ms, root = self.now_ms - 8 * HOUR_MS, self.place / "disk-1"
        run = write_retention(self.folder, lambda *_: root)
        rows = summary_rows(pq.read_table(run / "retention.parquet"), NOW_MS)
        began = self.started(at_ms - 41_000, "disk-1")
        more = {"dag": "apply_retention", "outcome": "dry run", "dry_run": True, "started": began}
        ended(self.folder, at_ms, *self.seen(root, verdicts=rows), run=run.name, **more)
        live(run, at_ms - 9_000, state="done", started=began, **DONE)

    def asks(self) -> None:
        """Write the run that asks whether it may rebuild what the dry run found."""
        self._unpack("disk-0", "crash-4.3.1", "before")
        run = self.folder / REBUILD / WAITS
        asked_ms = self.now_ms - 5 * HOUR_MS
        plan = self.planned(run, self.place / "disk-0", asked_ms - 10_000)
        began = self.started(asked_ms - 120_000, "disk-0", by="Grace")
        write(run / "question.json", self.question(run, plan, asked_ms, began))

    def _rebuilt(self) -> None:
        """The nightly rebuild: planned, approved, applied, proved and reported."""
        root, end_ms = self.place / "disk-2", self.now_ms - 9 * HOUR_MS
        for name in BROKEN:
            (root / f"{name}.timeindex").write_bytes(b"12345" * 1000)
        began_ms = end_ms - 50 * 60_000
        self.applied = f"scheduled__{datetime.fromtimestamp(began_ms // 1000, UTC).isoformat()}"
        run = self.folder / REBUILD / self.applied
        plan = self.planned(run, root, began_ms + 50_000)
        header = json.loads((plan / "plan.json").read_text())
        began, digest = self.started(began_ms, "disk-2"), header["digest"]
        asked = self.question(run, plan, began_ms + 60_000, began)
        write(run / "question.json", asked)
        answer = {"option": "Approve", "digests": [digest], "by": "Ada", "why": "answered by Ada"}
        write(run / "approval.json", answer | {"answered_ms": end_ms - 180_000})
        change = plan.with_name(f"run-{digest[:16]}")
        command("apply", plan, "--digest", digest, "--run", change, "--owner-stopped", "--json")
        files = header["totals"]["files"]
        write(change / "proof.json", {"files": files, "undone": 0})
        for name, at_ms in (
            ("run", end_ms - 120_000),
            ("report", end_ms - 90_000),
            ("proof", end_ms),
        ):
            os.utime(change / f"{name}.json", (at_ms / 1000, at_ms / 1000))
        undo = {
            "run": str(change), "operation": "rebuild", "digest": digest, "ended_ms": end_ms,
            "until_ms": end_ms + 6 * DAY_MS + 22 * HOUR_MS, "bytes": {str(root): 5000 * len(BROKEN)},
        }  # fmt: skip
        ended(self.folder, end_ms, *self.seen(root), run=run.name, undo=[undo], started=began)
        report = {"outcome": "rebuilt and proved", "volumes": [str(root)], "plans": asked["plans"]}
        write(run / "report.json", report)

    def _rolled_long_ago(self) -> None:
        at_ms = self.now_ms - 40 * HOUR_MS
        more = {"dag": "roll_segments", "outcome": "nothing to roll", "dry_run": True}
        began = self.started(at_ms - 30_000, "disk-3")
        ended(self.folder, at_ms, *self.seen(self.place / "disk-3"), started=began, **more)

    def _migrates(self) -> None:
        run = self.folder / "migrate_message_format" / "manual__migration"
        began = self.started(self.now_ms - 61_000, "disk-3", by="Ada")
        sizes = {"bytes": 96 << 10, "of_bytes": 384 << 10, "bytes_per_second": 1638}
        live(run, self.now_ms, about="spark_broker_3", started=began, **sizes)

    def seen(self, root: Path, **more: Any) -> list[dict[str, Any]]:
        """The figures of a log directory, as the report of a run has them."""
        from kafkats_airflow.reports import overview

        from kafkats.plans.holes import holes_of, keep_holes
        from kafkats.plans.units import list_units

        report = self.place / f"holes-{root.name}"
        report.mkdir(exist_ok=True)
        keep_holes(holes_of(list_units([root])), report)
        looks: list[Any] = [{"seen": {"report": str(report)}}]
        volumes = overview.volumes_of([str(root)], [inventoried(root)], looks=looks, **more)
        return [one.model_dump(mode="json") for one in volumes]

    def planned(self, run: Path, root: Path, planned_ms: int) -> Path:
        """Plan a rebuild as the job of a DAG run does. Returns the plan's folder."""
        into = run / "spark_default"
        command("plan", "rebuild", root, "--into", into, "--report", into / "before", "--json")
        [plan] = into.glob("plan-*")
        os.utime(plan / "plan.json", (planned_ms / 1000, planned_ms / 1000))
        return plan

    def question(
        self, run: Path, plan: Path, asked_ms: int, began: Mapping[str, Any]
    ) -> dict[str, Any]:
        """question.json about the plan, open for 24 hours."""
        from kafkats_airflow.approvals.stakes import on_disk

        header = json.loads((plan / "plan.json").read_text())
        asked = {
            "plan": str(plan), "digest": header["digest"], "totals": header["totals"],
            "log_dirs": list(began["volumes"]), "operation": "rebuild", "on_disk": on_disk(plan),
        }  # fmt: skip
        return {
            "options": {"Approve": [header["digest"]], "Reject": []}, "plans": [asked],
            "digest": header["digest"], "default": "Reject", "assigned": [], "told": [],
            "task_id": "approve", "asked_ms": asked_ms, "until_ms": asked_ms + DAY_MS,
            "dag_id": run.parent.name, "run_id": run.name, "started": began,
        }  # fmt: skip


def pages_of(story: Story) -> dict[str, str]:
    """The pages about this story: name of the picture -> path."""
    waits = f"dag_id={REBUILD}&run_id={WAITS}"
    applied = f"dag_id={REBUILD}&run_id={story.applied.replace('+', '%2B')}"
    return {
        "volumes": "volumes",
        "runs": "runs",
        "run": f"run?{applied}",
        "run-waiting": f"run?{waits}",
        "run-dry": f"run?dag_id={REBUILD}&run_id=manual__health",
        "plan": f"plan?{waits}",
    }
