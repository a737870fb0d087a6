"""The DAG of migrations: all phases on real directories with the real jobs, and its turns with jobs that only pretend."""

from __future__ import annotations

import datetime
import hashlib
import itertools
import json
import os
import signal
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml
from airflow.providers.common.compat.sdk import AirflowFailException, AirflowSkipException
from airflow.sdk.exceptions import TaskAwaitingInput
from kafkats_airflow.approvals import questions
from kafkats_airflow.approvals.asking import PlanApproval
from kafkats_airflow.approvals.canary import CanaryApproval
from kafkats_airflow.jobs.plan_job import PlanJobOperator
from kafkats_airflow.jobs.spark_job import KafkatsJobOperator
from kafkats_airflow.jobs.write_job import WriteJobOperator
from kafkats_airflow.reports import migration as migration_reports
from kafkats_airflow.runs import steps
from kafkats_airflow.runs.folders import run_of
from kafkats_airflow.tasks import migration

from kafkats.cli import main
from kafkats.flow import applying
from kafkats.flow.ending import note_proved
from kafkats.formats.dispatch import batches
from kafkats.migration import ledger, phases
from tests.crash.real import fork
from tests.golden import case, tree

DAG = "migrate_message_format"
Given = dict[str, Any]
GOLDEN = case("matrix-0.10.2.2-v0")
PARAMS = {
    "volumes": [], "from_magic": 0, "to_magic": 2, "compression_type": "producer", "rule": "last-offset", "accept_loss": [],
    "attested_by": None, "need_approval": False, "dry_run": False, "ledger": None,
}  # fmt: skip


ADA = {"id": "7", "name": "Ada"}


def states(run: Any) -> dict[str, str]:
    """Task -> state; of a mapped task the states of all its instances."""
    found: dict[str, set[str]] = {}
    for ti in run.get_task_instances():
        found.setdefault(ti.task_id, set()).add(str(ti.state))
    return {task: " ".join(sorted(each)) for task, each in found.items()}


def last_report(folder: Path) -> dict[str, Any]:
    found = [json.loads(path.read_text()) for path in folder.glob("*/*/report.json")]
    return dict(max(found, key=lambda report: report.get("times_ms", [0, 0])[1]))


def ledger_at(folder: Path) -> list[tuple[str, str, str]]:
    return [
        (entry.event, entry.broker, entry.phase)
        for entry in ledger.read(folder / "ledger.jsonl").entries
    ]


def write_policy(path: Path, volumes: list[dict[str, Any]]) -> Path:
    path.write_text(yaml.safe_dump({"volumes": volumes}))
    return path


