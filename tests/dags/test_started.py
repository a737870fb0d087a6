"""How a run began, as its files tell it."""

from __future__ import annotations

from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from kafkats_airflow.runs.started import Started, started_of


class RunType(StrEnum):
    """As Airflow's own."""

    MANUAL = "manual"


def context(policy: Path, **params: Any) -> Any:
    run = SimpleNamespace(
        run_type=RunType.MANUAL,
        triggering_user_name="Ada",
        start_date=datetime(2026, 11, 22, tzinfo=UTC),
    )
    given = {"policy": str(policy), "volumes": None, "dry_run": True}
    return {"dag_run": run, "params": given | params}


def test_who_when_and_which_log_directories(tmp_path: Path) -> None:
    policy = tmp_path / "policy.yaml"
    policy.write_text("volumes: [{broker: '1', path: /data/one}, {broker: '2', path: /data/two}]")
    both = {"/data/one": "1", "/data/two": "2"}
    assert started_of(context(policy)) == Started(
        how="manual", by="Ada", began_ms=1_795_305_600_000, dry_run=True, volumes=both
    )
    assert started_of(context(policy, volumes=["2"])).volumes == {"/data/two": "2"}
    assert started_of(context(policy, phase="canary")).phase == "canary"


def test_a_run_whose_params_choose_none_is_about_those_of_its_work(tmp_path: Path) -> None:
    policy = tmp_path / "policy.yaml"
    params: Any = {"params": {"policy": str(policy)}}
    assert started_of(params, ["/data/one"]).volumes == {"/data/one": ""}, "no policy"
    policy.write_text("volumes: [{broker: '1', path: /data/one}, {broker: '2', path: /data/two}]")
    named = {"/data/one": "1", "/gone": ""}
    assert started_of(params, ["/data/one", "/gone"]).volumes == named


def test_what_cannot_be_told_is_left_out(tmp_path: Path) -> None:
    """A policy that is missing, a volume that it does not name, a task without a run."""
    policy = tmp_path / "policy.yaml"
    assert started_of(context(policy)).volumes == {}
    policy.write_text("volumes: [{broker: '1', path: /data/one}]")
    assert started_of(context(policy, volumes=["9"])).volumes == {}
    assert started_of({"params": {}}) == Started()  # type: ignore[typeddict-item]
