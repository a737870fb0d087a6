"""An answer counts only for the plan that was shown: it names the question's digest."""

from __future__ import annotations

import datetime
import json
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.api_fastapi.execution_api.datamodels.hitl import HITLDetailRequest
from airflow.sdk.exceptions import TaskAwaitingInput
from airflow.sdk.execution_time.comms import CreateHITLDetailPayload
from kafkats_airflow.approvals import answers
from kafkats_airflow.approvals.asking import PlanApproval
from kafkats_airflow.approvals.guards import NO, NOTHING, YES, GuardApproval
from markdown_it import MarkdownIt

from kafkats.counts import size_text
from kafkats.plans.facts import write_table
from kafkats.plans.plan import ITEMS, make_plan, read_plan, write_plan
from tests.builders.findings import finding, segments
from tests.dags.runs import DAMAGED, rebuild, report, retain

TOTALS: Any = {
    "files": 1, "segments": 1, "write_bytes": 8, "freed_bytes": 8, "blocked": 0, "not_repaired": {},
}  # fmt: skip
PLAN = make_plan("rebuild", {}, TOTALS, ITEMS.empty_table())
SHOWN, OTHER = PLAN.digest, "cd" * 32
ADA = {"id": "7", "name": "Ada"}


@pytest.fixture
def context(tmp_path: Path) -> Any:
    """A task of a DAG run, of which one plan is on disk."""
    write_plan(PLAN, folder := tmp_path / "dag" / "run" / "plan")
    plan = {"plan": str(folder), "digest": SHOWN, "totals": TOTALS, "log_dirs": ["/v"]}
    ti = SimpleNamespace(
        id="1", xcom_pull=lambda task_ids: [{"plan": plan}], xcom_push=lambda *_: None
    )
    dag = SimpleNamespace(dag_id="dag")
    return {
        "params": {"folder": str(tmp_path), "need_approval": True},
        "run_id": "run", "dag": dag, "ti": ti, "task_instance": ti, "dag_run": None,
    }  # fmt: skip


