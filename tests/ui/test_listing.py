"""The page of all runs: which state each run is in, and which need a person."""

from __future__ import annotations

import re
import time
from pathlib import Path
from typing import Any

import pytest

from tests.ui.folders import HOUR_MS, ended, live, volume, write

NOW = 1_800_000_000_000
GIB = 1024**3
ANSWER = {"option": "Reject", "digests": [], "by": "Ada", "why": "", "answered_ms": 1}


def guarded(digest: str, files: int, partitions: int, freed_bytes: int) -> dict[str, Any]:
    totals = {"files": files, "partitions": partitions, "freed_bytes": freed_bytes}
    plan = {"plan": f"/p/{digest}", "digest": digest, "totals": totals, "log_dirs": ["/a"]}
    return plan | {"operation": "retain", "on_disk": 9 * GIB}


GUARDED = {
    "options": {"Delete over the guard": ["o"], "Keep to the guard": ["w"], "Delete nothing": []},
    "plans": [guarded("w", 4, 1, 5), guarded("o", 41, 3, 2 * GIB)],
    "default": "Keep to the guard",
    "asked_ms": NOW - HOUR_MS,
    "run_id": "scheduled__2026-01-02T00:00:00+00:00",
}
DAG = "rebuild_time_indexes"


def rows(folder: Path) -> Any:
    from kafkats_airflow.reading import runs
    from kafkats_airflow.ui.reading import listing

    return listing.rows_of(runs.runs_in(folder, [DAG]), NOW, lambda asked: ())


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


def test_a_dry_run_says_what_it_would_have_done(client: Any, folder: Path) -> None:
    run = ended(folder, NOW, volume("/a"), run="dry", outcome="dry run", dry_run=True)
    totals = {"files": 24, "partitions": 15, "blocked": 8, "write_bytes": 1024}
    plans = [{"plan": f"/p/{n}", "digest": f"{n}", "totals": totals} for n in range(2)]
    write(run / "report.json", {"outcome": "dry run", "plans": plans})
    said = "would change 48 files in 30 partitions, 2.0\xa0KiB to write, 16 rows blocked"
    assert [row.said for row in rows(folder)] == [said]
    assert said in client.get("/kafkats/runs").text
    plans = [{"plan": "/p", "digest": "d", "totals": {"files": 0, "blocked": 1}}]
    write(run / "report.json", {"outcome": "dry run", "plans": plans})
    assert [row.said for row in rows(folder)] == ["would change nothing, 1 row blocked"]
    write(run / "report.json", {"outcome": "dry run", "plans": []})
    assert [row.said for row in rows(folder)] == ["dry run"]


def test_each_state(folder: Path) -> None:
    base = folder / DAG
    live(base / "running", NOW - 1000)
    live(base / "silent", NOW - 61_000)
    question(base / "asks", NOW + HOUR_MS)
    question(base / "too late", NOW - 1)
    live(base / "failed job", NOW - 5000, state="failed")
    ended(folder, NOW - 9000, volume("/a"), run="ended")
    ended(folder, NOW - 8000, volume("/a"), run="failed", failed=True, outcome="not finished")
    ended(folder, NOW - 7000, volume("/a"), run="dry", outcome="dry run", dry_run=True)
    ended(folder, NOW - 7000, volume("/a"), run="no", outcome="rejected")
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
        "dry": "dry",
        "no": "rejected",
        "half": "unreadable",
        "empty": "unknown",
    } | {"manual__2026-01-01T00:00:00+00:00": found["manual__2026-01-01T00:00:00+00:00"].state}
    assert sorted(row.state for row in rows(folder) if row.name.startswith("manual")) == [
        "asks",
        "unknown",
    ]
    assert found["older"].volumes == {"/a": "", "/b": ""}
    assert (found["dry"].state, found["no"].state) == ("dry", "rejected")
    (job,) = found["running"].live
    assert (job.bytes, job.of_bytes, job.seconds_left) == (1024**3, 4 * 1024**3, 180)


