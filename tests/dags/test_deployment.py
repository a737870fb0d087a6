"""A deployment with KAFKATS_APPROVERS, and every way round it that we know: params, XComs, states of tasks, paths, users."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException
from kafkats_airflow import deployment, settings
from kafkats_airflow.jobs.spark_job import KafkatsJobOperator

from kafkats.config.approvers import Approver, read_approvers
from kafkats.errors import Refused, UsageError
from tests.dags.runs import task_state
from tests.golden import tree

ROOT = Path(__file__).parents[2]
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
    deployment.check_words("plan", "any", ["retain", "--config", "retention.ms=1"], {})
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


# ---------------------------------------------------------------- forged XComs: words of a job


FORGED: dict[str, tuple[str, list[str]]] = {
    "a guard lifted": ("plan", ["retain", "VOLUME", "--policy", "POLICY", "--over-guard"]),
    "by its beginning": ("plan", ["retain", "VOLUME", "--policy", "POLICY", "--over"]),
    "as a value": ("plan", ["retain", "VOLUME", "--topics", "--over-guard"]),
    "another policy": ("plan", ["retain", "VOLUME", "--policy", "/tmp/policy.yaml"]),
    "another policy in one word": ("plan", ["retain", "VOLUME", "--policy=/tmp/policy.yaml"]),
    "a setting": ("plan", ["retain", "VOLUME", "--config", "retention.ms=1"]),
    "a volume that the policy has not": (
        "plan",
        ["retain", "/var/lib/kafka", "--policy", "POLICY"],
    ),
    "below a volume": ("plan", ["rebuild", "VOLUME/time-all-0"]),
    "a relative path": ("plan", ["rebuild", "data"]),
    "a report elsewhere": ("plan", ["rebuild", "VOLUME", "--report", "/tmp/report"]),
    "a report through ..": ("verify", ["VOLUME", "--report", "FOLDER/../report"]),
    "a report through a link": ("verify", ["VOLUME", "--report", "FOLDER/out/report"]),
    "an operation that no DAG has": ("plan", ["layouts", "VOLUME"]),
    "no record": ("apply", ["FOLDER/plan", "--digest", "0" * 64]),
    "a record elsewhere": (
        "apply",
        ["FOLDER/plan", "--digest", "0" * 64, "--approval", "/tmp/approval.json"],
    ),
    "a plan elsewhere": (
        "apply",
        ["/tmp/plan", "--digest", "0" * 64, "--approval", "FOLDER/approval.json"],
    ),
    "a work area": (
        "apply",
        ["FOLDER/plan", "--approval", "FOLDER/approval.json", "--work-area", "/tmp"],
    ),
    "an undo without a record": ("undo", ["FOLDER/run"]),
    "a purge at once": ("purge", ["FOLDER/run", "--older-than", "0ms"]),
    "a purge a day early": ("purge", ["FOLDER/run", "--older-than", "6d"]),
    "a purge without a window": ("purge", ["FOLDER/run"]),
    "a purge by another clock": (
        "purge",
        ["FOLDER/run", "--older-than", "7d", "--now", "2099-01-01T00:00:00Z"],
    ),
    "an option without its value": ("plan", ["retain", "VOLUME", "--policy"]),
    "a report of anywhere to rebuild from": (
        "plan",
        ["rebuild", "VOLUME", "--policy", "POLICY", "--from", "/any/report"],
    ),
    "a word of another operation": ("plan", ["rebuild", "VOLUME", "--inside-segments"]),
    "a word of another job": ("verify", ["VOLUME", "--accept-loss", "all"]),
    "a job that no DAG has": ("command", ["apply", "FOLDER/plan", "--digest", "any"]),
    "a request in a file": ("verify", ["--request", "FOLDER/request", "--result", "FOLDER/r"]),
    "a short option": ("plan", ["rebuild", "VOLUME", "-o", "FOLDER/plan"]),
}


@pytest.mark.usefixtures("hardened")
@pytest.mark.parametrize("way", FORGED)
def test_forged_words(
    way: str, volume: Path, folder: Path, policy: Path, tmp_path: Path, monkeypatch: Any
) -> None:
    monkeypatch.setattr("airflow.providers.apache.spark.hooks.spark_submit.subprocess.Popen", None)
    link(folder / "out", tmp_path)
    job, words = FORGED[way]
    places = {"VOLUME": volume, "FOLDER": folder, "POLICY": policy}
    said = [str(places.get(word, word)) for word in words]
    said = [word.replace("VOLUME/", f"{volume}/").replace("FOLDER/", f"{folder}/") for word in said]
    operator = KafkatsJobOperator(
        task_id=job, job=job, conn_id="spark_default", application_args=said
    )
    context = of_run(policy=str(policy), folder=str(folder)) | {
        "ti": SimpleNamespace(xcom_push=lambda *_: None)
    }
    with pytest.raises(AirflowFailException, match=r"^.* \(KAFKATS_APPROVERS is set\)"):
        operator.execute(context)


@pytest.mark.usefixtures("hardened")
def test_a_forged_connection(volume: Path) -> None:
    with pytest.raises(Refused, match=r"^connection 'mine' is none of the policy's"):
        deployment.check_words("verify", "mine", [str(volume)], {})


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
def test_the_words_of_the_dags_themselves_pass(
    run: Callable[..., Any],
    dag: str,
    here: list[str],
    monkeypatch: pytest.MonkeyPatch,
    volume: Path,
) -> None:
    checked: list[str] = []
    execute = KafkatsJobOperator.execute

    def watched(self: KafkatsJobOperator, context: Any) -> Any:
        deployment.check_words(
            self.job,
            self.connection,
            [str(word) for word in self.application_args or []],
            context["params"],
        )
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


def test_every_word_that_the_dags_give_is_known() -> None:
    """Of the plugins' own source: a job whose words are new there must not be refused."""
    given: set[str] = set()
    for path in (ROOT / "plugins" / "kafkats_airflow").rglob("*.py"):
        if path.stem not in {"deployment", "write_job"}:
            given |= set(re.findall(r'"(--[a-z][a-z-]+)"', path.read_text()))
    assert len(given) > 30
    assert given <= {word for words in deployment.WORDS.values() for word in words}
