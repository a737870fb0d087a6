"""Volumes with nothing beside them for a work area: the policy names one, and every job of a DAG is told of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner
from kafkats_airflow import deployment
from kafkats_airflow.jobs.plan_job import to_release
from kafkats_airflow.runs.volumes import groups_of

from kafkats.cli import cli
from kafkats.config.reading import read_policy
from kafkats.errors import Refused
from kafkats.logdir.reservation import read_reservation, reservation_area
from kafkats.request import PolicyContent, made_of
from tests.dags.runs import REBUILD, Again, data, report, retain, states


def in_a_log_directory(root: Path) -> Path:
    """As a mount of its own is: there can be nothing beside it."""
    (root.parent / "meta.properties").write_text("version=1\n")
    return root


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (path := tmp_path / "work").mkdir()
    return path


def policy(root: Path, place: Path | None, **more: Any) -> str:
    one = {"broker": "1", "path": str(root), "owner_stopped": True} | (
        {"work_area": str(place)} if place else {}
    )
    path = root.parents[1] / "policy-with-area.yaml"
    path.write_text(yaml.safe_dump({"volumes": [one]} | more))
    return str(path)


def rebuild(bag: Any, root: Path, place: Path | None, **params: Any) -> Any:
    conf = (
        REBUILD
        | {"policy": policy(root, place), "folder": str(root.parents[1] / "reports")}
        | params
    )
    return bag.dags["rebuild_time_indexes"].test(run_conf=conf, logical_date=None)


def files(root: Path) -> dict[str, bytes]:
    found = {str(path.relative_to(root)): path for path in root.rglob("*") if path.is_file()}
    return {name: path.read_bytes() for name, path in found.items() if name != ".lock"}


@pytest.mark.slow(1)
def test_without_one_the_plan_says_what_to_name(
    bag: Any, damaged: Path, here: list[str], errors: list[BaseException]
) -> None:
    before = data(in_a_log_directory(damaged))
    run = rebuild(bag, damaged, None, need_approval=False)
    assert (str(run.state), states(run)["plan"]) == ("failed", "failed")
    assert "the parent is a log directory too" in str(errors[0])
    assert "(work_area in the policy)" in str(errors[0])
    assert data(damaged) == before


@pytest.mark.slow(2)
def test_what_is_replaced_lies_in_the_named_one(
    bag: Any, damaged: Path, here: list[str], place: Path
) -> None:
    before = files(in_a_log_directory(damaged))
    run = rebuild(bag, damaged, place, need_approval=False)
    assert (str(run.state), report(damaged)["outcome"]) == ("success", "rebuilt and proved"), (
        states(run)
    )
    assert {path.name for path in damaged.parent.iterdir()} == {"data", "meta.properties"}, (
        "nothing beside it"
    )
    assert len(list(place.iterdir())) == 1
    assert read_reservation(reservation_area(damaged, place)) is None
    [done] = report(damaged)["runs"]
    assert CliRunner().invoke(cli, ["undo", done]).exit_code == 0
    assert files(damaged) == before


@pytest.mark.slow(1)
def test_a_no_releases_the_reservation_there(
    bag: Any, damaged: Path, here: list[str], place: Path, answering: dict[str, Any]
) -> None:
    answering["says"] = "Reject"
    run = rebuild(bag, in_a_log_directory(damaged), place)
    assert (str(run.state), here) == ("success", ["plan", "release"])
    assert read_reservation(reservation_area(damaged, place)) is None
    assert list(place.rglob("reservation.lock")), "it was there"


@pytest.mark.slow(2)
def test_old_files_are_purged_from_it(bag: Any, volume: Path, here: list[str], place: Path) -> None:
    limits = {"topics": {"time-*": {"cleanup.policy": "delete", "retention.ms": 86400000}}}
    named = {"policy": policy(in_a_log_directory(volume), place, **limits)}
    run = retain(bag, volume, **named, undo_days=0)
    assert str(run.state) == "success", states(run)
    assert here == ["plan", "apply", "verify", "purge"]
    assert report(volume)["purged"] == report(volume)["runs"] != []
    assert report(volume)["purged_bytes"] > 0
    assert not list(place.rglob("*.log"))


@pytest.mark.slow(1)
def test_a_plan_is_not_applied_with_another_one(
    bag: Any, damaged: Path, here: list[str], place: Path, answering: dict[str, Any], again: Again
) -> None:
    """A policy that was changed while the question was open."""
    answering["says"] = "Reject"
    run = rebuild(bag, in_a_log_directory(damaged), place)
    before = data(damaged)
    policy(damaged, None)
    answering["says"] = "Approve"
    run = again(run, "approve", "apply", "verify", "report")
    assert (str(run.state), states(run)["apply"]) == ("failed", "failed")
    assert data(damaged) == before


def groups(tmp_path: Path, *areas: str | None) -> Any:
    path = tmp_path / "policy.yaml"
    volumes: list[dict[str, Any]] = [{"path": f"/v/{n}", "broker": "1"} for n in range(len(areas))]
    for one, area in zip(volumes, areas, strict=True):
        one |= {"work_area": area} if area else {}
    path.write_text(yaml.safe_dump({"volumes": volumes}))
    return {"policy": str(path), "volumes": []}


def test_volumes_with_another_one_are_an_application_of_their_own(tmp_path: Path) -> None:
    params = groups(tmp_path, None, "/area/a", "/area/b", "/area/a", "/area_a")
    found = groups_of(params)
    assert [(one.work_area, one.log_dirs) for one in found] == [
        ("", ["/v/0"]), ("/area/a", ["/v/1", "/v/3"]), ("/area/b", ["/v/2"]), ("/area_a", ["/v/4"]),
    ]  # fmt: skip
    assert len({one.name for one in found}) == 4 and found[0].name == "spark_default"
    [reading] = groups_of(params, by_broker=True, writes=False)
    assert len(reading.log_dirs) == 5, "what only reads needs none"


def test_release_is_told_of_it() -> None:
    options = {"WorkArea": {"place": "/w"}}
    request = {"operation": "retain", "log_dirs": ["/v/0", "/v/1"], "options": options}
    expected = {
        "conn_id": "c",
        "request": {"log_dirs": ["/v/0", "/v/1"], "options": options},
    }
    assert to_release({"conn_id": "c", "request": request}) == expected
    words = ["retain", "/v/0", "/v/1", "--work-area", "/w", "--topics", "*"]
    assert to_release({"conn_id": "c", "application_args": words}) == expected, "an older version's"


def test_a_deployment_with_approvers_takes_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    params = groups(tmp_path, None, "/area/a")
    monkeypatch.setattr(deployment.settings, "HARDENED", True)
    monkeypatch.setattr(deployment.settings, "POLICY", params["policy"])
    monkeypatch.setattr(deployment.settings, "FOLDER", str(tmp_path))
    policy = PolicyContent.of(read_policy(Path(params["policy"])))
    asked = {"verb": "plan", "operation": "rebuild", "made_ms": 0, "policy": policy}
    asked |= {"log_dirs": [{"path": "/v/1"}]}

    def check(area: str) -> None:
        request = made_of(asked | {"options": {"WorkArea": {"place": area}}})
        deployment.check_request("spark_default", request, deployment.place_of({}))

    check("/area/a")
    for other in ("/area/b", "/v/0", str(tmp_path)):
        with pytest.raises(Refused, match=r"work_area .* is none of the policy's"):
            check(other)