def test_a_failed_run_says_where_and_why(folder: Path) -> None:
    why = "plan: param split rolled needs param segment_bytes"
    ended(folder, NOW, run="new", failed=True, outcome="not finished", why=why)
    write(folder / DAG / "older" / "report.json", {"outcome": "not finished", "failures": [why]})
    ended(folder, NOW, run="danger", failed=True, outcome="dry run, DANGER is left")
    ended(folder, NOW, run="long", failed=True, outcome="not finished", why="x" * 999)
    assert {row.name: row.said for row in rows(folder)} == {
        "new": f"not finished: {why}",
        "older": f"not finished: {why}",
        "danger": "dry run, DANGER is left",
        "long": f"not finished: {'x' * 160} …",
    }


def test_a_failure_needs_nobody_after_a_later_run_ended_well(folder: Path) -> None:
    from kafkats_airflow.ui.reading.listing import needing

    ended(folder, NOW - 3 * HOUR_MS, volume("/a"), run="old", failed=True)
    assert [row.name for row in needing(rows(folder))] == ["old"]
    ended(folder, NOW - 2 * HOUR_MS, volume("/a"), run="well")
    assert needing(rows(folder)) == []
    ended(folder, NOW - HOUR_MS, volume("/a"), run="new", failed=True)
    assert [row.name for row in needing(rows(folder))] == ["new"]
    assert [row.name for row in rows(folder)] == ["new", "well", "old"]


def test_a_dry_run_has_not_done_the_work_of_a_run_that_was_to_write(folder: Path) -> None:
    from kafkats_airflow.ui.reading.listing import needing

    ended(folder, NOW - 5 * HOUR_MS, volume("/a"), run="dry", failed=True, dry_run=True)
    ended(folder, NOW - 4 * HOUR_MS, volume("/a"), run="old", failed=True)
    ended(folder, NOW - 3 * HOUR_MS, volume("/a"), run="only dry", dry_run=True)
    assert [row.name for row in needing(rows(folder))] == ["old"]
    ended(folder, NOW - 2 * HOUR_MS, volume("/a"), run="well")
    assert needing(rows(folder)) == []


def test_a_run_that_was_cleared_and_asks_again_needs_an_answer(folder: Path) -> None:
    run = ended(folder, NOW - 2 * HOUR_MS, volume("/a"), run="cleared")
    live(run, NOW - HOUR_MS, state="done")
    question(run, NOW + HOUR_MS)
    assert [row.state for row in rows(folder)] == ["asks"]
    write(run / "approval.json", ANSWER)
    assert [row.state for row in rows(folder)] == ["ended"], "it goes on, or has begun to"


def test_a_row_says_who_started_it_where_and_how_long_it_took(client: Any, folder: Path) -> None:
    began = {"how": "manual", "by": "Ada", "began_ms": NOW - HOUR_MS, "volumes": {"/a": "1"}}
    run_id = "manual__2026-11-22T18:56:53.123456+00:00"
    ended(folder, NOW, volume("/a"), run="r", run_id=run_id, started=began, dry_run=True)
    ended(folder, NOW - 1, volume("/b"), run="scheduled__2026-11-22T02:00:00+00:00")
    first, second = rows(folder)
    assert (first.lasted_ms, first.volumes, first.started.by) == (HOUR_MS, {"/a": "1"}, "Ada")
    assert (second.lasted_ms, second.volumes) == (None, {"/b": ""})
    text = client.get("/kafkats/runs").text
    assert f'title="{run_id}">2027-01-15 07:00 UTC</a>' in text, "when it started"
    assert "by Ada" in text and "by schedule" in text and ">2026-11-22 02:00 UTC</a>" in text
    assert "broker 1 " in text and "dry run: nothing is written" in text


def test_a_question_says_what_each_answer_does(client: Any, folder: Path) -> None:
    base = folder / DAG
    question(base / "older", int(time.time() * 1000) + HOUR_MS)
    write(
        base / "asks" / "question.json", {**GUARDED, "until_ms": int(time.time() * 1000) + HOUR_MS}
    )
    text = client.get("/kafkats/runs").text
    assert "Change 5 files?" in text, "an earlier version named no operation"
    assert "Delete 41 files in 3 partitions, 2.0 GiB of 9.0 GiB on disk?" in text
    assert "Without an answer: Keep to the guard: Delete 4 files in 1 partition, 5 B of" in text