# With real jobs


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two stopped brokers of magic 0."""
    home = tmp_path_factory.mktemp("cluster")
    for broker in ("1", "2"):
        (home / broker).mkdir()
        GOLDEN.unpack("data", home / broker)
    write_policy(home / "policy.yaml", [
        {"broker": broker, "path": str(home / broker), "owner_stopped": True} for broker in ("1", "2")
    ])  # fmt: skip
    return home


def magics(root: Path) -> set[int]:
    return {batch.magic for log in root.glob("*/*.log") for batch in batches(log.read_bytes())}


def as_kafka_left_it(root: Path) -> bool:
    files = GOLDEN.files("data").items()
    return all(
        hashlib.sha256((root / path).read_bytes()).hexdigest() == sha256
        for path, (*_, sha256) in files
        if sha256
    )


@pytest.fixture
def submitted() -> set[str]:
    """plan and apply are submitted in test_rebuild_time_indexes_cluster.py."""
    return {"certify", "undo"}


@pytest.mark.slow(22)
@pytest.mark.usefixtures("rendered")
def test_phase_1_canary_phase_2_and_back(bag: Any, cluster: Path, here: list[str]) -> None:
    """Each phase a run; no logical date; the canary's yes is given when the run is over, as on the command line."""
    from airflow.models.asset import AssetEvent
    from airflow.utils.session import create_session

    folder = cluster / "reports"

    def phase(name: str, **conf: Any) -> dict[str, Any]:
        places = {"policy": str(cluster / "policy.yaml"), "folder": str(folder), "phase": name}
        run = bag.dags[DAG].test(run_conf=PARAMS | places | conf, logical_date=None)
        assert str(run.state) == "success", states(run)
        assert run.logical_date is None
        for ti in run.get_task_instances():
            said = json.dumps(
                ti.xcom_pull(task_ids=ti.task_id, map_indexes=ti.map_index), default=str
            )
            assert len(said) < 8000, ti.task_id
        return last_report(folder)

    untouched = tree(cluster / "2")
    first = phase("phase-1", attested_by="the tests")
    assert (first["outcome"], first["magic_bytes"]["after"][1:]) == ("certified", [0, 0])

    canary = phase("canary", volumes=["1"])
    assert canary["outcome"] == "converted and proved"
    assert canary["magic_bytes"]["after"][:2] == [0, 0]
    [proof] = canary["parity"]
    assert (proof["logs"], proof["records"], proof["before"]) == (
        7,
        len(GOLDEN.records()),
        proof["after"],
    )
    assert [who["versions"] for who in canary["loses_zero_copy"]] == ["0-1", "2-3"]
    assert magics(cluster / "1") == {2}
    assert tree(cluster / "2") == untouched, "the others stay as they are"

    second = phase("phase-2")
    assert (second["outcome"], second["volumes"]) == ("converted and proved", [str(cluster / "2")])
    report = Path(second["report"])
    assert pq.read_table(report / "forecast.parquet")["action"].to_pylist().count("convert") == 7
    logs = [
        row
        for row in pq.read_table(report / "actions.parquet").to_pylist()
        if row["file"].endswith(".log")
    ]
    assert all(row["parity_before"] == row["parity_after"] != "" for row in logs)
    for picture in ("formats", "formats-before", "burn-down", "forecast"):
        assert (report / f"{picture}.png").read_bytes().startswith(b"\x89PNG")
    points = json.loads((report / "burn-down.json").read_text())["points"]
    assert points[0]["bytes"][0] > 0
    assert points[-1]["bytes"][:2] == [0, 0] < points[-1]["bytes"]

    back = phase("rollback", volumes=["2"])
    assert back["outcome"] == "undone"
    assert as_kafka_left_it(cluster / "2")
    assert magics(cluster / "1") == {2}
    status = {row["broker"]: row["status"] for row in back["brokers"]}
    assert status == {"1": "approved", "2": "certified"}
    with create_session() as session:
        event = session.query(AssetEvent).order_by(AssetEvent.id.desc()).first()
        assert event.extra["volumes"] == [str(cluster / "2")]


# With jobs that pretend


