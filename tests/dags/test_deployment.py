"""A deployment with KAFKATS_APPROVERS, and every way round it that we know: params, XComs, states of tasks, paths, users."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException
from kafkats_airflow import deployment, settings
from kafkats_airflow.dags import kafkats_dags
from kafkats_airflow.forms.catalogue import FORMS, declared_in, form_of
from kafkats_airflow.jobs.spark_job import KafkatsJobOperator

from kafkats import flow
from kafkats.cli.performing import Files
from kafkats.config.approvers import Approver, read_approvers
from kafkats.config.option import declared
from kafkats.config.reading import read_policy
from kafkats.deployment import Bounds
from kafkats.errors import Refused, UsageError
from kafkats.execution.local import LocalExecutor
from kafkats.operations import OPERATIONS
from kafkats.plans.files import read_document
from kafkats.request import PolicyContent, Request, made_of
from kafkats.result import Result
from tests.dags.runs import task_state
from tests.golden import tree
from tests.spark_jobs.words import run_files

FIRST = {
    "apply_retention": "applications",
    "build_lookup_tables": "tables",
    "end_run": "changes",
    "export_offsets": "applications",
    "migrate_message_format": "gate",
    "rebuild_time_indexes": "applications",
    "recover_log_dirs": "applications",
    "roll_segments": "applications",
}
NEEDED: dict[str, dict[str, Any]] = {"export_offsets": {"time": "2020-09-13T12:26:40Z"}}


@pytest.fixture
def policy(tmp_path: Path, volume: Path) -> Path:
    path = tmp_path / "policy.yaml"
    topics = "{'time-*': {cleanup.policy: delete, retention.ms: 1, kafkats.guard.max.share: 0.3}}"
    path.write_text(
        f"volumes: [{{broker: '1', path: {volume}, owner_stopped: true}}]\ntopics: {topics}\n"
    )
    return path


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    path = tmp_path / "folder"
    path.mkdir()
    return path


@pytest.fixture
def hardened(monkeypatch: pytest.MonkeyPatch, policy: Path, folder: Path) -> None:
    monkeypatch.setenv("KAFKATS_APPROVERS", "alice,2:bob")
    monkeypatch.setattr(settings, "HARDENED", True)
    monkeypatch.setattr(settings, "APPROVERS", read_approvers("alice,2:bob"))
    monkeypatch.setattr(settings, "FLOOR_DAYS", 7)
    monkeypatch.setattr(settings, "POLICY", str(policy))
    monkeypatch.setattr(settings, "FOLDER", str(folder))
    monkeypatch.setenv("KAFKATS_POLICY", str(policy))
    monkeypatch.setenv("KAFKATS_FOLDER", str(folder))
    monkeypatch.setenv("AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_ALL_ADMINS", "False")


@pytest.fixture
def run(bag: Any, policy: Path, folder: Path) -> Callable[..., Any]:
    def run(dag: str, **conf: Any) -> Any:
        where = {"policy": str(policy), "folder": str(folder)}
        given = bag.defaults[dag] | NEEDED.get(dag, {}) | where | conf
        return bag.dags[dag].test(run_conf=given, logical_date=None)

    return run


def of_run(**params: Any) -> dict[str, Any]:
    """A context with these params."""
    return {"params": params, "dag_run": SimpleNamespace(triggering_user_name="mallory")}


def test_who_approves() -> None:
    assert read_approvers(None) == ()
    assert read_approvers("alice, 2:bob") == (Approver("alice", "alice"), Approver("2", "bob"))
    for wrong in ("", " , ", ":alice", "alice:", "a:b:c", "Anonymous", "1:anonymous", "nobody"):
        with pytest.raises(UsageError, match=r"^KAFKATS_APPROVERS"):
            read_approvers(wrong)


@pytest.mark.parametrize("text", ["-1", "7d", "seven", "", "99999"])
def test_a_floor_is_a_number_of_days(text: str) -> None:
    with pytest.raises(UsageError, match=r"^KAFKATS_UNDO_DAYS_FLOOR: "):
        settings.read_floor(text)


def test_without_the_setting_triggering_decides(policy: Path, tmp_path: Path) -> None:
    assert not deployment.hardened() and deployment.assigned() is None
    deployment.check(
        of_run(policy=str(policy), folder=str(tmp_path), undo_days=0, attested_by="anybody")
    )
    deployment.check_responder({"id": "mallory", "name": "mallory"})


# ---------------------------------------------------------------- params, by form or REST


@pytest.mark.examples(3)
@pytest.mark.usefixtures("hardened")
@pytest.mark.parametrize("dag", FIRST)
@pytest.mark.parametrize(
    "make",
    [
        lambda tmp: {"policy": str(other_policy(tmp))},
        lambda tmp: {"policy": f"{tmp}/folder/../policy.yaml"},
        lambda tmp: {"policy": str(link(tmp / "link.yaml", tmp / "policy.yaml"))},
        lambda tmp: {"folder": str(tmp / "elsewhere")},
        lambda tmp: {"folder": f"{tmp}/folder/"},
        lambda tmp: {"folder": str(link(tmp / "link", tmp / "folder"))},
        lambda tmp: {"folder": f"{tmp}/folder/../elsewhere"},
    ],
    ids=[
        "policy",
        "policy with ..",
        "link to the policy",
        "folder",
        "folder/",
        "link to the folder",
        "folder with ..",
    ],
)
def test_another_policy_or_folder(
    run: Callable[..., Any],
    dag: str,
    tmp_path: Path,
    make: Callable[[Path], dict[str, Any]],
    here: list[str],
) -> None:
    conf = make(tmp_path)
    ended = run(dag, **conf)
    assert str(ended.state) == "failed"
    assert task_state(ended, FIRST[dag]) == ("failed", 1), "at once"
    assert here == [] and not (tmp_path / "elsewhere").exists()
    [name] = conf
    [said] = [ti for ti in ended.get_task_instances() if ti.task_id == FIRST[dag]]
    assert said.xcom_pull(task_ids=FIRST[dag], key="failure").startswith(
        f"{name}: '{conf[name]}' is not this deployment's"
    )


def other_policy(tmp: Path) -> Path:
    path = tmp / "other.yaml"
    path.write_text((tmp / "policy.yaml").read_text())
    return path


def link(path: Path, to: Path) -> Path:
    path.symlink_to(to)
    return path


@pytest.mark.usefixtures("hardened")
@pytest.mark.parametrize(
    ("params", "said"),
    [
        ({"undo_days": 0}, "^undo_days: 0 is below 7"),
        ({"undo_days": 6}, "^undo_days: 6 is below 7"),
        ({"attested_by": "alice"}, "^attested_by: 'alice' is not who triggered this run, mallory"),
        ({"ledger": "/tmp/ledger.jsonl"}, "^ledger '/tmp/ledger.jsonl' is not in the folder"),
        ({"clients": "/etc/passwd"}, "^clients '/etc/passwd' is not in the folder"),
        ({"ledger": "ledger.jsonl"}, "^ledger 'ledger.jsonl' is not in the folder"),
        ({"tables": "FOLDER/../tables"}, "^tables .* is not in the folder"),
        ({"tables": "FOLDER-2/tables"}, "^tables .* is not in the folder"),
        ({"tables": "FOLDER/out/tables"}, "^tables .* is not in the folder"),
    ],
)
def test_other_params(params: dict[str, Any], said: str, folder: Path, tmp_path: Path) -> None:
    link(folder / "out", tmp_path)
    given = {
        key: value.replace("FOLDER", str(folder)) if isinstance(value, str) else value
        for key, value in params.items()
    }
    with pytest.raises(Refused, match=said):
        deployment.check(of_run(**given))


@pytest.mark.usefixtures("hardened")
def test_what_is_allowed(policy: Path, folder: Path) -> None:
    params = {
        "policy": str(policy),
        "folder": str(folder),
        "undo_days": 7,
        "attested_by": "mallory",
        "tables": None,
    }
    deployment.check(of_run(**params, ledger=str(folder / "more" / "ledger.jsonl")))


@pytest.mark.usefixtures("hardened")
def test_a_run_of_the_schedule_attests_nothing() -> None:
    context = {
        "params": {"attested_by": "alice"},
        "dag_run": SimpleNamespace(triggering_user_name=None),
    }
    with pytest.raises(Refused, match=r"who triggered this run, nobody"):
        deployment.check(context)


@pytest.mark.examples(2)
@pytest.mark.usefixtures("hardened")
@pytest.mark.parametrize("dag", FIRST)
def test_where_everybody_is_an_admin_nothing_runs(
    run: Callable[..., Any], dag: str, monkeypatch: pytest.MonkeyPatch, here: list[str]
) -> None:
    monkeypatch.setenv("AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_ALL_ADMINS", "True")
    ended = run(dag)
    assert str(ended.state) == "failed" and here == []
    assert task_state(ended, FIRST[dag]) == ("failed", 1)
    with pytest.raises(Refused, match=r"in this Airflow everybody is an admin"):
        deployment.check_responder({"id": "alice", "name": "alice"})


# ---------------------------------------------------------------- who answered


@pytest.mark.usefixtures("hardened")
@pytest.mark.parametrize(
    "user",
    [
        {"id": "mallory", "name": "mallory"},
        {"id": "mallory", "name": "alice"},
        {"id": "bob", "name": "bob"},
        {"id": "2", "name": "x"},
        {},
    ],
)
def test_an_answer_of_somebody_else(user: dict[str, str]) -> None:
    with pytest.raises(Refused, match=r"who is not an approver; clear the task to ask again"):
        deployment.check_responder(user)


@pytest.mark.usefixtures("hardened")
def test_an_answer_of_an_approver() -> None:
    deployment.check_responder({"id": "alice", "name": "alice"})
    deployment.check_responder({"id": "2", "name": "bob"})
    deployment.check_responder(
        None
    )  # nobody answered in time: the default, which lets nothing be written
    assert deployment.assigned() == [{"id": "alice", "name": "alice"}, {"id": "2", "name": "bob"}]


# ---------------------------------------------------------------- forged requests


def planned(operation: str, **more: Any) -> dict[str, Any]:
    """Fields of a request to plan for the volume by the policy, with other options or fields."""
    log_dirs = [{"path": more.pop("log_dir", "VOLUME")}]
    asked = {"verb": "plan", "operation": operation, "log_dirs": log_dirs, "policy": "POLICY"}
    return asked | {name: more.pop(name) for name in ("policy",) if name in more} | {
        "options": more
    }  # fmt: skip


def verified(**options: Any) -> dict[str, Any]:
    log_dirs = [{"path": "VOLUME"}]
    return {"verb": "verify", "log_dirs": log_dirs, "policy": "POLICY", "options": options}


def applied(plan: str = "FOLDER/plan", record: str = "FOLDER/approval.json", **options: Any) -> Any:
    named = {"plan": {"folder": plan, "digest": "0" * 64}, "options": options}
    return {"verb": "apply", **named, **({"approval": {"record": record}} if record else {})}


def undone(run: str = "FOLDER/run", record: str = "FOLDER/approval.json", **options: Any) -> Any:
    named = {"runs": [{"folder": run}], "options": options}
    return {"verb": "undo", **named, **({"approval": {"record": record}} if record else {})}


def purged(**options: Any) -> dict[str, Any]:
    return {"verb": "purge", "runs": [{"folder": "FOLDER/run"}], "options": {"Purge": options}}


NO_OPTION = "is no option that a DAG gives"
ELSEWHERE = "is not in the folder of this deployment"
FORGED: dict[str, tuple[dict[str, Any], str]] = {
    "a guard lifted": (planned("retain", Retain={"over_guard": True}), NO_OPTION),
    "by its beginning": (planned("retain", Retain={"over": True}), "over: unknown key"),
    "as a value": (planned("retain", Retain={"rule": "--over-guard"}), "rule: --over-guard: not a release"),
    "another policy": (planned("retain", policy={"defaults": {"retention.ms": 1}}), "its policy"),
    "an empty policy": (planned("retain", policy={}), "its policy is not"),
    "no policy": (planned("retain", policy=None), "without the policy"),
    "a setting": (planned("retain", policy="POLICY with a setting"), "its policy is not"),
    "a volume that the policy has not": (
        planned("retain", log_dir="/var/lib/kafka"), "is no volume of the policy",
    ),
    "below a volume": (
        planned("rebuild", log_dir="VOLUME/time-all-0"), "is no volume of the policy",
    ),
    "a relative path": (planned("rebuild", log_dir="data"), "is no volume of the policy"),
    "a report elsewhere": (planned("rebuild", PlanFolder={"report": "/tmp/report"}), ELSEWHERE),
    "a report through ..": (verified(Report={"report": "FOLDER/../report"}), ELSEWHERE),
    "a report through a link": (verified(Report={"report": "FOLDER/out/report"}), ELSEWHERE),
    "an operation that no DAG has": (planned("layouts"), "a plan is one of"),
    "no record": (applied(record=""), "without the record of an approval"),
    "a record elsewhere": (applied(record="/tmp/approval.json"), ELSEWHERE),
    "a plan elsewhere": (applied("/tmp/plan"), ELSEWHERE),
    "a run elsewhere": (applied(Apply={"run_folder": "/tmp/run"}), ELSEWHERE),
    "a work area": (applied(WorkArea={"place": "/tmp"}), "is none of the policy's"),
    "an undo without a record": (undone(record=""), "without the record of an approval"),
    "an undo elsewhere": (undone("/tmp/run"), ELSEWHERE),
    "a certificate of elsewhere": (
        undone(UndoCertify={"certified": ["/var/lib/kafka"]}), ELSEWHERE,
    ),
    "a purge at once": (purged(older_than="0ms"), "of runs younger than 7 days"),
    "a purge a day early": (purged(older_than="6d"), "of runs younger than 7 days"),
    "a purge without a window": (purged(), "of runs younger than 7 days"),
    "a purge by another clock": (
        purged(older_than="7d", now="2099-01-01T00:00:00Z"), NO_OPTION,
    ),
    "an option without its value": (planned("retain", Topics={"topics": None}), "topics: must be"),
    "a report of anywhere to rebuild from": (
        planned("rebuild", Rebuild={"from_report": "/any/report"}), NO_OPTION,
    ),
    "copies elsewhere": (planned("recover", Recover={"copy_readable": "/tmp/copies"}), ELSEWHERE),
    "a ledger elsewhere": (planned("migrate", Step={"ledger": "/tmp/ledger"}), ELSEWHERE),
    "a file of the system": (planned("migrate", ClientMix={"clients": "/etc/passwd"}), ELSEWHERE),
    "an option of another operation": (
        planned("rebuild", Retain={"inside_segments": True}), "has no such options",
    ),
    "an option of another verb": (
        verified(Migrate={"accept_loss": ["all"]}), "has no such options",
    ),
    "a verb that no DAG has": ({"verb": "ledger", "options": {}}, "verb: must be"),
    "a field that no request has": ({**verified(), "force": True}, "force: unknown key"),
    "a plan's own folder": (planned("rebuild", PlanFolder={"output": "FOLDER/plan"}), NO_OPTION),
}  # fmt: skip


@pytest.fixture
def content(way: str, volume: Path, folder: Path, policy: Path, tmp_path: Path) -> dict[str, Any]:
    """The JSON of a forged request."""
    link(folder / "out", tmp_path)
    real = PolicyContent.of(read_policy(policy)).model_dump(mode="json")
    text = json.dumps(FORGED[way][0] | {"made_ms": 0})
    for word, content in {
        '"POLICY with a setting"': real | {"overrides": {"retention.ms": 1}}, '"POLICY"': real,
    }.items():  # fmt: skip
        text = text.replace(word, json.dumps(content))
    return dict(json.loads(text.replace("VOLUME", str(volume)).replace("FOLDER", str(folder))))


@pytest.mark.usefixtures("hardened")
@pytest.mark.parametrize("way", FORGED)
def test_a_task_submits_no_forged_request(
    way: str, content: dict[str, Any], folder: Path, policy: Path, monkeypatch: Any
) -> None:
    monkeypatch.setattr(KafkatsJobOperator, "asked", lambda *_: made_of(content))
    monkeypatch.setattr(KafkatsJobOperator, "submitting", None)
    operator = KafkatsJobOperator(task_id="job", job=content["verb"])
    context = of_run(policy=str(policy), folder=str(folder)) | {
        "ti": SimpleNamespace(xcom_push=lambda *_: None)
    }
    with pytest.raises(AirflowFailException, match=re.escape(FORGED[way][1])):
        operator.execute(context)


@pytest.mark.usefixtures("hardened")
@pytest.mark.parametrize("way", FORGED)
def test_a_job_does_no_forged_request(
    way: str, content: dict[str, Any], volume: Path, tmp_path: Path
) -> None:
    """Its own process knows the deployment, whoever wrote the file."""
    before = tree(volume)
    files = Files(tmp_path / "request.json", tmp_path / "result.json", {})
    files.request.write_text(json.dumps(content))
    error = run_files(LocalExecutor(1), "command", files)
    assert isinstance(error, Refused | UsageError) and FORGED[way][1] in str(error)
    told = read_document(files.result, Result)
    assert told is not None and told.error is not None and not told.did_something
    assert tree(volume) == before


def test_a_forged_xcom_has_no_other_parts(policy: Path, folder: Path) -> None:
    context = of_run(policy=str(policy), folder=str(folder))
    for part in ("approval", "by", "plan", "policy", "reservation", "verb"):
        operator = KafkatsJobOperator(task_id="job", job="verify", request={part: {}})
        with pytest.raises(UsageError, match=r"^its arguments were made by an earlier version"):
            operator._fields(context)


@pytest.fixture
def west(tmp_path: Path, policy: Path) -> Iterator[deployment.Place]:
    """The place of a second set of DAGs, which this process has built."""
    place = deployment.Place(str(tmp_path / "west.yaml"), str(tmp_path / "west"), "west")
    Path(place.policy).write_text(policy.read_text())
    params = {"policy": place.policy, "folder": place.folder}
    made = kafkats_dags("roll_segments", prefix="west_", params=params)
    yield place
    for dag_id in made:
        deployment.put(dag_id, None)


@pytest.mark.usefixtures("hardened")
def test_another_set_has_its_own_policy_and_folder(
    west: deployment.Place, policy: Path, folder: Path
) -> None:
    own, other = (SimpleNamespace(dag_id=f"{prefix}roll_segments") for prefix in ("", "west_"))
    for dag, mine, foreign in (
        (other, west, deployment.Place(str(policy), str(folder))),
        (own, deployment.Place(str(policy), str(folder)), west),
    ):
        right = of_run(policy=mine.policy, folder=mine.folder)
        deployment.check({**right, "dag": dag})
        assert deployment.place_of({"dag": dag}) == mine
        for name in ("policy", "folder"):
            forged = {**right["params"], name: getattr(foreign, name)}
            with pytest.raises(Refused, match=f"^{name}: .* is not this deployment's"):
                deployment.check({**of_run(**forged), "dag": dag})


@pytest.mark.usefixtures("hardened")
def test_a_forged_connection(volume: Path) -> None:
    with pytest.raises(Refused, match=r"^connection 'mine' is none of the policy's"):
        deployment.check_request("mine", Request(verb="verify", made_ms=0), deployment.place_of({}))


@pytest.mark.slow(1)
@pytest.mark.examples(1)
@pytest.mark.usefixtures("hardened")
@pytest.mark.parametrize(
    "dag",
    [
        "roll_segments",
        "apply_retention",
        "rebuild_time_indexes",
        "build_lookup_tables",
        "export_offsets",
    ],
)
def test_the_requests_of_the_dags_themselves_pass(
    run: Callable[..., Any],
    dag: str,
    here: list[str],
    monkeypatch: pytest.MonkeyPatch,
    volume: Path,
) -> None:
    checked: list[str] = []
    execute = KafkatsJobOperator.execute

    def watched(self: KafkatsJobOperator, context: Any) -> Any:
        place = deployment.place_of(context)
        deployment.check_request(self.connection, self.asked(context), place)
        checked.append(self.job)
        return execute(self, context)

    monkeypatch.setattr(KafkatsJobOperator, "execute", watched)
    before = tree(volume)
    more: dict[str, Any] = {"export_offsets": {"missing": "all"}, "build_lookup_tables": {}}.get(
        dag, {"dry_run": True}
    )
    ended = run(dag, **more)
    assert str(ended.state) == "success"
    assert checked and checked == here
    assert tree(volume) == before


@pytest.mark.parametrize("operation", [name for name in OPERATIONS if name in FORMS])
def test_every_option_of_a_form_is_allowed(operation: str) -> None:
    form = declared_in(form_of(operation)).values()
    own = {
        one.name: one.option for model in OPERATIONS[operation].models for one in declared(model)
    }
    asked = {one.name for one in form if own.get(one.name) == one.option and one.option.flags}
    assert asked <= Bounds.options_of("plan", operation)


@pytest.mark.parametrize(
    ("by", "digest"), [("alice", "its"), ("mallory", "its"), ("alice", "another"), ("", "none")]
)
def test_a_host_gets_no_request_to_write_without_an_answer_of_an_approver(
    hardened: None, volume: Path, folder: Path, by: str, digest: str
) -> None:
    """The host may not know the approvers: the worker looks before it sends anything."""
    from kafkats_airflow.jobs.host_home import HostHome

    from kafkats.plans.approval import Approval, write_approval

    asked = {
        "verb": "plan",
        "operation": "rebuild",
        "made_ms": 1,
        "log_dirs": [{"path": str(volume)}],
    }
    into = {"PlanFolder": {"into": str(folder / "g"), "go_on": True}}
    plan = flow.run(made_of(asked | {"options": into}), LocalExecutor(1)).plan
    assert plan
    record = folder / "approval.json"
    if by:
        write_approval(
            record, Approval("Approve", (plan.digest if digest == "its" else "0" * 64,), by=by)
        )
    fields = {"verb": "apply", "made_ms": 1, "plan": {"folder": plan.folder, "digest": plan.digest}}
    request = made_of(fields | {"approval": {"record": str(record)}})
    if (by, digest) == ("alice", "its"):
        HostHome("ssh", "host").ready(request)
    else:
        with pytest.raises(Refused):
            HostHome("ssh", "host").ready(request)