@pytest.mark.parametrize(
    ("sort", "down", "up"),
    [
        ("dag", "", ""),
        ("run", "bac", "cab"),
        ("state", "abc", "cba"),
        ("when", "cba", "abc"),
        ("lasted", "cab", "bac"),
    ],
)
def test_every_order_of_the_table(client: Any, folder: Path, sort: str, down: str, up: str) -> None:
    """`a` ended first and took 2 h, `b` was a dry run of 1 h, `c` ended last and failed after 5 h."""
    for n, (name, hours, more) in enumerate((
        ("a", 2, {}),
        ("b", 1, {"dry_run": True}),
        ("c", 5, {"failed": True}),
    )):
        at_ms = NOW - (3 - n) * HOUR_MS // 4
        began = {"began_ms": at_ms - hours * HOUR_MS}
        ended(folder, at_ms, volume("/a"), run=name, started=began, **more)
    dag = "build_lookup_tables"
    ended(folder, NOW - 9 * HOUR_MS, dag=dag, run="unknown", started={})
    read = {
        way: client.get(f"/kafkats/runs?dag={DAG}&sort={sort}{way}").text
        for way in ("", "&up=true")
    }
    found = {way: "".join(re.findall(r'title="([abc])">', text)) for way, text in read.items()}
    if sort == "dag":
        assert sorted(found[""]) == ["a", "b", "c"]
        every = client.get("/kafkats/runs?sort=dag&up=true").text
        assert every.index(f">{dag}</td>") < every.index(f">{DAG}</td>")
    else:
        assert found == {"": down, "&up=true": up}
    assert 'aria-sort="descending"' in read[""] and 'aria-sort="ascending"' in read["&up=true"]
    if sort == "lasted":
        every = client.get("/kafkats/runs?sort=lasted&up=true").text
        assert every.index(f">{dag}</td>") > every.rindex(f">{DAG}</td>"), "it is unknown"


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
    assert 'href="runs?sort=need&amp;start=50"' in first
    second = client.get("/kafkats/runs?start=50").text
    assert "run-50<" in second
    assert "run-00<" not in second
    assert "No run fits." in client.get("/kafkats/runs?state=failed").text
    assert client.get("/kafkats/runs?state=other").status_code == 422


def test_the_question_about_a_canary_waits_after_the_report(client: Any, folder: Path) -> None:
    """It has no plan: Airflow's own form answers it."""
    now_ms = time.time_ns() // 1_000_000
    dag, at_ms = "migrate_message_format", now_ms - 2 * HOUR_MS
    run = ended(folder, at_ms, volume("/a"), dag=dag, run="canary", outcome="converted and proved")
    asked = {"digest": "a" * 64, "asked_ms": at_ms + 5000, "until_ms": now_ms + 100 * HOUR_MS}

    def state(**more: Any) -> str:
        from kafkats_airflow.reading import runs
        from kafkats_airflow.ui.reading import listing

        write(run / "canary-question.json", asked | more)
        [row] = listing.rows_of(runs.runs_in(folder, [dag]), now_ms, lambda asked: ())
        return str(row.state)

    assert state(task_id="approve_canary") == "asks"
    page = client.get("/kafkats/runs").text
    assert "1 run needs you." in page
    assert "May the other brokers follow this canary?" in page
    assert "Without an answer: Reject: the other brokers wait." in page
    link = f'data-out href="../dags/{dag}/runs/canary/tasks/approve_canary/required_actions"'
    assert link in page
    assert "plan?dag_id" not in page
    assert state(task_id="approve_canary", answered_ms=now_ms) == "ended"
    assert state(task_id="approve_canary", until_ms=now_ms - 1) == "ended"
    assert state(task_id="approve_canary", asked_ms=at_ms - 2 * HOUR_MS) == "ended", (
        "an earlier try"
    )
    assert state() == "ended", "of an earlier version, which did not tell of the answer"
    write(run / "canary-question.json", "{")
    said = "converted and proved; canary-question.json: half-written or corrupt"
    assert said in client.get("/kafkats/runs").text
