"""Whether workers and api-server see one folder: the token, the XCom of a first task, the note of a page."""

from __future__ import annotations

import json
import logging
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from kafkats_airflow.shared_folder import KEY, Seen, compare, look, seen_in, variable_of


def told(folder: Path) -> dict[str, Any]:
    """What the first task of a run with this folder pushes."""
    pushed: dict[str, Any] = {}
    compare({
        "params": {"folder": str(folder)},
        "ti": SimpleNamespace(xcom_push=pushed.__setitem__),
    })  # type: ignore[typeddict-item]
    return pushed


@pytest.fixture
def note(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """The Variables of Airflow."""
    kept: dict[str, Any] = {}

    def get(key: str, default: object, deserialize_json: bool) -> object:
        return json.loads(kept[key]) if key in kept else default

    monkeypatch.setattr("airflow.sdk.Variable.get", get)
    return kept


def test_a_folder_has_one_token_from_its_first_look_on(tmp_path: Path) -> None:
    with ThreadPoolExecutor(8) as pool:
        seen = [*pool.map(look, [str(tmp_path / "runs")] * 32)]
    assert all(one.is_at(tmp_path / "runs") for one in seen)
    assert look(str(tmp_path / "runs")) == look(str(tmp_path / "runs"))
    assert not look(str(tmp_path / "other")).is_at(tmp_path / "runs")


@pytest.mark.parametrize(
    "content",
    [
        None,
        "text",
        {},
        {"folder": "/a", "mark": "../../etc/passwd", "host": "h"},
        {"folder": "/a", "mark": "A" * 32, "host": "h"},
    ],
)
def test_what_is_no_token(content: object) -> None:
    assert seen_in(content) is None


def test_the_first_task_warns_only_of_its_own_folder(
    tmp_path: Path, note: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    [seen] = [seen_in(one) for one in told(tmp_path).values()]
    assert seen is not None and seen.is_at(tmp_path)
    assert told(tmp_path) == {KEY: seen.model_dump()}
    assert not caplog.records
    key = variable_of(str(tmp_path))
    with caplog.at_level(logging.WARNING):
        note[key] = Seen(folder=str(tmp_path), mark="0" * 32, host="api").model_dump_json()
        told(tmp_path)
        assert not caplog.records, "of a folder that was here before"
        note[key] = seen.model_copy(update={"host": "api"}).model_dump_json()
        told(tmp_path)
    assert "the api-server api sees another folder at" in caplog.text


def test_a_note_that_cannot_be_read_fails_no_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def get(*_: object, **__: object) -> object:
        raise RuntimeError("no backend")

    monkeypatch.setattr("airflow.sdk.Variable.get", get)
    assert KEY in told(tmp_path)
    (tmp_path / "file").touch()
    assert told(tmp_path / "file") == {}, "a folder that cannot be made fails the task elsewhere"


def test_a_page_compares_and_notes(bag: Any, tmp_path: Path) -> None:
    """With Airflow's database: what the first task pushed, what the page sees, what the next is told."""
    from airflow.models.dagrun import DagRun
    from airflow.models.variable import Variable
    from airflow.models.xcom import XComModel
    from airflow.utils.session import create_session
    from kafkats_airflow.ui.unseen import elsewhere

    workers, here = tmp_path / "runs", tmp_path / "here"
    here.mkdir()
    run = bag.dags["clean_reports"].test(run_conf={"folder": str(workers)}, logical_date=None)
    assert str(run.state) == "success"
    ids, key = {"clean_reports"}, variable_of(str(workers))
    assert elsewhere(workers, ids) is None and elsewhere(workers, {"roll_segments"}) is None
    workers.rename(tmp_path / "mounted elsewhere")
    workers.mkdir()
    seen = elsewhere(workers, ids)
    assert seen is not None and seen.folder == str(workers)
    with create_session() as session:
        assert session.query(DagRun).filter(DagRun.run_id == run.run_id).count() == 1
        assert session.query(XComModel).filter(XComModel.key == KEY).count() >= 1
    noted = seen_in(json.loads(Variable.get(key)))
    assert noted is not None and noted.mark == seen.mark
    assert elsewhere(workers, ids) == seen, "again, with the note there"
    workers.rmdir()
    (tmp_path / "mounted elsewhere").rename(workers)
    assert elsewhere(workers, ids) is None
    assert Variable.get(key, default_var=None) is None
