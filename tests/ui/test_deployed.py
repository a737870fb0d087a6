"""Two sets of DAGs: each has its own folder and policy, and pages show one of them."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest
from kafkats_airflow import settings
from kafkats_airflow.forms.tags import Dag

from tests.ui.folders import change, ended, reclaimable, volume

NOW_MS = time.time_ns() // 1_000_000
OWN = {"rebuild_time_indexes": "rebuild", "apply_retention": "retain", "end_run": "end"}
WEST = {f"west_{dag_id}": operation for dag_id, operation in OWN.items()}


@pytest.fixture
def west(folder: Path) -> Path:
    """The folder of the second set."""
    made = folder.parent / "west"
    made.mkdir()
    policy = "volumes:\n- {{broker: '{}', path: {}}}\n"
    (folder.parent / "policy.yaml").write_text(policy.format(1, "/unseen/own"))
    (folder.parent / "west.yaml").write_text(policy.format(7, "/unseen/west"))
    return made


@pytest.fixture
def both(monkeypatch: pytest.MonkeyPatch, client: Any, west: Path) -> Any:
    """The pages, where Airflow has both sets."""
    from kafkats_airflow.ui import dags, rights

    from tests.ui import harness

    place = (str(west.parent / "west.yaml"), str(west))
    own = [Dag(*one, settings.POLICY, settings.FOLDER) for one in OWN.items()]
    other = [Dag(*one, *place) for one in WEST.items()]
    monkeypatch.setattr(dags, "deployed", lambda: dags.Dags((*own, *other)))
    ids = frozenset(OWN) | frozenset(WEST)
    people = {"admin": ids, "viewer": frozenset(WEST), "nobody": frozenset[str]()}
    monkeypatch.setattr(harness, "PEOPLE", people)
    monkeypatch.setattr(rights, "ours", frozenset)
    return client


def ran(folder: Path, dag: str, log_dir: str) -> None:
    """A run of this DAG that found damage and reclaimable bytes, and can be undone."""
    undo = change(folder / dag / "r", "d1" * 32, {log_dir: 5}, None)
    found = volume(log_dir, kinds={"damage": {"empty-index": 3}}, reclaimable=reclaimable(5))
    ended(folder, NOW_MS, found, dag=dag, run="r", undo=[undo])


def test_each_page_shows_one_set(both: Any, folder: Path, west: Path) -> None:
    ran(folder, "apply_retention", "/own")
    ran(west, "west_apply_retention", "/west")
    for page in ("volumes", "runs", "audit"):
        first, second = (both.get(f"/kafkats/{page}{q}").text for q in ("", "?set=west"))
        mine, others = "apply_retention", "west_apply_"
        if page == "volumes":
            mine, others = "/own", "/west"
        assert mine in first and others not in first
        assert others in second
        assert f'href="{page}?set=west"' in first and f'href="{page}"' in second
    second = both.get("/kafkats/volumes?set=west").text
    assert "/unseen/west" in second and "broker 7" in second and "/unseen/own" not in second
    assert 'href="runs?set=west"' in second and 'name="set" value="west"' in second
    assert 'title="Opens west_apply_retention' in second
    assert 'title="Opens apply_retention' not in second


def test_a_run_is_read_from_the_folder_of_its_set(both: Any, folder: Path, west: Path) -> None:
    ran(west, "west_apply_retention", "/west")
    page = both.get("/kafkats/run?dag_id=west_apply_retention&run_id=r").text
    assert 'data-end="west_end_run" data-dag="west_apply_retention"' in page
    assert 'href="volumes?set=west"' in page
    assert "/west" in both.get("/kafkats/dag?dag_id=west_apply_retention").text
    ran(folder, "west_apply_retention", "/elsewhere")
    assert "/elsewhere" not in both.get("/kafkats/dag?dag_id=west_apply_retention").text


def test_the_newest_report_of_a_set(both: Any, west: Path) -> None:
    ran(west, "west_apply_retention", "/west")
    (west / "west_apply_retention" / "r" / "board.json").write_text("{}")
    assert "No run has a report" in both.get("/kafkats/retention").text
    answer = both.get("/kafkats/retention?set=west", follow_redirects=False)
    assert "dag_id=west_apply_retention" in answer.headers["location"]


def test_who_may_read_one_set_sees_no_other(both: Any, folder: Path, west: Path) -> None:
    ran(folder, "apply_retention", "/own")
    ran(west, "west_apply_retention", "/west")
    viewer = {"Authorization": "Bearer viewer"}
    page = both.get("/kafkats/volumes", headers=viewer).text
    assert "/west" in page and "/own" not in page and "Sets of DAGs" not in page
    for name in ("nowhere", "default"):
        assert both.get(f"/kafkats/volumes?set={name}", headers=viewer).status_code == 404


def test_volumes_of_a_policy_are_seen_by_who_may_read_a_dag_with_it(
    both: Any, folder: Path, west: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two policies share the folder of the deployment; the viewer reads the DAGs of the west."""
    from kafkats_airflow.ui import dags

    own = [Dag(*one, settings.POLICY, settings.FOLDER) for one in OWN.items()]
    other = [Dag(*one, str(west.parent / "west.yaml"), settings.FOLDER) for one in WEST.items()]
    monkeypatch.setattr(dags, "deployed", lambda: dags.Dags((*own, *other)))
    page = both.get("/kafkats/volumes").text
    assert "/unseen/own" in page and "/unseen/west" in page
    ran(folder, "west_apply_retention", "/west")
    for address in ("volumes", "runs", "run?dag_id=west_apply_retention&run_id=r"):
        text = both.get(f"/kafkats/{address}", headers={"Authorization": "Bearer viewer"}).text
        assert "/west" in text and "/unseen/own" not in text and "broker 1<" not in text
    text = both.get("/kafkats/volumes", headers={"Authorization": "Bearer viewer"}).text
    assert "/unseen/west" in text and "broker 7" in text


