"""The page of one run: its stages, in every state that its folder can show."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from kafkats.logdir.reservation import release, reservation_area, reserve
from tests.ui.folders import DAY_MS, HOUR_MS, change, ended, live, volume, write

NOW = 1_800_000_000_000
DAG = "rebuild_time_indexes"
DIGEST = "d" * 64
PLAN = {"plan": "/p", "digest": DIGEST, "totals": {"files": 5, "blocked": 2}}


def stages(run: Path, now_ms: int = NOW) -> dict[str, Any]:
    from kafkats_airflow.ui.reading.run import detail_of, stages_of

    return {stage.name: stage for stage in stages_of(detail_of(run), now_ms)}


def states(run: Path) -> list[str]:
    return [stage.state for stage in stages(run).values()]


def question(run: Path) -> None:
    content = {
        "options": {"Approve": [DIGEST], "Reject": []},
        "plans": [PLAN],
        "asked_ms": NOW - HOUR_MS,
        "until_ms": NOW + HOUR_MS,
    }
    write(run / "question.json", content)


def answer(run: Path, by: str, *digests: str) -> None:
    content = {
        "option": "Approve" if digests else "Reject",
        "digests": list(digests),
        "by": by,
        "why": "nothing would be written",
        "answered_ms": NOW - 1000,
    }
    write(run / "approval.json", content)


def test_a_run_from_its_plan_to_its_purge(folder: Path) -> None:
    run = folder / DAG / "r"
    live(run, NOW - 2000)
    assert states(run) == ["running", *["not begun"] * 5]
    assert stages(run, NOW + HOUR_MS)["Plan"].state == "silent"
    live(run, NOW - 2000, state="done", units=40, bytes=4 * 1024**3)
    question(run)
    assert states(run) == ["done", "waiting", *["not begun"] * 4]
    assert stages(run)["Plan"].said == "5 files to change, 2 rows blocked"
    assert stages(run)["Approval"].until_ms == NOW + HOUR_MS
    assert stages(run, NOW + 2 * HOUR_MS)["Approval"].state == "rejected"
    answer(run, "Ada", DIGEST)
    assert stages(run)["Approval"][1:4] == ("done", NOW - 1000, "Approve, by Ada")
    live(run, NOW - 500, task="apply", job="apply")
    assert stages(run)["Apply"].state == "running"
    undo = change(run, DIGEST, {"/a": 7}, NOW + DAY_MS)
    live(run, NOW - 400, task="apply", job="apply", state="done")
    (change_folder,) = (run / "spark_default").iterdir()
    (change_folder / "proof.json").rename(change_folder / "kept")
    live(run, NOW - 300, task="verify", job="verify")
    assert states(run)[:4] == ["done", "done", "done", "running"]
    (change_folder / "kept").rename(change_folder / "proof.json")
    live(run, NOW - 200, task="verify", job="verify", state="done")
    ended(folder, NOW, volume("/a"), run="r", undo=[undo])
    write(run / "report.json", {"outcome": "rebuilt and proved", "plans": [PLAN]})
    assert states(run) == ["done", "done", "done", "done", "done", "open"]
    assert stages(run)["Undo"].until_ms == NOW + DAY_MS
    assert "next run purges" in stages(run, NOW + 2 * DAY_MS)["Undo"].said
    write(change_folder / "purge.json", {"at_ms": NOW + DAY_MS, "freed_bytes": 7})
    assert stages(run)["Undo"].state == "done"
    assert "cannot be undone" in stages(run)["Undo"].said


def canary(run: Path, **more: Any) -> Any:
    """The stage of the question about a canary, None if there is none."""
    asked = {"digest": DIGEST, "asked_ms": NOW - HOUR_MS + 5000, "until_ms": NOW + DAY_MS}
    write(run / "canary-question.json", asked | {"task_id": "approve_canary"} | more)
    return stages(run).get("Canary")


def test_the_question_about_a_canary_stands_between_report_and_undo(folder: Path) -> None:
    run = ended(folder, NOW - HOUR_MS, volume("/a"), run="r", outcome="converted and proved")
    write(run / "report.json", {"outcome": "converted and proved", "plans": [PLAN]})
    assert "Canary" not in stages(run), "other phases have none"
    waits = canary(run)
    assert list(stages(run))[-3:] == ["Report", "Canary", "Undo"]
    assert (waits.state, waits.until_ms) == ("waiting", NOW + DAY_MS)
    assert waits.silence == "Reject: the other brokers wait"
    yes = canary(run, answered_ms=NOW - 1000, option="Approve", by="Ada")
    assert yes[1:4] == ("done", NOW - 1000, "Approve, by Ada")
    no = canary(run, answered_ms=NOW - 1000, option="Reject", by="Ada")
    assert no[1:4] == ("rejected", NOW - 1000, "Reject, by Ada")
    silent = canary(run, answered_ms=NOW, option="Reject", by="")
    assert silent[1:4] == ("rejected", NOW, "Reject, nobody answered in time")
    assert canary(run, until_ms=NOW - 1).state == "rejected"
    assert canary(run, asked_ms=NOW - 2 * HOUR_MS).state == "not begun", "an earlier try"
    assert canary(run, task_id="") is None, "earlier versions did not tell of an answer"


def test_the_page_leads_to_the_form_about_a_canary(client: Any, folder: Path) -> None:
    now_ms, dag = time.time_ns() // 1_000_000, "migrate_message_format"
    run = ended(folder, now_ms - 9000, volume("/a"), dag=dag, run="r", outcome="converted")
    write(run / "report.json", {"outcome": "converted", "plans": [PLAN]})
    canary(run, asked_ms=now_ms - 5000, until_ms=now_ms + DAY_MS)
    text = client.get(f"/kafkats/run?dag_id={dag}&run_id=r").text
    form = f"../dags/{dag}/runs/r/tasks/approve_canary/required_actions"
    assert f'<a data-out href="{form}">Answer in Airflow</a>' in text
    assert "Without an answer: Reject: the other brokers wait" in text
    assert 'data-refresh="5"' in text


def test_a_run_that_was_cleared_has_no_report_yet(folder: Path) -> None:
    run = ended(folder, NOW - HOUR_MS, volume("/a"), run="r", outcome="dry run")
    write(run / "report.json", {"outcome": "dry run", "plans": [PLAN]})
    assert stages(run)["Report"].state == "done"
    live(run, NOW - 2000)
    assert stages(run)["Plan"].state == "running"
    assert stages(run)["Report"][1:4] == ("not begun", None, "of an earlier try: dry run")


def test_a_no_and_what_needs_no_answer(folder: Path) -> None:
    run = folder / DAG / "r"
    question(run)
    answer(run, "Ada")
    assert stages(run)["Approval"].state == "rejected"
    answer(run, "")
    assert stages(run)["Approval"][1:4] == ("not needed", NOW - 1000, "nothing would be written")


def test_a_run_that_did_not_prove_what_it_wrote_has_failed(folder: Path) -> None:
    run = folder / DAG / "r"
    change(run, DIGEST, {}, None)
    (folder / DAG / "r" / "spark_default" / f"run-{DIGEST[:16]}" / "proof.json").unlink()
    write(
        run / "report.json",
        {"outcome": "not finished", "failures": ["verify: killed"], "plans": [PLAN]},
    )
    found = stages(run)
    assert (found["Proof"].state, found["Report"].state) == ("failed", "failed")


def test_a_run_that_only_looks_up_has_no_plan(folder: Path) -> None:
    run = folder / "export_offsets" / "r"
    live(run, NOW, task="look", job="lookup", state="done")
    write(run / "report.json", {"outcome": "exported"})
    assert list(stages(run)) == ["Look up", "Report"]


def test_the_page_shows_progress_and_refreshes(client: Any, folder: Path) -> None:
    run = folder / DAG / "r"
    live(run, NOW - 2000)
    text = client.get(f"/kafkats/run?dag_id={DAG}&run_id=r").text
    assert "10 of 40 units, 1.0\u00a0GiB of 4.0\u00a0GiB, 17.1\u00a0MiB/s" in text
    assert "3\u00a0min left" in text
    assert 'data-refresh="5"' in text


def test_a_run_is_found_by_the_id_that_airflow_gave_it(client: Any, folder: Path) -> None:
    from kafkats_airflow.runs.folders import file_name

    run_id = "manual__2026-11-22T18:56:53.123456+00:00"
    ended(folder, NOW, volume("/a"), run=file_name(run_id), run_id=run_id)
    for asked in (run_id, file_name(run_id)):
        text = client.get("/kafkats/run", params={"dag_id": DAG, "run_id": asked}).text
        assert "rebuilt and proved" in text, asked
        assert f"<code>{run_id}</code>" in text
        assert "<h1>rebuild_time_indexes, 2026-11-22 18:56 UTC" in text


WHY = "no volume of the policy has a path or broker like /dta; trigger a new run"


def failed(folder: Path, dag: str, *failures: str) -> Path:
    """A run that failed before it planned."""
    run = ended(folder, NOW, dag=dag, run="r", failed=True, outcome="not finished")
    write(run / "report.json", {"outcome": "not finished", "failures": list(failures)})
    return run


@pytest.mark.parametrize(
    ("dag", "task", "names"),
    [
        ("rebuild_time_indexes", "applications", ["Plan", "Report"]),
        ("end_run", "changes", ["Plan", "Report"]),
        ("recover_log_dirs", "preflight", ["Plan", "Report"]),
        ("build_lookup_tables", "tables", ["Look up", "Report"]),
        ("clean_reports", "choose", ["Report"]),
    ],
)
def test_the_stage_of_the_first_task_that_failed(
    folder: Path, dag: str, task: str, names: list[str]
) -> None:
    found = stages(failed(folder, dag, f"{task}: {WHY}"))
    assert list(found) == names
    assert {stage.state for stage in found.values()} == {"failed"}


def test_the_page_says_where_a_run_failed_and_why(client: Any, folder: Path) -> None:
    run = failed(folder, DAG, f"applications: {WHY}", "/a/b: cannot be removed: busy")
    text = client.get(f"/kafkats/run?dag_id={DAG}&run_id=r").text
    assert "<h2>Failed at Plan</h2>" in text
    task = f"../dags/{DAG}/runs/r/tasks/applications"
    assert f'href="{task}">applications</a>: {WHY}</li>' in text, "its log is a click away"
    assert "<li>/a/b: cannot be removed: busy</li>" in text, "no task"
    live(run, NOW + 1000)
    assert "Failed at" not in client.get(f"/kafkats/run?dag_id={DAG}&run_id=r").text, "a later try"


def test_a_failed_stage_of_a_run_that_planned(folder: Path) -> None:
    run = failed(folder, DAG, "verify: killed")
    write(
        run / "report.json",
        {"outcome": "not finished", "failures": ["verify: killed"], "plans": [PLAN]},
    )
    found = stages(run)
    assert [name for name, stage in found.items() if stage.state == "failed"] == ["Proof", "Report"]


def test_a_purge_that_frees_nothing_says_so(client: Any, folder: Path) -> None:
    run = folder / DAG / "r"
    ended(folder, NOW, volume("/a"), run="r", undo=[change(run, DIGEST, {"/a": 0}, None)])
    text = client.get(f"/kafkats/run?dag_id={DAG}&run_id=r").text
    assert "This run replaced no file, so no space is freed" in text
    assert ">Give up the undo now: this run can then no longer be undone</button>" in text
    assert "0\u00a0B" not in text


def test_a_run_that_left_something_leads_to_it(client: Any, folder: Path) -> None:
    run = ended(folder, NOW, run="r", failed=True, outcome="recovered, 2 partitions NOT recovered")
    write(
        run / "report.json", {"outcome": "recovered, 2 partitions NOT recovered", "plans": [PLAN]}
    )
    text = client.get(f"/kafkats/run?dag_id={DAG}&run_id=r").text
    assert "<strong>Failed: recovered, 2 partitions NOT recovered.</strong>" in text
    rows = f"plan?dag_id={DAG}&amp;run_id=r&amp;action=blocked"
    assert f'<a href="{rows}">2 rows of the plan are blocked</a>: each says why.' in text


@pytest.mark.parametrize("seen", [True, False])
def test_a_run_that_is_over_and_left_its_reservation_can_be_released(
    client: Any, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seen: bool
) -> None:
    from kafkats_airflow.ui import dags

    (root := tmp_path / "data").mkdir()
    (root / "meta.properties").write_text("version=1\n")
    named = str(root) if seen else "/not/seen/from/here"
    live(folder / DAG / "r", NOW, started={"volumes": {named: "1"}})
    content = {"options": {"Approve": [DIGEST]}, "plans": [PLAN], "run_id": "r"}
    write(folder / DAG / "r" / "question.json", content | {"asked_ms": 7, "until_ms": NOW})

    def page() -> str:
        return str(client.get(f"/kafkats/run?dag_id={DAG}&run_id=r").text)

    if seen:
        now = int(time.time() * 1000)
        area = reservation_area(root)
        reserve(area, f"airflow {DAG} r", now + HOUR_MS, now_ms=now)
    assert 'data-verb="release"' not in page(), "Airflow says that it is active"
    monkeypatch.setattr(dags, "over", frozenset)
    text = page()
    assert f"its reservation is left: <code>{named}</code>." in text
    assert f'data-verb="release" data-key="{now if seen else 7}"' in text
    assert 'data-digest=""' in text and ">Release 1 volume</button>" in text
    assert 'data-verb="undo"' not in text
    if seen:
        release(area)
        assert 'data-verb="release"' not in page()


@pytest.mark.parametrize(
    ("verb", "word", "stage"),
    [
        ("undo", "Undoes", "Apply"),
        ("purge", "Purges", "Purge"),
        ("release", "Releases", "Release"),
    ],
)
def test_the_end_of_a_run_leads_to_that_run(
    client: Any, folder: Path, verb: str, word: str, stage: str
) -> None:
    run = ended(folder, NOW, dag="end_run", run="e", outcome="undone")
    write(run / "report.json", {"outcome": "undone", "verb": verb, "of": f"/runs/{DAG}/r~1"})
    text = client.get("/kafkats/run?dag_id=end_run&run_id=e").text
    link = f'<a href="run?dag_id={DAG}&amp;run_id=r~1">the run r~1 of {DAG}</a>'
    assert f"<dt>{word}</dt><dd>{link}</dd>" in text
    live(run, NOW - 1000, task=verb, job=verb, state="done")
    assert list(stages(run)) == ["Approval", stage, "Report"], (
        "it plans nothing, and proves nothing"
    )


def test_a_rate_of_nothing_is_left_out(client: Any, folder: Path) -> None:
    live(folder / DAG / "r", NOW - 2000, state="done", bytes_per_second=0, of_units=0, units=0)
    text = client.get(f"/kafkats/run?dag_id={DAG}&run_id=r").text
    assert "0\u00a0B/s" not in text
    assert "0 of 0" not in text


def test_units_that_are_only_counted_are_no_bytes(client: Any, folder: Path) -> None:
    live(folder / DAG / "r", NOW - 2000, stage="undo", units=3, of_units=8, bytes=3, of_bytes=8)
    text = client.get(f"/kafkats/run?dag_id={DAG}&run_id=r").text
    assert "3 of 8 units, 3\u00a0min left" in text


def test_the_progress_of_preflight_is_part_of_the_plan(folder: Path) -> None:
    run = folder / "recover_log_dirs" / "r"
    live(run, NOW, task="preflight", job="preflight", state="failed")
    found = stages(run)
    assert "preflight" not in found
    assert [one.job for one in found["Plan"].live] == ["preflight"]
    assert found["Plan"].state == "failed"


def test_a_plan_without_files_changes_nothing(folder: Path) -> None:
    run = folder / DAG / "r"
    plan = PLAN | {"totals": {"files": 0}}
    write(run / "report.json", {"outcome": "nothing to delete", "plans": [plan]})
    assert stages(run)["Plan"].said == "nothing to change"


def test_reservations_are_read_only_of_a_run_that_airflow_says_is_over(
    client: Any, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They lie beside log directories: a disk that hangs is none of a run that runs."""
    from kafkats_airflow.ui import dags
    from kafkats_airflow.ui.reading import ending

    read: list[Path] = []
    monkeypatch.setattr(ending, "held_by", lambda run, holder: read.append(run.folder))
    ended(folder, 1_800_000_000_000, volume("/a"), run="r")
    client.get("/kafkats/run?dag_id=rebuild_time_indexes&run_id=r")
    assert read == []
    monkeypatch.setattr(dags, "over", frozenset)
    client.get("/kafkats/run?dag_id=rebuild_time_indexes&run_id=r")
    assert [one.name for one in read] == ["r"]
