"""The page of all runs: which state each run is in, and which need a person."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.ui.folders import HOUR_MS, ended, live, volume, write

NOW = 1_800_000_000_000
DAG = "rebuild_time_indexes"


def rows(folder: Path) -> Any:
    from kafkats_airflow.ui.reading import listing, runs

    return listing.rows_of(runs.runs_in(folder, [DAG]), NOW)


def question(run: Path, until_ms: int) -> None:
    plan = {"plan": "/p", "digest": "a" * 64, "totals": {"files": 5}}
    content = {
        "options": {"Approve": ["a" * 64], "Reject": []},
        "plans": [plan],
        "asked_ms": NOW - HOUR_MS,
        "until_ms": until_ms,
        "run_id": "manual__2026-01-01T00:00:00+00:00",
    }
    write(run / "question.json", content)


def test_each_state(folder: Path) -> None:
    base = folder / DAG
    live(base / "running", NOW - 1000)
    live(base / "silent", NOW - 61_000)
    question(base / "asks", NOW + HOUR_MS)
    question(base / "too late", NOW - 1)
    live(base / "failed job", NOW - 5000, state="failed")
    ended(folder, NOW - 9000, volume("/a"), run="ended")
    ended(folder, NOW - 8000, volume("/a"), run="failed", failed=True, outcome="not finished")
    write(base / "older" / "report.json", {"outcome": "dry run", "volumes": ["/a", "/b"]})
    write(base / "half" / "question.json", "{")
    (base / "empty").mkdir()
    found = {row.name: row for row in rows(folder)}
    assert {name: row.state for name, row in found.items()} == {
        "running": "running",
        "silent": "silent",
        "manual__2026-01-01T00:00:00+00:00": "unknown",  # of "asks" and "too late": one id
        "failed job": "failed",
        "ended": "ended",
        "failed": "failed",
        "older": "ended",
        "half": "unreadable",
        "empty": "unknown",
    } | {"manual__2026-01-01T00:00:00+00:00": found["manual__2026-01-01T00:00:00+00:00"].state}
    assert sorted(row.state for row in rows(folder) if row.name.startswith("manual")) == [
        "asks",
        "unknown",
    ]
    assert found["older"].volumes == 2
    (job,) = found["running"].live
    assert (job.bytes, job.of_bytes, job.seconds_left) == (1024**3, 4 * 1024**3, 180)


def test_a_failure_needs_nobody_after_a_later_run_ended_well(folder: Path) -> None:
    from kafkats_airflow.ui.reading.listing import needing

    ended(folder, NOW - 3 * HOUR_MS, volume("/a"), run="old", failed=True)
    assert [row.name for row in needing(rows(folder))] == ["old"]
    ended(folder, NOW - 2 * HOUR_MS, volume("/a"), run="well")
    assert needing(rows(folder)) == []
    ended(folder, NOW - HOUR_MS, volume("/a"), run="new", failed=True)
    assert [row.name for row in needing(rows(folder))] == ["new"]
    assert [row.name for row in rows(folder)] == ["new", "well", "old"]


def test_a_run_that_was_cleared_runs_again(folder: Path) -> None:
    run = ended(folder, NOW - HOUR_MS, volume("/a"), run="cleared")
    live(run, NOW - 1000)
    assert [row.state for row in rows(folder)] == ["running"]


def test_pages_and_filters_are_in_the_address(client: Any, folder: Path) -> None:
    for n in range(60):
        ended(folder, NOW - n * HOUR_MS, volume("/a"), run=f"run-{n:02}")
    first = client.get("/kafkats/runs").text
    assert "run-00<" in first
    assert "run-50<" not in first
    assert 'href="runs?start=50"' in first
    second = client.get("/kafkats/runs?start=50").text
    assert "run-50<" in second
    assert "run-00<" not in second
    assert "No run fits." in client.get("/kafkats/runs?state=failed").text
    assert client.get("/kafkats/runs?state=other").status_code == 422
