"""Fixtures of the pages. Airflow is imported, and neither started nor given a database."""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.ui.harness import pages, served
from tests.ui.looking import Seen, looking

if "AIRFLOW_HOME" not in os.environ:  # Airflow makes ~/airflow without it
    HOME = tempfile.mkdtemp(prefix="kafkats-airflow-")
    atexit.register(shutil.rmtree, HOME, ignore_errors=True)
    os.environ["AIRFLOW_HOME"] = HOME


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The folder of all runs, empty."""
    made = tmp_path / "runs"
    made.mkdir()
    return made


@pytest.fixture
def site(folder: Path) -> Iterator[str]:
    """The address of the pages over `folder`, for a browser."""
    with served(folder, folder.parent / "policy.yaml") as address:
        yield address


@pytest.fixture(params=["light", "dark"])
def seen(request: pytest.FixtureRequest, browser: Any) -> Iterator[Seen]:
    """A person's view, in each theme. No page may make the browser complain."""
    with looking(browser, request.param) as view:
        yield view
    assert view.complaints == []


@pytest.fixture
def client(folder: Path) -> Iterator[Any]:
    """Asks the app as `admin`, unless the request says who asks."""
    from starlette.testclient import TestClient

    with pages(folder, folder.parent / "policy.yaml") as app:
        yield TestClient(
            app, headers={"Authorization": "Bearer admin"}, raise_server_exceptions=False
        )
