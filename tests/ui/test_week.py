"""A week of runs of every depth on one volume, whose true state is known: after each the pages and the metrics tell it.

The looks are real, at a real directory. In the middle of a log a byte is flipped, which only a look at everything finds.
"""

from __future__ import annotations

import re
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from kafkats_airflow.metrics.families import registry
from kafkats_airflow.reports import overview
from kafkats_airflow.ui import dags
from playwright.sync_api import Page
from prometheus_client import generate_latest

from kafkats import clock
from kafkats.cli import cli
from kafkats.plans.facts import SEGMENTS, read_table
from tests.golden import case
from tests.ui.folders import DAY_MS, HOUR_MS, ended, reclaimable, write
from tests.ui.looking import looking

REBUILD, RETAIN = "rebuild_time_indexes", "apply_retention"
LOG = "none-ct-0/00000000000000000000.log"
DEFECTS = {"bad-crc": "1", "beyond-end": "2"}
DAMAGE = "bad-crc 1"


class Week:
    """Runs of one volume, seven days apart from the first to the last."""

    def __init__(self, folder: Path, root: Path, page: Page, site: str) -> None:
        self.folder, self.root, self.page, self.site = folder, root, page, site
        self.begin_ms = self.now_ms = time.time_ns() // 1_000_000

    def at(self, day: int) -> int:
        """The time of a run on a day, from which on it is an hour later."""
        self.now_ms = max(self.begin_ms + day * DAY_MS, self.now_ms) + HOUR_MS
        return self.now_ms - HOUR_MS + 1

    def look(self, day: int, depth: str, dag: str, **more: Any) -> Path:
        """A run that looked at the volume as it now is."""
        at_ms = self.at(day)
        report = self.folder.parent / f"look-{at_ms}"
        words = ["verify", str(self.root), "--report", str(report), "--depth", depth]
        assert CliRunner().invoke(cli, words).exit_code in (0, 1)
        segments = read_table(report / "segments.parquet", SEGMENTS)
        [volume] = overview.volumes_of([], [segments])
        found = volume.model_dump(mode="json")
        if dag == RETAIN:
            found["reclaimable"] = reclaimable(day * 1024)
        run = ended(self.folder, at_ms, found, dag=dag, run=f"day-{day}-{depth}", **more)
        shutil.copy(report / "segments.parquet", run)
        return run

    def asks(self, day: int, run: str) -> None:
        """A run that was marked or deleted while it asked."""
        plan = {"plan": "/p", "digest": "d" * 64, "log_dirs": [str(self.root)]}
        content = {
            "asked_ms": self.at(day),
            "until_ms": self.now_ms + 7 * DAY_MS,
            "run_id": run,
            "task_id": "approve",
            "options": {"Approve": ["d" * 64], "Reject": []},
            "default": "Reject",
            "digest": "d" * 64,
            "plans": [plan],
        }
        write(self.folder / REBUILD / run / "question.json", content)

    def told(self, state: str, *words: str) -> None:
        """The page of volumes and the metrics say this, and the page of runs has no open question."""
        self.page.goto(f"{self.site}/volumes")
        self.page.locator("html[data-ready]").wait_for(state="attached")
        row = self.page.locator("tr[data-state]")
        assert row.get_attribute("data-state") == state
        text = re.sub(r"\s+", " ", row.inner_text())
        assert [word for word in words if word not in text] == []
        assert "waits for an answer" not in text
        exposed = generate_latest(registry(lambda: {"": self.folder})).decode()
        defects = re.findall(r'kafkats_defects\{broker=.*kind="([a-z-]+)".*\} (\d)', exposed)
        assert dict(defects) == (DEFECTS if state == "damage" else {})
        self.page.goto(f"{self.site}/runs?state=asks")
        assert self.page.locator("table.rows tbody tr").count() == 0


@pytest.fixture
def week(
    folder: Path, site: str, browser: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Week]:
    root = tmp_path / "broker" / "data"
    root.mkdir(parents=True)
    case("matrix-4.3.1-v2").unpack("data", root)
    with looking(browser) as seen:
        made = Week(folder, root, seen.page, site)
        monkeypatch.setattr(clock, "now_ms", lambda: made.now_ms)
        yield made
    assert seen.complaints == []


def flip(log: Path) -> None:
    data = bytearray(log.read_bytes())
    data[len(data) // 2] ^= 0xFF
    log.write_bytes(bytes(data))


@pytest.mark.slow(25)
def test_the_pages_tell_the_truth_after_each_run(
    week: Week, monkeypatch: pytest.MonkeyPatch
) -> None:
    over = {(REBUILD, "marked"), (REBUILD, "deleted")}
    monkeypatch.setattr(dags, "over", lambda asked: frozenset(asked) & over)
    week.look(1, "full", REBUILD)
    week.told("sound", "read whole")
    flip(week.root / LOG)
    week.look(1, "tail", RETAIN)
    week.told("sound", "its ends were read", "read whole")  # known to which depth, and since when
    week.look(2, "full", REBUILD, outcome="damage not repaired: 1 finding")
    week.told("damage", DAMAGE, "read whole")
    week.look(3, "tail", RETAIN)
    week.told("damage", DAMAGE, "read whole", "its ends were read", "3.0 KiB now")
    failed = {"failed": True, "outcome": "not finished", "why": "applications: no size"}
    ended(week.folder, week.at(4), dag=RETAIN, run="day-4-failed", **failed)
    week.told("damage", DAMAGE, "3.0 KiB now")
    dead = {"log_dir": str(week.root), "error": f"{week.root}: Input/output error"}
    outcome = {
        "failed": True,
        "outcome": "nothing to delete, 1 volume could not be read, not finished",
    }
    ended(week.folder, week.at(4), dead, dag=RETAIN, run="day-4-dead", **outcome)
    week.told("damage", DAMAGE, "not readable", "Input/output error", "3.0 KiB now")
    week.asks(5, "marked")
    week.asks(5, "deleted")
    (week.folder / REBUILD / "day-6-empty").mkdir()
    week.told("damage", DAMAGE)
    week.look(6, "tail", RETAIN, topics="none-*")
    week.told("damage", DAMAGE)
    flip(week.root / LOG)
    week.look(7, "tail", RETAIN)
    week.told("damage", DAMAGE, "7.0 KiB now")  # mended, and no look was as deep yet
    week.look(7, "full", REBUILD)
    week.told("sound", "read whole", "7.0 KiB now")
    week.look(7, "tail", RETAIN)
    week.told("sound", "its ends were read", "read whole")


@pytest.mark.slow(8)
def test_no_page_takes_a_run_that_read_nothing_for_the_newest(week: Week) -> None:
    run = week.look(3, "tail", RETAIN)
    write(run / "board.json", {"now_ms": week.now_ms, "topics": [], "partitions": [], "lines": {}})
    late = {"failed": True, "outcome": "not finished"}
    for number, volumes in enumerate(([], [{"log_dir": "/dead", "error": "/dead: gone"}])):
        more = late if not volumes else late | {"outcome": "dry run, 1 volume ..., not finished"}
        bad = ended(week.folder, week.at(5), *volumes, dag=RETAIN, run=f"bad-{number}", **more)
        write(bad / "board.json", {"now_ms": 0, "topics": [], "partitions": [], "lines": {}})
        shutil.copy(run / "segments.parquet", bad)
    for name in ("retention", "index-health"):
        assert week.page.request.get(f"{week.site}/{name}").url.endswith(f"run_id={run.name}")
