"""The newest run that has a report, of those that the person may read."""

from __future__ import annotations

import html
import re
import time
from pathlib import Path
from typing import Any

import pytest
from kafkats_airflow.ui.words import of_moment

from tests.builders.findings import segments
from tests.golden import Unpacked
from tests.ui.folders import HOUR_MS, ended, live, write
from tests.ui.golden_runs import (
    LOOKED_UP,
    REBUILT,
    RETAINED,
    write_health,
    write_offsets,
    write_retention,
)
from tests.ui.golden_runs import NOW_MS as RETENTION_MS

VIEWER = {"Authorization": "Bearer viewer"}


def test_the_newest_run_of_those_that_the_person_may_read(
    client: Any, folder: Path, golden: Unpacked
) -> None:
    write_health(folder, golden)
    write_retention(folder, golden)
    led = client.get("/kafkats/index-health", follow_redirects=False)
    assert led.headers["location"] == "health?dag_id=apply_retention&run_id=manual__retention"
    mine = client.get("/kafkats/index-health", headers=VIEWER, follow_redirects=False)
    assert mine.headers["location"] == "health?dag_id=rebuild_time_indexes&run_id=manual__health"
    seen = client.get(f"/kafkats/{mine.headers['location']}", headers=VIEWER).text
    assert "manual__retention" not in seen
    both = client.get(f"/kafkats/{mine.headers['location']}").text
    assert "manual__retention" in both


def test_a_run_that_failed_before_it_read_anything_is_not_the_newest(
    client: Any, folder: Path, golden: Unpacked
) -> None:
    """Earlier versions wrote tables without facts for it."""
    write_retention(folder, golden)
    at_ms = time.time_ns() // 1_000_000 + HOUR_MS
    failed = ended(folder, at_ms, dag="apply_retention", failed=True, outcome="not finished")
    write(failed / "board.json", {"now_ms": 0, "topics": [], "partitions": []})
    led = client.get("/kafkats/retention", follow_redirects=False)
    assert led.headers["location"] == f"run-retention?{RETAINED}"


def test_a_page_says_when_the_disk_was_read_not_when_a_file_was_copied(
    client: Any, folder: Path, golden: Unpacked
) -> None:
    """A job that read tells it. The times that a plan judges by, and of files, are others."""
    run = write_retention(folder, golden)
    ended(folder, 1_700_000_000_000, dag="apply_retention", run=run.name)
    path = f"/kafkats/run-retention?{RETAINED}"
    [line] = re.findall(r'id="read">(.*?)</p>', client.get(path).text, re.DOTALL)
    assert "Disk read before" in line and "2023-11-14 22:13 UTC" in line, "the report's time"
    for job, at_ms in (("plan", 1_690_000_000_000), ("apply", 1_690_000_900_000)):
        live(run, at_ms, job=job, task=job, state="done")
    [line] = re.findall(r'id="read">(.*?)</p>', client.get(path).text, re.DOTALL)
    assert "Disk read at" in line and "2023-07-22 04:26 UTC" in line and "by the run" in line
    assert f"Times are judged as of {of_moment(RETENTION_MS)}" in line
    run = write_health(folder, golden, after=segments(("b-0", 10, [])))
    live(run, 1_690_000_000_000, state="done")
    live(run, 1_690_003_600_000, job="verify", task="verify", state="done")
    now, was = (client.get(f"/kafkats/health?{REBUILT}{at}").text for at in ("", "&at=before"))
    assert "Disk read at 2023-07-22 05:26 UTC" in now, "the map after the run is of its proof"
    assert "Disk read at 2023-07-22 04:26 UTC" in was


def test_a_cleared_run_shows_its_report_under_the_time_of_the_report(
    client: Any, folder: Path, golden: Unpacked
) -> None:
    """Its new plan has read the disk, and no table of it is shown before the new report."""
    run = write_health(folder, golden)
    ended(folder, 1_700_000_000_000, run=run.name)
    path = f"/kafkats/health?{REBUILT}"
    live(run, 1_690_000_000_000, state="done")
    assert "Disk read at 2023-07-22 04:26 UTC" in client.get(path).text
    live(run, 1_700_400_000_000, state="done")
    assert "Disk read before 2023-11-14 22:13 UTC" in client.get(path).text


@pytest.mark.parametrize("path", ["index-health", "retention"])
def test_without_a_report(client: Any, folder: Path, path: str) -> None:
    assert "writes one" in client.get(f"/kafkats/{path}").text
    folder.rmdir()
    said = client.get(f"/kafkats/{path}")
    assert said.status_code == 200
    assert "cannot see the folder of all runs" in said.text


def test_the_page_of_a_run_leads_to_the_reports_that_it_has(
    client: Any, folder: Path, golden: Unpacked, tmp_path: Path
) -> None:
    write_health(folder, golden)
    write_retention(folder, golden)
    write_offsets(folder, golden, tmp_path / "table")
    for run, names in (
        (REBUILT, {"health"}),
        (RETAINED, {"health", "run-retention"}),
        (LOOKED_UP, {"run-offsets"}),
    ):
        page = client.get(f"/kafkats/run?{run}").text
        links = set(re.findall(r'href="([a-z-]+\?[^"]*)"', page))
        assert {link.partition("?")[0] for link in links} == names
        for link in links:
            assert client.get(f"/kafkats/{html.unescape(link)}").status_code == 200