class Pretended:
    """The operator without Spark: what it ran, and what its looks find."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.number = itertools.count()
        self.ran: list[tuple[str, Given]] = []
        self.files = 3
        self.blocked = 0
        self.stray = False
        self.certified = True
        self.undo = True
        self.equal = True
        self.dead = ""

    def jobs(self) -> list[str]:
        return [job for job, _ in self.ran]

    def run(self, job: str, args: Given) -> dict[str, Any]:
        self.ran.append((job, args))
        do = {
            "census": self.census,
            "plan": self.plan,
            "apply": self.apply,
            "undo": self.undone,
            "certify": self.certify,
        }
        return {"rates": {}, **do[job](args)}

    def census(self, args: Given) -> dict[str, Any]:
        return {"log_dirs": args["log_dirs"], "census": self.counted()}

    def counted(self) -> dict[str, Any]:
        from kafkats.migration.census import CENSUS
        from kafkats.plans.facts import write_table

        report = self.folder / f"census-{next(self.number)}"
        report.mkdir()
        write_table(report / "census.parquet", CENSUS.empty_table())
        return {"report": str(report)}

    def plan(self, args: Given) -> dict[str, Any]:
        from kafkats.migration.forecast import FORECAST
        from kafkats.plans.facts import SEGMENTS, write_segments, write_table
        from kafkats.plans.plan import ITEMS, make_plan, write_plan

        said = {"log_dirs": args["log_dirs"], "census": self.counted()}
        totals = {"files": self.files, "blocked": self.blocked, "write_bytes": 7, "losses": {}}
        if self.dead in args["log_dirs"]:
            said["unreachable"] = [{"log_dir": self.dead, "error": f"{self.dead}: does not exist"}]
            totals["files"] = 0
        if self.undo and (runs := args.get("runs")):
            return said | {"undo": runs[:1], "plan": runs[0], "digest": "u" * 64, "totals": totals}
        if args.get("only_newer"):
            totals["files"] = 2 if self.stray else 0
            said |= self.certificate(args["certificate_folder"], certified=not self.stray)
        into, report = Path(args["into"]), Path(args["report"])
        made = make_plan("migrate", {"into": str(into)}, totals, ITEMS.empty_table())
        write_plan(made, out := into / f"plan-{made.digest[:16]}")
        write_table(out / "forecast.parquet", FORECAST.empty_table())
        write_segments(report, (SEGMENTS.empty_table(),), {})
        return said | {
            "plan": str(out),
            "digest": made.digest,
            "totals": totals,
            "seen": {"report": str(report)},
        }

    def certificate(self, folder: str, *, certified: bool) -> dict[str, Any]:
        bounds = {"min_magic": 2, "max_magic": 0}  # each phase takes the one that it needs
        said = {
            "certificate": folder if certified else "",
            "certificate_digest": "c" * 64,
            "statement": "seen",
        }
        return {"certified": certified, **said, **bounds}

    def apply(self, args: Given) -> dict[str, Any]:
        from kafkats.plans.facts import ACTIONS, write_table
        from kafkats.plans.files import write_json

        run = Path(args["run_folder"])
        run.mkdir(parents=True, exist_ok=True)
        row = {
            "log_dir": "/v",
            "partition_dir": "a-0",
            "file": "00000000000000000000.log",
            "outcome": "done",
            "records": 5,
        }
        row |= {"parity_before": "p", "parity_after": "p" if self.equal else "q"}
        write_table(run / "report.parquet", pa.Table.from_pylist([row], schema=ACTIONS))
        for name in ("run", "report"):
            write_json(run / f"{name}.json", {"exit_code": 0, "digest": "d" * 64})
        into = str(Path(args["plan"]).parent)
        look = next(
            given for job, given in reversed(self.ran) if job == "plan" and given["into"] == into
        )
        self.tell(look, "started", run.name, folder=str(run))
        self.tell(
            look,
            "converted-back" if look["phase"] == "rollback" else "converted",
            run.name,
        )
        return {"run": str(run)}

    def undone(self, args: Given) -> dict[str, Any]:
        look = next(given for job, given in reversed(self.ran) if job == "plan")
        self.tell(look, "undone", Path(args["undone"][0]).name)
        return self.certificate(args["output"], certified=True) | {
            "census": self.counted(),
            "log_dirs": ["/v"],
        }

    def certify(self, args: Given) -> dict[str, Any]:
        said = self.certificate(args["output"], certified=self.certified)
        for run in args.get("of_run", ()):
            note_proved(Path(run), files=1, undone=0)
        return said | {"census": self.counted(), "log_dirs": args["log_dirs"]}

    def tell(self, look: Given, event: str, run_id: str, **details: Any) -> None:
        step = {
            "broker": look["broker"],
            "phase": look["phase"],
            "check": phases.check,
        }
        details = {"run_id": run_id, **details}
        ledger.append(look["ledger"], event, by="job", now_ms=1, details=details, **step)


def given(operator: KafkatsJobOperator, context: Any) -> Given:
    """What a job was asked for: options by name, with log directories, plan and runs."""
    request = operator.asked(context)
    found: Given = {name: value for one in request.options.values() for name, value in one.items()}
    return found | {
        "log_dirs": [str(one.path) for one in request.log_dirs],
        "undone": [str(one.folder) for one in request.runs],
        "plan": str(request.plan.folder) if request.plan else "",
    }


@pytest.fixture
def pretended(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Pretended]:
    jobs = Pretended(tmp_path)
    monkeypatch.setattr(
        KafkatsJobOperator,
        "execute",
        lambda self, context: jobs.run(self.job, given(self, context)),
    )
    for picture in ("plot_formats", "plot_burn_down", "plot_forecast"):  # the real run draws them
        monkeypatch.setattr(f"kafkats.migration.plot.{picture}", lambda *given: given[-1].touch())
    yield jobs


def conf_of(tmp_path: Path, phase: str, conf: dict[str, Any]) -> dict[str, Any]:
    policy = write_policy(tmp_path / "policy.yaml", [
        {"broker": "1", "path": "/volumes/1a"}, {"broker": "1", "path": "/volumes/1b"},
        {"broker": "2", "path": "/volumes/2"}, {"broker": "3", "path": "/volumes/3", "owner_stopped": True},
    ])  # fmt: skip
    return PARAMS | {"policy": str(policy), "folder": str(tmp_path / "r"), "phase": phase} | conf


def run(bag: Any, tmp_path: Path, phase: str, **conf: Any) -> Any:
    return bag.dags[DAG].test(run_conf=conf_of(tmp_path, phase, conf))


class Instance(dict[str, Any]):
    """What a task instance is to the report and the approval: what tasks gave back."""

    task_id, map_index = "job", 0

    def xcom_pull(self, task_ids: str, key: str = "return_value") -> Any:
        return self.get(task_ids) if key == "return_value" else None

    def xcom_push(self, key: str, value: Any) -> None: ...

    def get_task_states(self, **_: Any) -> dict[str, Any]:
        return {}


def reached(jobs: Pretended, tmp_path: Path, *wanted: tuple[str, dict[str, Any]]) -> str:
    """Goes through phases as the DAG does, task by task, without Airflow around them; the last one's outcome."""
    for phase, conf in wanted:
        dag_run = SimpleNamespace(start_date=datetime.datetime.now(tz=datetime.UTC))
        context: Any = {
            "params": conf_of(tmp_path, phase, conf),
            "run_id": f"run-{next(jobs.number)}",
            "ti": Instance(),
            "task_instance": SimpleNamespace(id="1"),
            "dag": SimpleNamespace(dag_id=DAG),
        }
        context |= {"dag_run": dag_run, "outlet_events": {"asset": SimpleNamespace()}}
        asked = migration.gate(context)
        stages: dict[str, Any] = {
            "look": [jobs.run(**asked_of(one["look"], context, PlanJobOperator)) for one in asked]
        }
        work = context["ti"]["changes"] = migration.changing(context, asked, stages["look"])
        stages["convert"] = [
            jobs.run(**asked_of(one["convert"], context, WriteJobOperator))
            for one in work
            if one["convert"]
        ]
        stages["parity"] = migration.parity(context, work)
        stages["certify"] = [
            jobs.run(**asked_of(migration.to_certify(one), context, KafkatsJobOperator))
            for one in work
            if one["certify"]
        ]
        brokers = (
            migration.record(context, work, stages["convert"], stages["certify"]) if work else None
        )
        said = context["ti"]["report"] = migration_reports.report(
            context, "asset", asked, brokers, stages
        )
        with suppress(AirflowSkipException):
            CanaryApproval(task_id="approve_canary", subject="?").execute(context)
    return str(said["outcome"])