def test_a_single_set_has_the_addresses_that_it_had(client: Any, folder: Path) -> None:
    ran(folder, "apply_retention", "/own")
    page = client.get("/kafkats/volumes").text
    assert "?set=" not in page and "Sets of DAGs" not in page and '<a href="runs">' in page


def test_metrics_of_another_set_have_its_name(
    both: Any, folder: Path, west: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(settings, "METRICS_TOKEN", "secret")
    ran(folder, "apply_retention", "/same")
    ran(west, "west_apply_retention", "/same")
    headers = {"Authorization": "Bearer secret"}
    lines = both.get("/kafkats-metrics/metrics", headers=headers).text.splitlines()
    assert 'kafkats_volume_bytes{volume="/same"} 4096.0' in lines
    assert 'kafkats_volume_bytes{set="west",volume="/same"} 4096.0' in lines
    assert "kafkats_folder_readable 1.0" in lines
    assert 'kafkats_folder_readable{set="west"} 1.0' in lines


def test_a_set_whose_dags_are_stale_is_still_there(
    both: Any, folder: Path, west: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An error in the file of the set: its reports and metrics are there, and no DAG to trigger."""
    from kafkats_airflow.ui import dags, deployed

    known = [one._replace(stale=one.dag_id in WEST) for one in dags.deployed().dags]
    renamed = Dag("a_end_run", "end", folder=str(west))
    monkeypatch.setattr(dags, "deployed", lambda: dags.Dags((renamed, *known)))
    assert [*deployed.folders()] == ["", "a"], "a prefix of today names the set"
    monkeypatch.setattr(dags, "deployed", lambda: dags.Dags(tuple(known)))
    ran(west, "west_apply_retention", "/west")
    page = both.get("/kafkats/volumes?set=west").text
    assert "empty-index 3" in page and "/unseen/west" in page
    assert "no DAG with the tag kafkats:rebuild is deployed" in page and "../dags/" not in page
    assert deployed.folders() == {"": folder, "west": west}


def test_metrics_are_there_while_the_database_is_not(
    both: Any, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from kafkats_airflow.ui import dags
    from sqlalchemy.exc import OperationalError

    def down() -> Any:
        raise OperationalError("SELECT", {}, Exception("connection refused"))

    monkeypatch.setattr(dags, "deployed", down)
    monkeypatch.setattr(settings, "METRICS_TOKEN", "secret")
    ran(folder, "apply_retention", "/own")
    answer = both.get("/kafkats-metrics/metrics", headers={"Authorization": "Bearer secret"})
    assert 'kafkats_volume_bytes{volume="/own"} 4096.0' in answer.text


def test_sets_of_copies_and_of_one_name(folder: Path) -> None:
    from kafkats_airflow.ui.dags import Dags
    from kafkats_airflow.ui.deployed import sets

    known = [
        Dag("end_run", "end"),
        Dag("copy", "end", "/b.yaml", settings.FOLDER + "/"),
        Dag("west_end_run", "end", "/c.yaml", "/runs/c"),
        Dag("west_roll_segments", "roll", "/d.yaml", "/runs/d"),
        Dag("mine", "roll", "/e.yaml", "/runs/e"),
    ]
    found = {one.name: one.dags.ids for one in sets(Dags(tuple(known)))}
    assert found == {
        "": {"end_run", "copy"},
        "west": {"west_end_run"},
        "/runs/d": {"west_roll_segments"},
        "/runs/e": {"mine"},
    }


def test_pages_say_that_workers_write_elsewhere(
    client: Any, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from kafkats_airflow.shared_folder import Seen
    from kafkats_airflow.ui import unseen

    asked: list[tuple[Path, int]] = []

    def elsewhere(folder: Path, dag_ids: frozenset[str]) -> Seen:
        asked.append((folder, len(dag_ids)))
        return Seen(folder=str(folder), mark="0" * 32, host="worker-7")

    for page in ("volumes", "runs", "audit", "retention"):
        assert "write into another folder" not in client.get(f"/kafkats/{page}").text
    monkeypatch.setattr(unseen, "elsewhere", elsewhere)
    for page in ("volumes", "runs", "audit", "retention"):
        text = client.get(f"/kafkats/{page}").text
        assert "The workers write into another folder" in text and "worker-7" in text
    assert asked == [(folder, 9)] * 4
    viewer = {"Authorization": "Bearer viewer"}
    assert "worker-7" in client.get("/kafkats/runs", headers=viewer).text