@pytest.fixture
def upserts(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """What Airflow is told to ask, as its server takes it."""
    told: list[dict[str, Any]] = []

    def upsert(*, ti_id: str, **asked: Any) -> None:
        sent = asked | {"assigned_users": []}
        payload = CreateHITLDetailPayload(ti_id=uuid.UUID(int=int(ti_id)), **sent)
        HITLDetailRequest.model_validate_json(payload.model_dump_json())
        told.append(asked)

    for module in ("kafkats_airflow.airflow_versions", "kafkats_airflow.approvals.asking"):
        monkeypatch.setattr(f"{module}.upsert_hitl_detail", upsert)
    return told


def approval() -> PlanApproval:
    """The operator of a task anew: the answer comes to another process than the question."""
    return PlanApproval(task_id="approve", subject="Rebuild?")


def answer(option: str, digest: str | None, by: dict[str, str] | None = ADA) -> dict[str, Any]:
    form = {} if digest is None else {"digest": digest}
    now = datetime.datetime.now(tz=datetime.UTC)
    return {
        "chosen_options": [option], "params_input": form,
        "responded_by_user": by, "responded_at": now,
    }  # fmt: skip


def question(context: Any) -> dict[str, Any]:
    path = Path(context["params"]["folder"], "dag", "run", "question.json")
    return dict(json.loads(path.read_text()))


@pytest.mark.parametrize(
    ("given", "taken"),
    [
        (answer("Approve", SHOWN), True),
        (answer("Approve", f" {SHOWN[:16].upper()} "), True),
        (answer("Approve", SHOWN[:7]), False),
        (answer("Approve", OTHER), False),
        (answer("Approve", f"{SHOWN}0"), False),
        (answer("Approve", ""), False),
        (answer("Approve", None), False),
        (answer("Reject", OTHER), True),
        (answer("Reject", None), True),
        (answer("Approve", OTHER, by=None), True),
    ],
)
def test_which_answers_are_taken(
    context: Any, upserts: list[dict[str, Any]], given: dict[str, Any], taken: bool
) -> None:
    """A no lets nothing be applied; an answer of nobody is the default after the deadline."""
    with pytest.raises(TaskAwaitingInput):
        approval().execute(context)
    assert (answers.not_taken(context, answers.answer_in(given)) == "") == taken


def test_an_answer_to_another_plan_leaves_the_question_open(
    context: Any, upserts: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(TaskAwaitingInput):
        approval().execute(context)
    hour_later_ns = time.time_ns() + 3_600_000_000_000
    monkeypatch.setattr("kafkats.clock.time.time_ns", lambda: hour_later_ns)
    with pytest.raises(TaskAwaitingInput):
        approval().execute_complete(context, answer("Approve", None))
    with pytest.raises(TaskAwaitingInput) as open_still:
        approval().execute_complete(context, answer("Approve", OTHER))
    left = datetime.timedelta(milliseconds=question(context)["until_ms"] - hour_later_ns // 10**6)
    assert open_still.value.timeout == left, "the deadline is that of the question"
    assert len(upserts) == 3, "each after the first takes Airflow's record of the answer away"
    record = Path(context["params"]["folder"], "dag", "run", "approval.json")
    assert not record.exists()

    approval().execute_complete(context, answer("Approve", SHOWN))
    assert json.loads(record.read_text())["digests"] == [SHOWN]


def test_a_question_of_an_earlier_version_is_answered_as_before(
    context: Any, upserts: list[dict[str, Any]]
) -> None:
    folder = Path(context["params"]["folder"], "dag", "run")
    (folder / "question.json").write_text(json.dumps({"options": {"Approve": [SHOWN]}}))
    assert answers.not_taken(context, answers.answer_in(answer("Approve", None))) == ""


def test_the_file_of_a_question_says_who_may_answer_and_what_counts_without(
    context: Any, upserts: list[dict[str, Any]]
) -> None:
    asking = approval()
    asking.assigned_users = [{"id": "7", "name": "Ada"}]
    with pytest.raises(TaskAwaitingInput):
        asking.execute(context)
    asked = question(context)
    assert (asked["digest"], asked["default"], asked["task_id"]) == (SHOWN, "Reject", "approve")
    assert (asked["assigned"], asked["told"]) == ([ADA], [])
    [sent] = upserts
    assert sent["params"]["digest"]["value"] == SHOWN, "the field of Airflow's own form"


HEARD: list[str] = []


def hear(context: Any) -> None:
    """A notifier of a deployment."""
    HEARD.append(context["kafkats"])


def fail(context: Any) -> None:
    """Another one."""
    raise OSError("no network")


@pytest.mark.parametrize(("name", "tells"), [("hear", True), ("fail", False), ("missing", False)])
def test_the_notifier_is_told_of_a_question(
    context: Any,
    upserts: list[dict[str, Any]],
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    tells: bool,
) -> None:
    """The question is asked also if the notifier fails, and says that nobody was told."""
    HEARD.clear()
    monkeypatch.setattr("kafkats_airflow.settings.NOTIFIER", f"{__name__}.{name}")
    with pytest.raises(TaskAwaitingInput):
        approval().execute(context)
    assert question(context)["told"] == [f"{__name__}.{name}"] * tells
    assert len(HEARD) == tells and len(upserts) == 1
    assert all("/plugin/kafkats/kafkats/plan?dag_id=dag&run_id=run" in one for one in HEARD)


@pytest.mark.parametrize(
    ("run_type", "need_approval", "asks"),
    [
        ("manual", True, True),
        ("asset_triggered", True, True),
        ("manual", False, False),
        ("scheduled", True, False),
        ("backfill", True, False),
    ],
)
def test_a_retention_that_no_guard_stops_asks_a_person_unless_it_is_scheduled(
    context: Any, upserts: list[dict[str, Any]], run_type: str, need_approval: bool, asks: bool
) -> None:
    """Who triggers it by hand reads in the form that a person is asked before anything is deleted."""
    [work] = context["ti"].xcom_pull(task_ids="changes")
    plan = work["plan"]
    context["ti"].xcom_pull = lambda task_ids: [plan]
    context["params"] |= {"need_approval": need_approval, "dry_run": False}
    context["dag_run"] = SimpleNamespace(run_type=run_type)
    context["data_interval_end"] = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
    task = GuardApproval(task_id="approve", subject="Delete more than the guards let?")
    if asks:
        with pytest.raises(TaskAwaitingInput):
            task.execute(context)
        [asked] = upserts
        assert (asked["options"], asked["defaults"]) == ([NO, NOTHING], [NOTHING])
        assert asked["subject"] == "Delete the expired segments? Run run"
        assert "Without an answer the run deletes nothing" in asked["body"]
        assert question(context)["default"] == NOTHING
    else:
        assert task.execute(context)["chosen_options"] == [NO]
        assert upserts == []
        record = Path(context["params"]["folder"], "dag", "run", "approval.json")
        assert json.loads(record.read_text())["digests"] == [SHOWN]


@pytest.mark.parametrize("kind", [PlanApproval, GuardApproval])
def test_the_task_has_a_link_to_the_plan(
    kind: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIRFLOW__API__BASE_URL", "https://a.example/air")
    task = kind(task_id="approve", subject="?")
    [link] = task.operator_extra_links
    key = SimpleNamespace(dag_id="dag", run_id="manual__2026-01-01T00:00:00+00:00")
    assert link.get_link(task, ti_key=key) == (
        "https://a.example/air/plugin/kafkats/air/kafkats/plan"
        "?dag_id=dag&run_id=manual__2026-01-01T00%3A00%3A00%2B00%3A00"
    )


REPORTING = {"export_offsets": "write", "clean_reports": "remove"}
"""The task that writes report.json, where it is not called report."""


def test_every_task_that_reports_has_a_link_to_the_page_of_its_run(bag: Any) -> None:
    for dag_id, dag in bag.dags.items():
        task = dag.get_task(REPORTING.get(dag_id, "report"))
        assert [link.name for link in task.operator_extra_links] == ["Results"], dag_id
        if "approve" in dag.task_dict:
            assert [link.name for link in dag.get_task("approve").operator_extra_links] == ["Plan"]


def cells(body: str) -> list[list[str]]:
    """The tables of a text, row by row."""
    page = MarkdownIt("commonmark").enable("table")
    rows: list[list[str]] = []
    for token in page.parse(body):
        if token.type == "tr_open":
            rows.append([])
        elif token.type == "inline" and rows and token.level > 2:
            rows[-1].append(token.content)
    return rows


def test_a_question_names_the_danger_of_its_look_and_the_days_to_undo(
    context: Any, upserts: Any
) -> None:
    seen = Path(context["params"]["folder"], "dag", "run", "before")
    seen.mkdir()
    dangers = [finding("bad-offset", "x.log"), finding("missing-index", "x.index")]
    write_table(seen / "segments.parquet", segments(("t-0", 0, dangers)))
    context["params"]["undo_days"] = 7
    asking = approval()
    with pytest.raises(TaskAwaitingInput):
        asking.execute(context)
    body = asking.body or ""
    assert "DANGER was found when it was planned: 1 bad-offset. Keep these brokers stopped" in body
    assert "is not known" not in body
    assert "- Can it be undone? For 7 days after it ends: the old files are kept" in body
    asked = question(context)
    assert asked["undo_days"] == 7 and asked["plans"][0]["danger"] == {"bad-offset": 1}
    (seen / "segments.parquet").unlink()
    (asking := approval()).body = ""
    with pytest.raises(TaskAwaitingInput):
        asking.execute(context)
    body = asking.body or ""
    assert "- Danger on the disk is not known: no look that can be read tells it." in body


@pytest.mark.slow(2)
def test_a_question_shows_rows_with_their_reasons(
    bag: Any, damaged: Path, here: list[str], answering: dict[str, Any]
) -> None:
    answering["says"] = "Approve"
    run = rebuild(bag, damaged)
    [ti] = [ti for ti in run.get_task_instances() if ti.task_id == "report"]
    link = str(ti.xcom_pull(task_ids="report", key="_link_ResultsLink"))
    assert link.startswith("/plugin/kafkats/kafkats/run?dag_id=rebuild_time_indexes&run_id=")
    assert report(damaged)["outcome"] == "rebuilt and proved"
    [asked] = answering["asked"]
    head = ["partition", "file", "action", "reason", "bytes before", "bytes after"]
    rows = cells(asked["body"])
    first = rows[rows.index(head) + 1 :]
    names = {Path(one).parts for one in DAMAGED}
    assert {(row[0].strip("`"), row[1].strip("`")) for row in first} == names
    assert {row[4] for row in first} == {"no file", "0 B"}
    assert all(row[3].strip("`") for row in first)
    [plan] = report(damaged)["plans"]
    segments = (
        sum(
            file.stat().st_size
            for suffix in ("log", "index", "timeindex", "txnindex", "snapshot")
            for file in damaged.glob(f"*/*.{suffix}")
            if file.with_suffix(".log").exists() and file.parent.name != "__cluster_metadata-0"
        )
        - plan["totals"]["write_bytes"]
    )  # what was on the disk before the rebuild
    said = asked["body"].partition("\n\n")[0].splitlines()
    assert said[0].startswith("- `Approve`: Rebuild 2 files in 2 partitions: ")
    assert said[0].endswith(f"to write; these volumes hold {size_text(segments)}.")
    assert plan["on_disk"] == segments
    assert said[1] == "- `Reject`: nothing is written."
    assert f"Log directories: `{damaged}` of broker" in asked["body"]
    assert "- The brokers of these log directories must be stopped: what a broker" in asked["body"]
    assert "- Can it be undone? Until a person purges" in asked["body"]
    assert "Who may answer: everybody who may edit the runs of this DAG." in asked["body"]
    assert f"`{plan['digest'][:16]}`" in asked["body"].rpartition("\n")[2]
    assert "(/plugin/kafkats/kafkats/plan?dag_id=rebuild_time_indexes&run_id=" in asked["body"]


@pytest.mark.slow(2)
def test_a_long_plan_shows_its_first_rows(
    bag: Any, volume: Path, here: list[str], answering: dict[str, Any]
) -> None:
    """What the guards keep is asked about: the rows are those of the plan beyond them."""
    guarded = {
        "time-*": {"cleanup.policy": "delete", "retention.ms": 1, "kafkats.guard.max.share": 0.01}
    }
    answering |= {"says": YES}
    retain(bag, volume, guarded, need_approval=True)
    [asked] = answering["asked"]
    assert asked["options"] == [YES, NO, NOTHING]
    rows = [row for row in cells(asked["body"]) if len(row) == 6]
    plan = read_plan(Path(report(volume)["plans"][0]["plan"]))
    logs = [item for item in plan.items.to_pylist() if item["file"].endswith(".log")]
    assert 2 <= len(rows) <= 11
    assert rows[1][0].strip("`") == logs[0]["partition_dir"]
    assert rows[1][5] == "gone"
    assert ("and more" in asked["body"]) == (len(plan.items) > len(rows) - 1)