def asked_of(arguments: Any, context: Any, made: type[KafkatsJobOperator]) -> dict[str, Any]:
    operator = made(task_id="job", **arguments)
    return {"job": operator.job, "args": given(operator, context)}


PHASE_1 = ("phase-1", {"attested_by": "ops"})
CANARY = ("canary", {"volumes": ["1"]})
PHASE_2 = ("phase-2", {})


def test_the_whole_way_and_each_broker_once(tmp_path: Path, pretended: Pretended) -> None:
    reached(pretended, tmp_path, PHASE_1)
    assert pretended.jobs() == ["plan"] * 3, "one look per broker certifies as well"
    assert all(args["only_newer"] and args["to_magic"] == 0 for _, args in pretended.ran)
    reached(pretended, tmp_path, CANARY)
    assert pretended.jobs()[3:] == ["plan", "apply", "certify"]
    assert pretended.ran[-1][1]["log_dirs"] == ["/volumes/1a", "/volumes/1b"], (
        "all volumes of the broker"
    )
    assert all(args["min_magic"] == 2 for job, args in pretended.ran if job == "certify")
    for broker in ("2", "3"):
        reached(pretended, tmp_path, PHASE_2)
        assert last_report(tmp_path / "r")["volumes"] == [f"/volumes/{broker}"]
    assert pretended.ran[-2][1]["owner_stopped"]
    before = ledger_at(tmp_path / "r")
    assert [event for event, broker, _ in before if broker == "2"] == [
        "attest", "certified", "started", "converted", "verified", "certified",
    ]  # fmt: skip
    assert reached(pretended, tmp_path, PHASE_2) == "no broker is left for this phase"
    assert ledger_at(tmp_path / "r") == before
    attested = {
        entry.by
        for entry in ledger.read(tmp_path / "r" / "ledger.jsonl").entries
        if entry.event == "attest"
    }
    assert attested == {"ops"}


