"""The DAG itself: on real damaged directories (test_rebuild_time_indexes_cluster.py: real spark-submits), and its turns with jobs that only pretend."""

from __future__ import annotations

import datetime
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow.parquet as pq
import pytest
from airflow.providers.common.compat.sdk import AirflowFailException
from kafkats_airflow.approvals.asking import PlanApproval
from kafkats_airflow.jobs.applications import changing, planning
from kafkats_airflow.jobs.spark_job import KafkatsJobOperator
from kafkats_airflow.reports.common import UNSAFE, outcome
from kafkats_airflow.runs.folders import run_folder

from kafkats.request import Request
from tests.dags.runs import states
from tests.golden import case, tree

GOLDEN = case("matrix-4.3.1-v2")
DAG = "rebuild_time_indexes"
COUNTED = frozenset({".log", ".index", ".timeindex", ".txnindex", ".snapshot"})
DAMAGED = ["none-ct-0/00000000000000000043.timeindex", "zstd-lat-0/00000000000000000000.timeindex"]
PARAMS = {
    "volumes": [], "topics": "*", "rule": "last-offset", "only_after_unclean_stop": False, "recover": False,
    "need_approval": False, "dry_run": False,
}  # fmt: skip


@pytest.fixture(scope="module")
def volume(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory that lost two time indexes."""
    root = tmp_path_factory.mktemp("broker") / "data"
    root.mkdir()
    GOLDEN.unpack("data", root)
    (root / DAMAGED[0]).unlink()
    (root / DAMAGED[1]).write_bytes(b"")
    return root


def reports(folder: Path) -> list[dict[str, Any]]:
    return [
        json.loads(path.read_text())
        for path in sorted(folder.glob("*/*/report.json"), key=lambda p: p.stat().st_mtime_ns)
    ]


def same_as_kafkas_own(root: Path) -> bool:
    import hashlib

    files = GOLDEN.files("data").items()
    return all(
        hashlib.sha256((root / path).read_bytes()).hexdigest() == sha
        for path, (_, _, sha) in files
        if sha
    )


@pytest.mark.long(3)
@pytest.mark.usefixtures("rendered")
def test_from_damage_to_proof_and_again(
    bag: Any,
    volume: Path,
    policy: Callable[..., Path],
    tmp_path: Path,
    here: list[str],
    answering: dict[str, Any],
) -> None:
    """No logical date, and an approval by Ada; a second run finds nothing and changes nothing."""
    from airflow.models.asset import AssetEvent
    from airflow.models.dagrun import DagRun
    from airflow.utils.session import create_session

    conf = {"policy": str(policy(volume, owner_stopped=True)), "folder": str(tmp_path / "reports")}
    untouched = {
        path: facts
        for path, facts in tree(volume).items()
        if path not in DAMAGED and path.endswith((".log", "index"))
    }
    answering["says"] = "Approve"
    first = bag.dags[DAG].test(run_conf=PARAMS | conf | {"need_approval": True}, logical_date=None)
    assert len(answering["asked"]) == 1
    assert str(first.state) == "success"
    assert first.logical_date is None
    skipped = {task for task, state in states(first).items() if state != "success"}
    assert skipped == {"release", "recover"}
    assert same_as_kafkas_own(volume)
    after = tree(volume)
    assert untouched.items() <= after.items(), "what was not wrong was not touched"

    [report] = reports(tmp_path / "reports")
    assert (report["outcome"], report["files_planned"], report["files_proved_equal"]) == (
        "rebuilt and proved",
        2,
        2,
    )
    folder = Path(report["report"])
    assert pq.read_table(folder / "segments.parquet").num_rows >= 24
    assert pq.read_table(folder / "actions.parquet")["outcome"].to_pylist() == ["done", "done"]
    assert (folder / "health.png").read_bytes().startswith(b"\x89PNG")
    seen = json.loads((folder / "overview.json").read_text())
    sizes = {
        path: path.stat().st_size
        for path in volume.glob("*t-0/*")
        if path.suffix in COUNTED and path.with_suffix(".log").exists()
    }
    (seen_volume,) = seen["volumes"]
    assert (seen["run_id"], seen["failed"]) == (first.run_id, False)
    assert seen_volume["bytes"] == sum(sizes.values())
    assert seen_volume["log_bytes"] == sum(
        size for path, size in sizes.items() if path.suffix == ".log"
    )
    assert "damage" not in seen_volume["kinds"], "as the proof saw it"
    assert sum(seen_volume["magic_bytes"]) <= seen_volume["log_bytes"]
    (undo,) = seen["undo"]
    assert (undo["operation"], undo["until_ms"], set(undo["bytes"])) == (
        "rebuild",
        None,
        {str(volume)},
    )
    with create_session() as session:
        events = session.query(AssetEvent).order_by(AssetEvent.id).all()
        assert events[-1].extra == {
            "volumes": [str(volume)],
            "outcome": "rebuilt and proved",
            "report": str(folder),
        }
    for ti in first.get_task_instances():
        assert (
            len(
                json.dumps(ti.xcom_pull(task_ids=ti.task_id, map_indexes=ti.map_index), default=str)
            )
            < 8000
        ), ti.task_id

    second = bag.dags[DAG].test(run_conf=PARAMS | conf | {"recover": True})
    assert str(second.state) == "success"
    [started] = DagRun.find(dag_id="recover_log_dirs", run_id=f"recover__{second.run_id}")
    same = ("policy", "folder", "volumes", "topics", "rule", "need_approval", "dry_run")
    assert started.conf == {name: (PARAMS | conf)[name] for name in same}
    assert states(second) | {
        "approve": "skipped",
        "apply": "skipped",
        "verify": "skipped",
        "report": "success",
    } == states(second)
    assert reports(tmp_path / "reports")[-1]["outcome"] == "nothing to rebuild"
    assert tree(volume) == after
    assert here == ["plan", "apply", "verify", "plan"]


@pytest.mark.slow(1)
def test_a_corrupt_log_is_blocked_and_the_other_partitions_are_asked_about(
    bag: Any,
    policy: Callable[..., Path],
    tmp_path: Path,
    here: list[str],
    answering: dict[str, Any],
) -> None:
    root = tmp_path / "data"
    root.mkdir()
    GOLDEN.unpack("data", root)
    (root / DAMAGED[0]).unlink()
    log = root / "gzip-ct-0" / f"{0:020d}.log"
    log.write_bytes(log.read_bytes()[:100] + b"?" + log.read_bytes()[101:])
    log.with_suffix(".timeindex").unlink()
    answering["says"] = "Approve"
    conf = {"policy": str(policy(root, owner_stopped=True)), "folder": str(tmp_path / "reports")}
    run = bag.dags[DAG].test(run_conf=PARAMS | conf | {"need_approval": True}, logical_date=None)
    assert here == ["plan", "apply", "verify"]
    assert "| blocked |" in answering["asked"][0]["body"]
    [report] = reports(tmp_path / "reports")
    assert (report["files_planned"], report["files_proved_equal"], report["files_blocked"]) == (
        1,
        1,
        1,
    ), str(run.state)
    assert (root / DAMAGED[0]).exists() and not log.with_suffix(".timeindex").exists()


@pytest.fixture
def pretended(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Iterator[list[tuple[str, Request]]]:
    """The operator without Spark: records what it was to run; plans two files of two, none on /volumes/fine."""
    from kafkats.flow.ending import note_proved
    from kafkats.plans.facts import ACTIONS, SEGMENTS, write_segments, write_table
    from kafkats.plans.files import write_json
    from kafkats.plans.plan import ITEMS, make_plan, write_plan

    ran: list[tuple[str, Request]] = []

    def execute(self: KafkatsJobOperator, context: Any) -> dict[str, Any]:
        request = self.asked(context)
        options = request.options
        ran.append((self.connection, request))
        write_segments(folder := tmp_path / f"{len(ran)}", (SEGMENTS.empty_table(),), {})
        said = {"report": str(folder), "rates": {}}
        if self.job == "plan":
            dirs = [str(one.path) for one in request.log_dirs]
            files = 0 if "/volumes/fine" in dirs else 2
            left = {"danger": 0, "damage": 0}
            totals = {"files": files, "blocked": 0, "write_bytes": 24, "not_repaired": left}
            made = make_plan("rebuild", {"of": dirs}, totals, ITEMS.empty_table())
            out = Path(options["PlanFolder"]["into"], f"plan-{made.digest[:16]}")
            write_plan(made, out)
            return {
                "plan": str(out),
                "digest": made.digest,
                "totals": totals,
                "log_dirs": dirs,
                "seen": said,
                "rates": {},
            }
        if self.job == "apply":
            run = Path(options["Apply"]["run_folder"])
            run.mkdir(parents=True)
            write_table(run / "report.parquet", ACTIONS.empty_table())
            for name in ("run", "report"):
                write_json(run / f"{name}.json", {"exit_code": 0})
        for run in options.get("ProofOptions", {}).get("of_run", ()):
            note_proved(Path(run), files=2, undone=0)
        return said | {"files": 2, "equal": 2}

    monkeypatch.setattr(KafkatsJobOperator, "execute", execute)
    yield ran


def two_volumes(tmp_path: Path) -> Path:
    path = tmp_path / "policy.yaml"
    path.write_text(
        "volumes:\n"
        "  - {broker: '1', path: /volumes/one, connection: host_1, owner_stopped: true}\n"
        "  - {broker: '2', path: /volumes/two, connection: host_2}\n"
        "  - {broker: '3', path: /volumes/fine, connection: host_3}\n"
    )
    return path


def run_pretended(bag: Any, tmp_path: Path, **conf: Any) -> Any:
    given = {
        "policy": str(two_volumes(tmp_path)),
        "folder": str(tmp_path / "r"),
        "need_approval": False,
    }
    return bag.dags[DAG].test(
        run_conf=PARAMS | given | conf
    )  # all of them: the DAG object remembers


@pytest.mark.slow(2)
def test_one_application_per_connection_and_only_where_needed(
    bag: Any, tmp_path: Path, pretended: list[tuple[str, Request]]
) -> None:
    run = run_pretended(bag, tmp_path)
    assert str(run.state) == "success"
    words = [(on, request.verb) for on, request in pretended]
    assert [job for _, job in words] == ["plan"] * 3 + ["apply"] * 2 + ["verify"] * 2
    assert {on for on, job in words if job == "plan"} == {"host_1", "host_2", "host_3"}
    for changing_job in ("apply", "verify"):
        assert {on for on, job in words if job == changing_job} == {"host_1", "host_2"}
    applies = {on: request for on, request in pretended if request.verb == "apply"}
    assert {on: one.options["Vouched"]["owner_stopped"] for on, one in applies.items()} == {
        "host_1": True,
        "host_2": False,
    }
    assert {one.record and one.record.name for one in applies.values()} == {"approval.json"}
    assert reports(tmp_path / "r")[-1]["volumes"] == [
        "/volumes/fine",
        "/volumes/one",
        "/volumes/two",
    ]


@pytest.mark.slow(1)
@pytest.mark.examples(1)
@pytest.mark.parametrize(
    ("conf", "outcome"),
    [
        ({"dry_run": True}, "dry run"),
        ({"volumes": ["/volumes/f*"]}, "nothing to rebuild"),
        ({"volumes": ["3"]}, "nothing to rebuild"),
    ],
)
def test_straight_to_the_report(
    bag: Any,
    tmp_path: Path,
    pretended: list[tuple[str, Request]],
    conf: dict[str, Any],
    outcome: str,
) -> None:
    run = run_pretended(bag, tmp_path, **conf)
    assert str(run.state) == "success"
    assert {request.verb for _, request in pretended} == {"plan"}
    assert reports(tmp_path / "r")[-1]["outcome"] == outcome
    assert states(run)["approve"] == "skipped"


@pytest.mark.slow(2)
def test_a_job_that_fails_fails_the_run_but_not_the_report(
    bag: Any, tmp_path: Path, pretended: list[tuple[str, Request]], monkeypatch: pytest.MonkeyPatch
) -> None:
    from airflow.sdk.exceptions import AirflowFailException

    pretend = KafkatsJobOperator.execute

    def execute(self: KafkatsJobOperator, context: Any) -> dict[str, Any]:
        if self.job == "apply":
            raise AirflowFailException("Locked: held by a broker")
        return pretend(self, context)

    monkeypatch.setattr(KafkatsJobOperator, "execute", execute)
    run = run_pretended(bag, tmp_path)
    assert str(run.state) == "failed"
    assert states(run)["verify"] == "upstream_failed"
    assert reports(tmp_path / "r")[-1]["outcome"] == "not finished"


@pytest.mark.slow(1)
@pytest.mark.parametrize("conf", [{"volumes": ["1", "3"]}, {"dry_run": True}])
def test_a_volume_that_was_not_looked_at_is_not_fine(
    bag: Any,
    tmp_path: Path,
    pretended: list[tuple[str, Request]],
    monkeypatch: pytest.MonkeyPatch,
    conf: dict[str, Any],
) -> None:
    """What the other connections found, nothing at all or a dry run's worth, does not speak for it."""
    from airflow.sdk.exceptions import AirflowFailException

    pretend = KafkatsJobOperator.execute

    def execute(self: KafkatsJobOperator, context: Any) -> dict[str, Any]:
        if self.job == "plan" and self.request["log_dirs"] == ["/volumes/one"]:
            raise AirflowFailException("Vanished: not mounted here")
        return pretend(self, context)

    monkeypatch.setattr(KafkatsJobOperator, "execute", execute)
    run = run_pretended(bag, tmp_path, **conf)
    assert str(run.state) == "failed"
    assert reports(tmp_path / "r")[-1]["outcome"] == "not finished"


@pytest.mark.slow(2)
def test_a_no_is_reported_and_nothing_is_written(
    bag: Any, tmp_path: Path, pretended: list[tuple[str, Request]], monkeypatch: pytest.MonkeyPatch
) -> None:
    def say_no(self: PlanApproval, context: Any) -> Any:
        now = datetime.datetime.now(tz=datetime.UTC)
        said = {
            "chosen_options": ["Reject"],
            "params_input": {},
            "responded_at": now,
            "responded_by_user": None,
        }
        return self.execute_complete(context, said)

    monkeypatch.setattr("kafkats_airflow.airflow_versions.Question.execute", say_no)
    run = run_pretended(bag, tmp_path, need_approval=True)
    assert str(run.state) == "success"
    assert {request.verb for _, request in pretended} == {"plan"}
    assert reports(tmp_path / "r")[-1]["outcome"] == "rejected"


@pytest.mark.slow(1)
def test_params_reach_the_jobs(
    bag: Any, tmp_path: Path, pretended: list[tuple[str, Request]]
) -> None:
    run_pretended(
        bag,
        tmp_path,
        volumes=["1"],
        topics="orders-*",
        rule="first-offset",
        only_after_unclean_stop=True,
    )
    planned, proved = (pretended[n][1].options for n in (0, -1))
    assert planned["Topics"] == proved["Topics"] == {"topics": "orders-*"}
    assert planned["Rebuild"]["rule"] == proved["IndexSettings"]["rule"] == "first-offset"
    assert planned["Rebuild"]["only_after_unclean_stop"]


@pytest.mark.parametrize("conf", [{"rule": "kip33"}, {"volumes": "all"}, {"dry_run": "yes"}])
def test_wrong_params_are_refused_before_the_run(
    bag: Any, tmp_path: Path, conf: dict[str, Any], pretended: list[tuple[str, Request]]
) -> None:
    from airflow.sdk.exceptions import ParamValidationError

    with pytest.raises((ParamValidationError, ValueError)):
        run_pretended(bag, tmp_path, **conf)
    assert not pretended


def planned(folder: Path, files: int) -> dict[str, Any]:
    """A plan's folder in that of a DAG run, and what the job would say of it."""
    from kafkats.plans.plan import ITEMS, make_plan, write_plan

    totals = {
        "files": files,
        "write_bytes": 36,
        "blocked": 1,
        "not_repaired": {"danger": 2, "damage": 0},
    }
    made = make_plan("rebuild", {}, totals, ITEMS.empty_table())
    write_plan(made, out := folder / "group" / f"plan-{made.digest[:16]}")
    return {"plan": str(out), "digest": made.digest, "totals": totals, "log_dirs": ["/a", "/b"]}


def test_approval_waits_for_a_person_when_asked(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    from airflow.sdk.exceptions import TaskAwaitingInput

    asked: list[dict[str, Any]] = []
    monkeypatch.setattr(
        "kafkats_airflow.airflow_versions.upsert_hitl_detail",
        lambda **given: asked.append(given),
    )
    approve = PlanApproval(task_id="approve", subject="Rebuild?")
    folder = run_folder(str(tmp_path), DAG, "run")

    def asking(files: int, *, need: bool) -> Any:
        plan = planned(folder, files)
        ti = SimpleNamespace(
            id="1",
            xcom_pull=lambda task_ids: {"changes": [{"plan": None}, {"plan": plan}]}[task_ids],
        )
        return context({"need_approval": need, "folder": str(tmp_path)}) | {
            "task_instance": ti,
            "ti": ti,
        }

    with pytest.raises(TaskAwaitingInput):
        approve.execute(given := asking(3, need=True))
    plan = given["ti"].xcom_pull(task_ids="changes")[1]["plan"]
    assert asked[0]["subject"] == "Rebuild? Run run"
    row = f"| `/a`, `/b` | 3 | 36 B | 1 | 2 danger | `{plan['digest'][:16]}` | `{plan['plan']}` |"
    assert row in asked[0]["body"]
    assert (asked[0]["options"], asked[0]["defaults"]) == (["Approve", "Reject"], ["Reject"])
    assert json.loads((folder / "question.json").read_text())["options"] == {
        "Approve": [plan["digest"]],
        "Reject": [],
    }
    assert not (folder / "approval.json").exists()
    for given in (asking(3, need=False), asking(0, need=True)):
        assert approve.execute(given)["chosen_options"] == ["Approve"]
        assert len(json.loads((folder / "approval.json").read_text())["digests"]) == 1
    assert len(asked) == 1
    with pytest.raises(TaskAwaitingInput):
        PlanApproval(task_id="forced", subject="Rebuild?", always=True).execute(
            asking(3, need=False)
        )
    assert not (folder / "approval.json").exists(), (
        "a new question takes back the answer to the last"
    )


def test_how_a_run_ended(tmp_path: Path) -> None:
    from kafkats.plans.approval import Approval, write_approval
    from kafkats.plans.files import write_json

    def plan(danger: int, damage: int, files: int = 0) -> dict[str, Any]:
        totals = {"files": files, "not_repaired": {"danger": danger, "damage": damage}}
        return {"plan": str(tmp_path / "group" / "plan"), "digest": "d" * 64, "totals": totals}

    def said(*plans: dict[str, Any], **params: Any) -> str:
        return outcome(tmp_path, PARAMS | params, "rebuild", plans)

    assert said() == "not finished", "planning itself failed"
    assert said(plan(0, 3)) == "nothing to rebuild, damage not repaired: 3 findings"
    assert said(plan(0, 0), plan(1, 0)).endswith(UNSAFE), "a danger must not end green"
    assert said(plan(0, 0, 2), dry_run=True) == "dry run"
    assert said(plan(0, 0, 2)) == "not finished", "nothing was applied"
    run = tmp_path / "group" / ("run-" + "d" * 16)
    run.mkdir(parents=True)
    write_json(run / "run.json", {})
    write_json(run / "report.json", {"exit_code": 0})
    assert said(plan(0, 0, 2)) == "not finished", "and not proved"
    write_json(run / "proof.json", {"files": 2})
    assert said(plan(1, 2, 2)) == f"rebuilt and proved, damage not repaired: 2 findings, {UNSAFE}"
    write_json(run / "report.json", {"exit_code": 3})
    assert said(plan(0, 0, 2)) == "not finished", "applied again since, and refused in part"
    write_json(run / "proof.json", {"files": 1})
    assert said(plan(0, 0, 2)) == "not finished", "what was done is proved, but not all was done"
    assert said(plan(0, 0)) == "rebuilt and proved", "by an earlier try"
    write_json(run / "undone.json", {})
    assert said(plan(0, 0)) == "nothing to rebuild"
    write_approval(tmp_path / "approval.json", Approval("Reject", (), "Ada", "answered by Ada", 1))
    assert said(plan(0, 0, 2)) == "rejected"


def context(params: dict[str, Any], run_id: str = "run") -> Any:
    return {"params": params, "run_id": run_id, "dag": SimpleNamespace(dag_id=DAG)}


def test_volumes_that_do_not_exist_are_an_error(tmp_path: Path) -> None:
    params = PARAMS | {"policy": str(two_volumes(tmp_path)), "folder": str(tmp_path)}
    with pytest.raises(
        AirflowFailException, match="no volume of the policy has a path or broker like '/nowhere'"
    ):
        planning(context(params | {"volumes": ["/nowhere"]}), "rebuild")
    assert changing({"params": params | {"dry_run": True}, "dag_run": None}, [], []) == []


def test_every_try_of_a_run_has_the_same_folder(tmp_path: Path) -> None:
    params = PARAMS | {"policy": str(two_volumes(tmp_path)), "folder": "/reports"}
    once, again = (planning(context(params, "manual__1"), "rebuild") for _ in range(2))
    assert once == again
    folder = once[0]["request"]["options"]["PlanFolder"]["into"]
    assert folder == "/reports/rebuild_time_indexes/manual__1/host_1-owner-stopped"
