"""One of three volumes is not there: each DAG does its work on the others, and its run fails and names that one."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from kafkats_airflow.reading.runs import runs_in
from kafkats_airflow.reading.volumes import board

from tests.dags.runs import states
from tests.golden import case

DAMAGED = "none-ct-0/00000000000000000043.timeindex"
WRITING: dict[str, Any] = {"need_approval": False, "dry_run": False}
FIRST_RECORD = "2020-09-13T12:27:00+00:00"


@pytest.fixture(scope="module")
def brokers(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The log directories of two brokers, which lost a time index."""
    folder = tmp_path_factory.mktemp("brokers")
    for name in ("one", "three"):
        root = folder / name / "data"
        root.mkdir(parents=True)
        case("matrix-4.3.1-v2").unpack("data", root)
        (root / DAMAGED).unlink()
        properties = root / "meta.properties"
        properties.write_text(
            properties.read_text().replace("directory.id=", f"directory.id={name}")
        )
    return folder


def full(*values: Any) -> Any:
    """A case of the same promise: `scripts/test --full` runs it."""
    return pytest.param(*values, marks=pytest.mark.full(40))


@pytest.mark.slow(40)
@pytest.mark.parametrize(
    ("dag", "conf", "ran", "outcome", "reported"),
    [
        ("rebuild_time_indexes", WRITING, "plan apply verify", "rebuilt and proved", 3),
        full("apply_retention", {"dry_run": True}, "plan", "dry run", 3),
        full("roll_segments", {"dry_run": True}, "plan", "dry run", 3),
        full(
            "recover_log_dirs",
            {"dry_run": True, "kafka": "4.3"},
            "preflight preflight preflight plan",
            "dry run",
            3,
        ),
        full("migrate_message_format", {"phase": "census"}, "census census census", "census", 3),
        full(
            "migrate_message_format",
            {"phase": "canary", "dry_run": True},
            "plan plan plan",
            "dry run",
            3,
        ),
        full("build_lookup_tables", {}, "lookup lookup lookup", "built", 1),
        ("export_offsets", {"time": FIRST_RECORD, "missing": "all"}, "lookup", "exported", 1),
    ],
)
def test_the_other_volumes_are_done(
    bag: Any,
    brokers: Path,
    policy: Callable[..., Path],
    tmp_path: Path,
    here: list[str],
    dag: str,
    conf: dict[str, Any],
    ran: str,
    outcome: str,
    reported: int,
) -> None:
    shutil.copytree(brokers, tmp_path / "b")
    one, dead, three = (tmp_path / "b" / name / "data" for name in ("one", "two", "three"))
    folder = tmp_path / "reports"
    where = {"policy": str(policy(one, dead, three, owner_stopped=True)), "folder": str(folder)}
    run = bag.dags[dag].test(run_conf=where | conf, logical_date=None)
    assert (str(run.state), here) == ("failed", ran.split())
    failed = [task for task, state in states(run).items() if state == "failed"]
    assert failed == ["write" if dag == "export_offsets" else "report"]
    [found] = folder.glob("*/*/report.json")
    report = json.loads(found.read_text())
    assert report["outcome"] == f"{outcome}, 1 volume could not be read, not finished"
    assert len(report["failures"]) == 1 and str(dead) in report["failures"][0]
    overview = json.loads(found.with_name("overview.json").read_text())
    errors = {one["log_dir"]: one["error"] for one in overview["volumes"]}
    assert overview["failed"] and len(errors) == reported and str(dead) in errors.pop(str(dead))
    assert set(errors.values()) <= {""}
    assert (one / DAMAGED).exists() is (three / DAMAGED).exists() is ("apply" in here)
    seen = board(runs_in(folder, [dag]), {}, 0).rows
    assert {row.log_dir: row.states(0)[0] for row in seen}[str(dead)] == "unread"