@pytest.mark.parametrize(
    ("before", "phase", "conf", "why"),
    [
        ([], "phase-2", {}, "no migration has begun"),
        ([], "canary", {"volumes": ["1"]}, "no migration has begun"),
        ([], "rollback", {"volumes": ["1"]}, "no migration has begun"),
        ([], "phase-1", {}, "nobody has attested"),
        ([PHASE_1], "phase-2", {}, "there is no canary"),
        ([PHASE_1], "canary", {}, "canary is for one broker at a time"),
        ([PHASE_1], "canary", {"volumes": ["*"]}, "one broker at a time"),
        ([PHASE_1], "rollback", {"volumes": ["1"]}, "nothing to roll back"),
        ([PHASE_1], "canary", {"volumes": ["1"], "to_magic": 1}, "is from magic 0 to 2"),
        ([PHASE_1, CANARY], "canary", {"volumes": ["2"]}, "is the canary"),
        ([PHASE_1, CANARY], "phase-1", {"volumes": ["1"]}, "only a rollback"),
    ],
)
def test_out_of_order_is_refused_before_anything_is_looked_at(
    tmp_path: Path, pretended: Pretended, before: Any, phase: str, conf: dict[str, Any], why: str
) -> None:
    reached(pretended, tmp_path, *before) if before else None
    pretended.ran.clear()
    with pytest.raises(AirflowFailException, match=why):
        reached(pretended, tmp_path, (phase, conf))
    assert pretended.ran == []


@pytest.mark.parametrize(
    ("volumes", "why"),
    [
        ([{"path": "/v"}], "needs its broker's name"),
        (
            [{"path": "/v", "broker": "1"}, {"path": "/w", "broker": "1", "connection": "c"}],
            "the same connection",
        ),
    ],
)
def test_a_policy_that_cannot_be_gone_through_broker_by_broker(
    tmp_path: Path, pretended: Pretended, volumes: list[dict[str, Any]], why: str
) -> None:
    policy = str(write_policy(tmp_path / "other.yaml", volumes))
    with pytest.raises(AirflowFailException, match=why):
        reached(pretended, tmp_path, ("phase-1", {"attested_by": "ops", "policy": policy}))


@pytest.mark.slow(2)
def test_a_refusal_is_the_end_of_the_run(bag: Any, tmp_path: Path, pretended: Pretended) -> None:
    refused = run(bag, tmp_path, "canary", volumes=["1"])
    assert str(refused.state) == "failed"
    assert states(refused)["gate"] == "failed", "no second try"
    assert last_report(tmp_path / "r")["outcome"] == "not finished"


@pytest.mark.parametrize(
    ("phase", "conf"),
    [("census", {}), ("canary", {"dry_run": True}), ("rollback", {"dry_run": True})],
)
def test_looking_needs_no_ledger_and_leaves_none(
    tmp_path: Path, pretended: Pretended, phase: str, conf: dict[str, Any]
) -> None:
    assert reached(pretended, tmp_path, (phase, conf)) == ("dry run" if conf else "census")
    assert pretended.jobs() == ["plan" if conf else "census"] * 3
    assert not any("ledger" in args or "runs" in args for _, args in pretended.ran)
    assert not (tmp_path / "r" / "ledger.jsonl").exists()


@pytest.mark.slow(1)
def test_a_scheduled_run_only_counts(bag: Any, tmp_path: Path, pretended: Pretended) -> None:
    done = run(bag, tmp_path, "census")
    assert str(done.state) == "success"
    assert {task for task, state in states(done).items() if state == "success"} == {
        "gate",
        "look",
        "changes",
        "report",
    }
    assert states(done)["release"] == "skipped", "nothing was reserved"


@pytest.mark.slow(1)
def test_strays_are_converted_back_and_certified_after(
    bag: Any, tmp_path: Path, pretended: Pretended
) -> None:
    pretended.stray = True
    done = run(bag, tmp_path, "phase-1", attested_by="ops", volumes=["2"])
    assert str(done.state) == "success"
    assert set(states(done).values()) == {"success", "skipped"}
    assert pretended.jobs() == ["plan", "apply", "certify"]
    assert pretended.ran[-1][1]["max_magic"] == 0
    assert last_report(tmp_path / "r")["outcome"] == "certified"
    pretended.certified = False
    with pytest.raises(AirflowFailException, match="not certified, not finished"):
        reached(pretended, tmp_path, ("phase-1", {"attested_by": "ops", "volumes": ["3"]}))


def test_what_is_left_as_it_was_is_said_and_does_not_stop_a_canary(
    tmp_path: Path, pretended: Pretended
) -> None:
    reached(pretended, tmp_path, PHASE_1)
    pretended.blocked, pretended.certified = 1, False
    said = reached(pretended, tmp_path, ("canary", {"volumes": ["2"]}))
    assert said == "converted and proved, not certified, 1 segment left as before"
    assert ledger_at(tmp_path / "r")[-2:] == [
        ("verified", "2", "canary"),
        ("approved", "2", "canary"),
    ]


