"""Who sees what: every route asks Airflow, and shows nothing of a DAG whose runs the person may not read."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.ui.harness import every_route

OPENED: list[str] = []
"""Every file and folder that this process has opened since the first entry."""


def note(event: str, given: tuple[Any, ...]) -> None:
    if OPENED and event in {"open", "os.scandir", "os.listdir"}:
        OPENED.append(str(given[0]))


sys.addaudithook(note)
RUN = "dag_id=rebuild_time_indexes&run_id=manual__1"


def asked(path: str) -> str:
    return f"/kafkats{path}?{RUN}"


def overview(folder: Path, dag_id: str, run: str, log_dir: str) -> Path:
    made = folder / dag_id / run
    made.mkdir(parents=True)
    content = {
        "format": 1,
        "dag_id": dag_id,
        "run_id": run,
        "written_ms": 1_767_225_600_000,
        "outcome": "dry run",
        "volumes": [
            {
                "log_dir": log_dir,
                "partitions": 1,
                "segments": 2,
                "bytes": 3,
                "log_bytes": 3,
                "kinds": {},
            }
        ],
    }
    (made / "overview.json").write_text(json.dumps(content))
    return made


def test_no_route_is_open(client: Any) -> None:
    paths = list(every_route())
    assert len(paths) >= 5
    for path in paths:
        for token, status in (("", 401), ("a stranger", 403), ("nobody", 403)):
            headers = {"Authorization": f"Bearer {token}" if token else ""}
            answer = client.get(asked(path), headers=headers, follow_redirects=False)
            assert answer.status_code == status, (path, token)
        assert client.get(asked(path), follow_redirects=False).status_code in {
            200,
            307,
            404,
            422,
        }, path


def test_every_mount_beside_the_routes_is_static() -> None:
    from kafkats_airflow.ui import rendering
    from kafkats_airflow.ui.app import create_app
    from starlette.routing import Mount

    mounts = [route for route in create_app().routes if isinstance(route, Mount)]
    assert [mount.path for mount in mounts] == [f"/{rendering.STATIC}"]


@pytest.mark.parametrize("page", ["run", "dag"])
@pytest.mark.parametrize(
    "query",
    [
        "",
        "dag_id=",
        "dag_id=~",
        "dag_id=apply_retention",
        "dag_id=rebuild_time_indexes&dag_id=apply_retention",
        "dag_id=apply_retention&dag_id=rebuild_time_indexes",
        "dag_id=../rebuild_time_indexes",
        "dag_id=%00",
    ],
)
def test_a_viewer_of_one_dag_gets_403_for_any_other(client: Any, page: str, query: str) -> None:
    headers = {"Authorization": "Bearer viewer"}
    answer = client.get(f"/kafkats/{page}?{query}&run_id=manual__1", headers=headers)
    assert answer.status_code == 403, answer.text
    right = client.get(f"/kafkats/{page}?{RUN}", headers=headers)
    assert right.status_code == 200


def test_lists_have_only_the_dags_that_the_person_may_read(client: Any, folder: Path) -> None:
    overview(folder, "rebuild_time_indexes", "manual__1", "/seen/by/all")
    overview(folder, "apply_retention", "manual__2", "/seen/by/admin")
    for page, mine, others in (
        ("volumes", "/seen/by/all", "/seen/by/admin"),
        ("runs", "manual__1", "manual__2"),
    ):
        to_admin = client.get(f"/kafkats/{page}").text
        assert mine in to_admin
        assert others in to_admin
        to_viewer = client.get(f"/kafkats/{page}", headers={"Authorization": "Bearer viewer"}).text
        assert mine in to_viewer
        assert others not in to_viewer
    assert (
        client.get(
            "/kafkats/runs?dag=apply_retention", headers={"Authorization": "Bearer viewer"}
        ).text.count("manual__2")
        == 0
    )


def test_on_a_dag_of_others_one_sentence_and_nothing_is_read(client: Any, folder: Path) -> None:
    overview(folder, "another_dag", "manual__1", "/not/ours")
    for page in ("dag", "run"):
        answer = client.get(f"/kafkats/{page}?dag_id=another_dag&run_id=manual__1")
        assert "This DAG is not one of kafkats" in answer.text
        assert "/not/ours" not in answer.text
        assert "manual__1" not in answer.text
    for page in ("volumes", "runs"):
        assert "another_dag" not in client.get(f"/kafkats/{page}").text


def test_on_a_dag_of_others_no_file_is_opened(client: Any, folder: Path) -> None:
    """The tabs are on every DAG of an installation."""
    overview(folder, "another_dag", "manual__1", "/not/ours")
    (folder.parent / "policy.yaml").write_text("volumes: []")
    paths = [f"/kafkats/{page}?dag_id=another_dag&run_id=manual__1" for page in ("dag", "run")]
    for path in paths:
        client.get(path)  # reads the templates
    before = len(OPENED)
    OPENED.append("")
    for path in paths:
        client.get(path)
    opened = [*OPENED[before + 1 :]]
    OPENED.append("")
    client.get("/kafkats/dag?dag_id=apply_retention")
    assert opened == []
    assert str(folder / "apply_retention") in OPENED[before + 2 :]


@pytest.mark.parametrize(
    "run_id",
    [
        "..",
        ".",
        "../apply_retention/manual__2",
        "../../../../../../etc",
        "/etc",
        "manual__1/..",
        "manual__1/../../apply_retention/manual__2",
        "..%2Fapply_retention%2Fmanual__2",
        "%00",
        "a" * 900,
        "link",
    ],
)
def test_a_run_id_cannot_leave_the_folder_of_its_dag(
    client: Any, folder: Path, run_id: str
) -> None:
    secret = "/seen/by/admin"
    other = overview(folder, "apply_retention", "manual__2", secret)
    mine = overview(folder, "rebuild_time_indexes", "manual__1", "/seen/by/all")
    (mine.parent / "link").symlink_to(other)
    answer = client.get("/kafkats/run", params={"dag_id": "rebuild_time_indexes", "run_id": run_id})
    assert answer.status_code == 200
    assert "has no folder that is seen from here" in answer.text
    assert secret not in answer.text
