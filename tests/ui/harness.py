"""The pages without Airflow: the real app and its checks of rights, with an auth manager that knows two people.

    python -m tests.ui.harness FOLDER [PORT]      # http://127.0.0.1:PORT/kafkats/volumes, as `admin`

`admin` reads the runs of every DAG in DAGS, `viewer` only those of SEEN, `nobody` may not see Airflow's pages.
"""

from __future__ import annotations

import os
import re
import socket
import sys
import threading
from collections.abc import Generator, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import pytest

ROOT: Final = Path(__file__).parents[2]
if str(ROOT / "plugins") not in sys.path:
    sys.path.insert(0, str(ROOT / "plugins"))

OPERATIONS: Final = {
    path.stem: re.findall(r'dags\.dag\(\s+"\w+",\s+"(\w+)"', path.read_text())[0]
    for path in sorted((ROOT / "plugins/kafkats_airflow/dags").glob("[!_]*.py"))
}
"""DAG -> its operation, by its tag."""
OURS: Final = frozenset(OPERATIONS)
DAGS: Final = OURS | {"another_dag"}
"""`another_dag` is none of kafkats."""
SEEN: Final = frozenset({"rebuild_time_indexes", "another_dag"})
PEOPLE: Final = {"admin": DAGS, "viewer": SEEN, "nobody": frozenset[str]()}


def every_route() -> Iterator[str]:
    """The paths of all pages and data, none of which writes."""
    from fastapi.routing import APIRoute
    from kafkats_airflow.ui.app import ROUTERS

    for router in ROUTERS:
        for route in router.routes:
            assert isinstance(route, APIRoute)
            assert route.methods == {"GET"}, "the app has no route that writes"
            yield route.path


class Person:
    def __init__(self, name: str) -> None:
        self.name = name

    def get_id(self) -> str:
        return self.name

    def get_name(self) -> str:
        return self.name


class Manager:
    """What the pages ask of Airflow's auth manager. A token is the name of a person."""

    async def get_user_from_token(self, token: str) -> Person:
        from jwt import InvalidTokenError

        if token not in PEOPLE:
            raise InvalidTokenError
        return Person(token)

    def is_authorized_view(self, *, access_view: Any, user: Person) -> bool:
        return user.name != "nobody"

    def get_authorized_dag_ids(self, *, user: Person, method: str) -> set[str]:
        return set(PEOPLE[user.name])

    def is_authorized_dag(
        self, *, method: str, access_entity: Any, details: Any, user: Person
    ) -> bool:
        return method == "GET" and details.id in PEOPLE[user.name]


def deployed() -> Any:
    """The DAGs of the project, as Airflow's database would have them."""
    from kafkats_airflow.forms.tags import Dag
    from kafkats_airflow.ui import dags

    return dags.Dags(tuple(Dag(*one) for one in OPERATIONS.items()))


@contextmanager
def pages(folder: Path, policy: Path | None = None) -> Generator[Any]:
    """The pages and the metrics, mounted as Airflow mounts them, over this folder of all runs."""
    from airflow.api_fastapi import app as airflow_app
    from airflow.models.dag import DagModel
    from fastapi import FastAPI
    from kafkats_airflow import settings
    from kafkats_airflow.metrics import endpoint
    from kafkats_airflow.ui import dags, rights, unseen
    from kafkats_airflow.ui.mounted import Pages, folders

    def tagged(dag_ids: Iterable[str]) -> frozenset[str]:
        return frozenset(dag_ids) & OURS

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(settings, "FOLDER", str(folder))
        patch.setattr(settings, "POLICY", str(policy or folder / "no-policy.yaml"))
        patch.setattr(airflow_app._AuthManagerState, "instance", Manager())
        patch.setattr(DagModel, "get_team_name", lambda dag_id: None)
        patch.setattr(DagModel, "get_dag_id_to_team_name_mapping", lambda dag_ids: {})
        patch.setattr(rights, "ours", tagged)
        patch.setattr(dags, "deployed", deployed)
        patch.setattr(dags, "over", lambda asked: frozenset())
        patch.setattr(unseen, "elsewhere", lambda folder, dag_ids: None)
        outer = FastAPI()
        outer.mount("/kafkats", Pages())
        outer.mount(endpoint.PREFIX, endpoint.Metrics(folders))
        yield outer


class SignedIn:
    """Whoever comes without a cookie is `admin`."""

    def __init__(self, app: Any) -> None:
        self.app = app

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http" and not any(n == b"cookie" for n, _ in scope["headers"]):
            scope["headers"] = [*scope["headers"], (b"cookie", b"_token=admin")]
        await self.app(scope, receive, send)


@contextmanager
def served(folder: Path, policy: Path | None = None) -> Generator[str]:
    """Serve the app from a thread, for a browser; gives the address of its pages."""
    import uvicorn

    with pages(folder, policy) as app, socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        server = uvicorn.Server(uvicorn.Config(SignedIn(app), log_level="warning", lifespan="off"))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
        listening.listen()  # who connects before the server runs waits
        thread.start()
        try:
            yield f"http://127.0.0.1:{listening.getsockname()[1]}/kafkats"
        finally:
            server.should_exit = True
            thread.join(30)


def serve(folder: Path, port: int) -> None:
    """Serve until Ctrl-C."""
    import uvicorn

    policy = Path(os.environ["KAFKATS_POLICY"]) if "KAFKATS_POLICY" in os.environ else None
    with pages(folder, policy) as app:
        uvicorn.run(SignedIn(app), host="127.0.0.1", port=port, log_level="warning")


if __name__ == "__main__":
    serve(Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 8099)