def test_a_log_without_proof_fails_the_run(tmp_path: Path, pretended: Pretended) -> None:
    reached(pretended, tmp_path, PHASE_1)
    pretended.equal = False
    with pytest.raises(AirflowFailException, match="not proved to hold the same records: 1 log,"):
        reached(pretended, tmp_path, CANARY)
    assert ("verified", "1", "canary") not in ledger_at(tmp_path / "r")
    pretended.equal, pretended.files = True, 0
    reached(pretended, tmp_path, CANARY)
    assert ("verified", "1", "canary") in ledger_at(tmp_path / "r"), "triggered again, it goes on"


def answering(monkeypatch: pytest.MonkeyPatch, **answers: str) -> None:
    """A person, Ada, who answers at once."""

    def answer(self: PlanApproval, context: Any) -> Any:
        now = datetime.datetime.now(tz=datetime.UTC)
        form = {key: self.params[key] for key in self.params}
        said = {
            "chosen_options": [answers[self.task_id]], "params_input": form, "responded_at": now,
        }  # fmt: skip
        return self.execute_complete(
            context, said | {"responded_by_user": {"id": "7", "name": "Ada"}}
        )

    monkeypatch.setattr("kafkats_airflow.airflow_versions.Question.execute", answer)


def test_a_canary_waits_for_its_own_approval(
    bag: Any, tmp_path: Path, pretended: Pretended, monkeypatch: pytest.MonkeyPatch
) -> None:
    reached(pretended, tmp_path, PHASE_1)
    answering(monkeypatch, approve="Approve", approve_canary="Reject")
    rejected = run(bag, tmp_path, CANARY[0], **CANARY[1], need_approval=True)
    assert (str(rejected.state), states(rejected)["approve_canary"]) == ("success", "success")
    assert ledger_at(tmp_path / "r")[-1] == ("certified", "1", "canary")
    with pytest.raises(AirflowFailException, match="is verified, not approved"):
        reached(pretended, tmp_path, PHASE_2)

    answering(monkeypatch, approve="Approve", approve_canary="Approve")
    pretended.files = 0
    reached(pretended, tmp_path, ("canary", {"volumes": ["1"], "need_approval": True}))
    last = ledger.read(tmp_path / "r" / "ledger.jsonl").entries[-1]
    assert (last.event, last.by) == ("approved", "Ada")
    reached(pretended, tmp_path, PHASE_2)


