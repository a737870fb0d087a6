"""How a failure reads: the first line of the task's error, what the report says of it, and that nothing hopeless is tried again."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException
from kafkats_airflow import failing
from kafkats_airflow.jobs.spark_job import KafkatsJobOperator

from tests.dags.runs import task_state

FIRST = {
    "apply_retention": "applications",
    "build_lookup_tables": "tables",
    "export_offsets": "applications",
    "migrate_message_format": "gate",
    "rebuild_time_indexes": "applications",
    "recover_log_dirs": "applications",
    "roll_segments": "applications",
}
"""The first task of each DAG."""
NEEDED: dict[str, dict[str, Any]] = {"export_offsets": {"time": "2020-09-13T12:26:40Z"}}
TOPICS = sorted(FIRST.keys() - {"migrate_message_format"})


@pytest.fixture
def said(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """The messages of all failures of tasks, in order."""
    messages: list[str] = []
    failed = failing.failed

    def heard(text: str, **more: Any) -> Any:
        error = failed(text, **more)
        messages.append(f"{type(error).__name__} {error}")
        return error

    monkeypatch.setattr(failing, "failed", heard)
    monkeypatch.setattr("kafkats_airflow.jobs.spark_job.failed", heard)
    yield messages


def run(bag: Any, dag: str, **conf: Any) -> Any:
    """With every param: the DAG object remembers those of earlier runs."""
    return bag.dags[dag].test(
        run_conf=bag.defaults[dag] | NEEDED.get(dag, {}) | conf, logical_date=None
    )


def report(folder: Path) -> dict[str, Any]:
    """Of the only run."""
    every = [json.loads(path.read_text()) for path in folder.rglob("report.json")]
    [found] = [content for content in every if "outcome" in content]
    return dict(found)


def overview(folder: Path) -> dict[str, Any]:
    """Of the only run, for pages."""
    [found] = folder.rglob("overview.json")
    return dict(json.loads(found.read_text()))


WRONG: dict[str, tuple[Callable[[Path, Path], dict[str, Any]], str]] = {
    "typo in the policy": (
        lambda policy, _: {
            "policy": str(write(policy, "volumes: [{broker: '1', path: /data, conection: spark}]"))
        },
        "{tmp}/policy.yaml: line 1: volumes.0.conection: unknown key; did you mean 'connection'?",
    ),
    "no such policy": (
        lambda policy, _: {"policy": str(policy.with_name("other.yaml"))},
        "{tmp}/other.yaml: the policy cannot be read on this worker: ",
    ),
    "unknown volume": (
        lambda policy, _: {
            "policy": str(write(policy, "volumes: [{path: /data}]")),
            "volumes": ["/dta"],
        },
        "no volume of the policy has a path or broker like '/dta'",
    ),
    "unwritable folder": (
        lambda policy, _: {
            "policy": str(write(policy, "volumes: [{path: /data}]")),
            "folder": "/proc/kafkats",
        },
        "/proc/kafkats: the folder cannot be written on this worker: ",
    ),
}


def write(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


@pytest.mark.examples(2)
@pytest.mark.parametrize("dag", FIRST)
@pytest.mark.parametrize("wrong", WRONG)
def test_wrong_from_the_start(
    bag: Any, tmp_path: Path, said: list[str], dag: str, wrong: str
) -> None:
    """At once, without another try, and without a submit: the connection does not even exist."""
    make, sentence = WRONG[wrong]
    conf = {"folder": str(tmp_path / "reports")} | make(tmp_path / "policy.yaml", tmp_path)
    ended = run(bag, dag, **conf)
    assert str(ended.state) == "failed"
    assert task_state(ended, FIRST[dag]) == ("failed", 1)
    assert said[0].startswith("AirflowFailException " + sentence.format(tmp=tmp_path))
    assert task_state(ended, "write" if dag == "export_offsets" else "report") == ("failed", 1)
    assert sentence.format(tmp=tmp_path).partition(": the folder")[0] in said[-1]
    if wrong != "unwritable folder":
        why = f"{FIRST[dag]}: {sentence.format(tmp=tmp_path)}"
        told, seen = report(tmp_path / "reports"), overview(tmp_path / "reports")
        assert told["outcome"] == seen["outcome"] == "not finished"
        assert told["failures"][0].startswith(why)
        names = {path.name for path in (tmp_path / "reports").rglob("*") if path.is_file()}
        assert not {one for one in names if one.endswith((".parquet", ".png"))}
        assert "board.json" not in names, "no page takes it for the newest facts"
        assert seen["failed"] and seen["why"].startswith(why), "the list of runs shows it"
        assert said[-1].startswith(f"AirflowFailException not finished: {FIRST[dag]}: ")


@pytest.mark.examples(1)
@pytest.mark.parametrize("dag", FIRST)
def test_an_unknown_connection(
    bag: Any, tmp_path: Path, said: list[str], dag: str, volume: Path
) -> None:
    policy = write(
        tmp_path / "policy.yaml",
        f"volumes: [{{broker: '1', path: {volume}, connection: host_nine}}]",
    )
    ended = run(bag, dag, policy=str(policy), folder=str(tmp_path / "reports"))
    assert str(ended.state) == "failed"
    assert said[0].startswith("AirflowFailException Airflow has no connection 'host_nine'")
    assert {ti.try_number for ti in ended.get_task_instances() if str(ti.state) == "failed"} == {1}
    assert "no connection 'host_nine'" in report(tmp_path / "reports")["failures"][0]


@pytest.mark.examples(2)
@pytest.mark.parametrize(
    ("dag", "conf"),
    [
        ("apply_retention", {"as_of": "2020-09-13T12:26:40"}),
        ("apply_retention", {"before": "2020-09-13"}),
        ("roll_segments", {"as_of": "2020-09-13T12:26:40"}),
        ("build_lookup_tables", {"from": "2020-09-13T12:00:00", "to": "2020-09-13T13:00:00Z"}),
        ("export_offsets", {"time": "2020-09-13T12:26:40"}),
        ("export_offsets", {"until": "2020-09-13T12:26:40"}),
    ],
)
def test_times_without_an_offset(
    bag: Any, tmp_path: Path, said: list[str], dag: str, conf: dict[str, str]
) -> None:
    from airflow.sdk.exceptions import ParamValidationError

    policy = write(tmp_path / "policy.yaml", "volumes: [{path: /data}]")
    [(name, text), *_] = conf.items()
    try:
        ended = run(bag, dag, policy=str(policy), folder=str(tmp_path / "reports"), **conf)
    except (ParamValidationError, ValueError):  # Airflow itself has refused it
        return
    assert task_state(ended, FIRST[dag]) == ("failed", 1)
    why = f"{name}: '{text}' is no time with its offset from UTC"
    assert said[0].startswith(f"AirflowFailException {why}")
    assert overview(tmp_path / "reports")["why"].startswith(f"{FIRST[dag]}: {why}")


@pytest.mark.slow(1)
@pytest.mark.examples(3)
@pytest.mark.parametrize(
    ("dag", "conf", "why"),
    [
        ("apply_retention", {"free": "20 bananas"}, "free: '20 bananas' is not a size such as "),
        (
            "apply_retention",
            {"free": "20GiB", "inside_segments": True},
            "inside_segments writes what stays before anything is freed",
        ),
        ("roll_segments", {"split": "rolled", "segment_bytes": "lots"}, "segment_bytes: 'lots' is"),
        (
            "recover_log_dirs",
            {"copy_readable": "a/b"},
            "copy_readable: 'a/b' does not begin with /",
        ),
        ("build_lookup_tables", {"step": "0s"}, "step: '0s' is less than 1s"),
        (
            "build_lookup_tables",
            {"from": "2020-01-02T00:00:00Z", "to": "2020-01-02T00:00:00Z"},
            "to: '2020-01-02T00:00:00Z' is not after from: '2020-01-02T00:00:00Z'",
        ),
        ("export_offsets", {"margin": "ten"}, "margin: 'ten' is not a duration such as "),
    ],
)
def test_the_first_task_refuses_a_wrong_value_in_one_line(
    bag: Any, tmp_path: Path, said: list[str], dag: str, conf: dict[str, Any], why: str
) -> None:
    policy = write(tmp_path / "policy.yaml", "volumes: [{path: /data}]")
    ended = run(bag, dag, policy=str(policy), folder=str(tmp_path / "reports"), **conf)
    assert task_state(ended, FIRST[dag]) == ("failed", 1)
    assert said[0].startswith(f"AirflowFailException {why}")
    assert "\n" not in said[0]
    assert said[0].endswith("another try fails again until then")


@pytest.mark.slow(1)
@pytest.mark.examples(1)
@pytest.mark.parametrize("dag", TOPICS)
def test_a_glob_that_matches_nothing_is_a_remark(
    bag: Any,
    tmp_path: Path,
    dag: str,
    volume: Path,
    here: list[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    policy = write(tmp_path / "policy.yaml", f"volumes: [{{broker: '1', path: {volume}}}]")
    ended = run(bag, dag, policy=str(policy), folder=str(tmp_path / "reports"), topics="ordres-*")
    assert str(ended.state) == "success"
    told = report(tmp_path / "reports")
    wanted = "no topic on these volumes comes under 'ordres-*': nothing was looked at"
    assert wanted in told["remarks"]
    assert f"remark: {wanted}" in caplog.text


@pytest.mark.slow(1)
def test_the_report_repeats_what_a_job_said(
    bag: Any, tmp_path: Path, volume: Path, said: list[str], monkeypatch: Any
) -> None:
    """Also of a task that was killed, which could say nothing."""

    def execute(self: KafkatsJobOperator, context: Any) -> Any:
        if self.connection == "killed":
            raise AirflowFailException
        raise failing.failed("plan: 2 of 3 files\nand more", context=context)

    monkeypatch.setattr(KafkatsJobOperator, "execute", execute)
    volumes = "[{path: /one, connection: spark_default}, {path: /two, connection: killed}]"
    policy = write(tmp_path / "policy.yaml", f"volumes: {volumes}")
    ended = run(bag, "rebuild_time_indexes", policy=str(policy), folder=str(tmp_path / "reports"))
    assert str(ended.state) == "failed"
    told = report(tmp_path / "reports")
    assert told["failures"][:2] == [
        "plan: 2 of 3 files",
        "plan: ended without a word, as if killed; its log has more",
    ]
    assert all(line.startswith("release: ") for line in told["failures"][2:]), (
        "what a killed plan may have reserved"
    )
    assert said[-1].startswith(
        "AirflowFailException not finished: plan: 2 of 3 files (and 3 more); see "
    )
