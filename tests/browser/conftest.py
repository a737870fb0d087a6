"""One Airflow for all tests of a file: it takes a tenth of a core while it waits. Without Chromium they are skipped, or fail where KAFKATS_BROWSER=required."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.browser.alerts import Told
from tests.browser.attack import PLANTED
from tests.browser.forms import CHROMIUM, signed_in
from tests.browser.standalone import Standalone, standalone
from tests.browser.volumes import Volumes
from tests.browser.without_spark import PLACE, PLANS


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if os.access(CHROMIUM, os.X_OK) or os.environ.get("KAFKATS_BROWSER") == "required":
        return
    for item in items:
        if item.path.parent == Path(__file__).parent:
            item.add_marker(pytest.mark.skip(reason=f"there is no Chromium at {CHROMIUM}"))


@pytest.fixture(scope="module")
def place() -> Iterator[Path]:
    """Not pytest's own: its names are long, and SQLite's and Spark's sockets are not."""
    home = Path(tempfile.mkdtemp(prefix="kafkats-browser-"))
    yield home
    if not os.environ.get("KAFKATS_KEEP"):
        shutil.rmtree(home, ignore_errors=True)


@pytest.fixture(scope="module")
def volumes(place: Path) -> Volumes:
    return Volumes(place)


@pytest.fixture(scope="module")
def told(place: Path) -> Told:
    return Told(place / "airflow")


@pytest.fixture(scope="module")
def airflow(place: Path, volumes: Volumes, told: Told) -> Iterator[Standalone]:
    more = volumes.environment | PLANTED | told.environment
    if not os.environ.get("KAFKATS_FULL"):  # the words of all attacks reach jobs, and those of
        more[PLACE] = f"{place / 'attacked'}/"  # `questions` and of all other tests reach Spark,
        more[PLANS] = f"{place / 'pages'}/"  # but for the plans of `Asking`
    # Behind a path, as a proxy has it: every address of ours and of Airflow has to keep it.
    with standalone(place / "airflow", more, prefix="/air") as started:
        yield started


@pytest.fixture(scope="module")
def page(browser: Any, airflow: Standalone) -> Iterator[Any]:
    with signed_in(browser, airflow) as opened:
        yield opened