def test_a_yes_counts_only_for_the_canary_that_was_shown(
    tmp_path: Path, pretended: Pretended, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As from a form that was open before the run was cleared: the question stays open."""
    asked: list[dict[str, Any]] = []
    for module in ("kafkats_airflow.airflow_versions", "kafkats_airflow.approvals.asking"):
        monkeypatch.setattr(f"{module}.upsert_hitl_detail", lambda **one: asked.append(one))
    phase, conf = "canary", {"volumes": ["1"], "need_approval": True}
    reached(pretended, tmp_path, PHASE_1)
    shown = []
    for files in (pretended.files, 0):
        pretended.files = files
        with pytest.raises(TaskAwaitingInput):
            reached(pretended, tmp_path, (phase, conf))
        shown.append(asked[-1]["params"]["digest"]["value"])
        assert f"`{shown[-1][:16]}`" in asked[-1]["body"]
    assert shown[0] != shown[1], "it was certified once more"

    [first, second] = sorted((tmp_path / "r").glob("*/*/canary-question.json"))
    question = json.loads(first.read_text())
    context: Any = {
        "params": conf_of(tmp_path, phase, conf), "run_id": first.parent.name,
        "task_instance": SimpleNamespace(id="1"), "dag": SimpleNamespace(dag_id=DAG),
    }  # fmt: skip

    def answer(option: str, digest: str | None) -> Any:
        task = CanaryApproval(task_id="approve_canary", subject="?")
        now = datetime.datetime.now(tz=datetime.UTC)
        said = {"chosen_options": [option], "responded_at": now, "responded_by_user": ADA}
        form = {} if digest is None else {"digest": digest}
        return task.execute_complete(context, said | {"params_input": form})

    for digest in (shown[0], shown[1][:7], None):
        with pytest.raises(TaskAwaitingInput) as waiting:
            answer("Approve", digest)
        assert waiting.value.timeout is not None
        left_ms = question["until_ms"] - question["asked_ms"]
        assert waiting.value.timeout <= datetime.timedelta(milliseconds=left_ms)
        assert ledger_at(tmp_path / "r")[-1][0] == "certified"
    assert "answered_ms" not in json.loads(first.read_text()), "pages list it as open"
    answer("Approve", shown[1][:8].upper())
    answered = json.loads(first.read_text())
    assert (answered["option"], answered["by"]) == ("Approve", "Ada")
    assert question["asked_ms"] <= answered["answered_ms"] < question["until_ms"]
    last = ledger.read(tmp_path / "r" / "ledger.jsonl").entries[-1]
    assert (last.event, last.by) == ("approved", "Ada")
    answer("Approve", shown[0])
    assert len(ledger_at(tmp_path / "r")) == last.number, "approved already"
    second.unlink()
    context["run_id"] = second.parent.name
    answer("Approve", None)  # an earlier version asked: it recorded no digest


@pytest.mark.slow(1)
def test_a_no_to_the_plan_writes_nothing(
    bag: Any, tmp_path: Path, pretended: Pretended, monkeypatch: pytest.MonkeyPatch
) -> None:
    reached(pretended, tmp_path, PHASE_1)
    before = ledger_at(tmp_path / "r")
    answering(monkeypatch, approve="Reject")
    pretended.ran.clear()
    done = run(bag, tmp_path, CANARY[0], **CANARY[1], need_approval=True)
    assert str(done.state) == "success"
    assert set(pretended.jobs()) == {"plan"}
    assert states(done)["approve_canary"] == "skipped"
    assert last_report(tmp_path / "r")["outcome"] == "rejected"
    assert ledger_at(tmp_path / "r") == before


def test_a_rollback_undoes_or_converts_back(tmp_path: Path, pretended: Pretended) -> None:
    reached(pretended, tmp_path, PHASE_1, CANARY, PHASE_2)
    entries = ledger.read(tmp_path / "r" / "ledger.jsonl").entries
    runs = [entry.details["folder"] for entry in entries if entry.event == "started"]
    pretended.ran.clear()
    assert reached(pretended, tmp_path, ("rollback", {"volumes": ["2"]})) == "undone"
    assert pretended.jobs() == ["plan", "undo"]
    assert pretended.ran[0][1]["runs"][0] == runs[-1]

    pretended.undo = False
    pretended.ran.clear()
    back = {"volumes": ["1"], "accept_loss": ["all"], "clients": "/srv/clients.yaml"}
    assert reached(pretended, tmp_path, ("rollback", back)) == "converted back"
    assert pretended.jobs() == ["plan", "apply", "certify"]
    assert pretended.ran[0][1]["accept_loss"] == ["all"]
    assert pretended.ran[0][1]["clients"] == "/srv/clients.yaml"
    stands = {row["broker"]: row["status"] for row in steps.rows(conf_of(tmp_path, "census", {}))}
    assert stands == {"1": "certified", "2": "certified", "3": "certified"}
    with pytest.raises(AirflowFailException, match="there is no canary"):
        reached(pretended, tmp_path, PHASE_2)


def test_a_broker_that_was_rolled_back_goes_again_only_when_it_is_named(
    tmp_path: Path, pretended: Pretended
) -> None:
    back = ("rollback", {"volumes": ["2"]})
    said = reached(pretended, tmp_path, PHASE_1, CANARY, PHASE_2, back, PHASE_2, PHASE_2)
    assert said == "no broker is left for this phase"
    reached(pretended, tmp_path, ("phase-2", {"volumes": ["2"]}))
    assert last_report(tmp_path / "r")["volumes"] == ["/volumes/2"]


def test_repeating_a_phase_changes_nothing(tmp_path: Path, pretended: Pretended) -> None:
    reached(pretended, tmp_path, PHASE_1, CANARY)
    pretended.files = 0
    pretended.ran.clear()
    reached(pretended, tmp_path, CANARY)
    assert "apply" not in pretended.jobs()
    row = steps.rows(conf_of(tmp_path, "census", {}))[0]
    assert (row["broker"], row["status"]) == ("1", "approved")


def test_a_broker_with_a_dead_disk_does_not_pass_and_the_others_do(
    tmp_path: Path, pretended: Pretended
) -> None:
    reached(pretended, tmp_path, PHASE_1, CANARY)
    pretended.dead = "/volumes/2"
    with pytest.raises(AirflowFailException, match="not finished: look: /volumes/2: does not"):
        reached(pretended, tmp_path, ("phase-2", {"volumes": ["2"]}))
    assert pretended.jobs()[-1] == "plan", "nothing is converted or certified"
    pretended.dead = ""
    reached(pretended, tmp_path, ("phase-2", {"volumes": ["2"]}))
    told = [
        (event, broker) for event, broker, phase in ledger_at(tmp_path / "r") if phase == "phase-2"
    ]
    assert told.count(("converted", "2")) == 1


def test_a_broker_with_nothing_to_convert_passes_too(tmp_path: Path, pretended: Pretended) -> None:
    reached(pretended, tmp_path, PHASE_1)
    pretended.files = 0
    reached(pretended, tmp_path, CANARY)
    assert ("verified", "1", "canary") in ledger_at(tmp_path / "r")


def test_approvals_show_what_is_approved(bag: Any) -> None:
    totals = {"files": 3, "write_bytes": 36, "blocked": 1, "losses": {"headers": 2}}
    plan = {"log_dirs": ["/a", "/b"], "totals": totals, "digest": "f" * 64, "plan": "/p"}
    zero_copy = [who._asdict() for who in phases.lose_zero_copy(1, 2)]
    said = {"outcome": "converted", "volumes": ["/a"], "report": "/r", "loses_zero_copy": zero_copy}

    context: Any = {"ti": Instance(report=said), "params": {"phase": "canary"}}
    context |= {"dag": bag.dags[DAG], "run_id": "manual__1"}
    body = bag.dags[DAG].get_task("approve").question(context, [plan])
    canary = questions.of_canary(context, "ab" * 32)
    assert "| `/a`, `/b` | 3 | 36 B | 1 | 2 headers | `ffffffffffffffff` | `/p` |" in body
    assert body.startswith("Phase `canary`.")
    assert "`converted`: `/a`" in canary and "fetch versions `2-3`" in canary
    assert "only for digest `abababababababab`" in canary
    assert f"kafkats/run-migration?dag_id={DAG}&run_id=manual__1)" in canary
    assert "`phase` rollback, its broker in `volumes`, and `dry_run` off" in canary
    assert isinstance(CanaryApproval(task_id="x", subject="?").response_timeout, datetime.timedelta)


def test_the_run_of_a_plan_is_found_again() -> None:
    assert run_of({"plan": "/r/x/plan", "digest": "0123456789abcdef0123"}) == Path(
        "/r/x/run-0123456789abcdef"
    )


def test_a_rollback_finds_the_run_of_an_interrupted_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without the run's folder in the ledger it would plan to convert back, with losses, instead of the undo."""
    volume = tmp_path / "volume"
    volume.mkdir()
    GOLDEN.unpack("data", volume)
    before = files(volume)
    folder = tmp_path / "r"
    book, step = folder / "ledger.jsonl", ("--ledger", folder / "ledger.jsonl", "--broker", "1")
    monkeypatch.chdir(tmp_path)  # the command may be given relative paths
    command("ledger", "begin", book, "--from-magic", 0, "--to-magic", 2, "--broker", "1")
    command("ledger", "attest", book, "--broker", "1", "--text", "2.8.2 runs")
    command("certify", volume, "--max-magic", 0, *step, "--phase", "phase-1")
    command("plan", "migrate", volume, "--to-magic", 2, "-o", "plan", *step, "--phase", "canary")
    assert killed_apply() == signal.SIGKILL
    assert [e.event for e in ledger.read(book).entries][-1] == "started"
    assert files(volume) != before

    params = {"folder": str(folder), "ledger": ""}
    assert steps.standing_runs(params, "1") == [str(tmp_path / "plan.run")]
    command("undo", *steps.standing_runs(params, "1"))
    assert files(volume) == before
    assert steps.standing_runs(params, "1") == []
    capsys.readouterr()


def files(volume: Path) -> dict[str, tuple[int, int, int, int]]:
    return {path: seen for path, seen in tree(volume).items() if (volume / path).is_file()}


def command(*words: object) -> None:
    with pytest.raises(SystemExit) as end:
        main([str(word) for word in words])
    assert not end.value.code


def killed_apply() -> int:
    """`kafkats apply plan`, killed when its second partition begins; the signal."""
    begun = itertools.count()

    def act() -> None:
        real = applying.apply_partition

        def apply_partition(work: Any, **given: Any) -> Any:
            if next(begun) == 1:
                os.kill(os.getpid(), signal.SIGKILL)
            return real(work, **given)

        applying.apply_partition = apply_partition  # type: ignore[assignment]
        main(["apply", "plan", "--digest", "any"])

    _, status = os.waitpid(fork(act), 0)
    return os.WTERMSIG(status)
