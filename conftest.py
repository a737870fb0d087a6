"""Fixtures for all tests, such as the golden log directories, unpacked once per session; tiers and their order."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import HealthCheck, settings
from xdist.scheduler import LoadFileScheduling

from tests import airflow_home  # noqa: F401  # before anything imports Airflow
from tests import spark as of_spark
from tests.golden import REAL_LOGS, Case, Unpacked, case
from tests.privileges import refuse_without

# What lands is judged by the same examples each time; who looks for new ones runs scripts/test without it.
# Neither an example nor its making has a time limit: a machine at work is slow, and `timeout` ends what hangs.
NO_CLOCK: Final[dict[str, Any]] = {
    "deadline": None,
    "suppress_health_check": [HealthCheck.too_slow],
}
settings.register_profile("steady", derandomize=True, database=None, **NO_CLOCK)
settings.register_profile("searching", **NO_CLOCK)
settings.load_profile("steady" if os.environ.get("KAFKATS_STEADY") else "searching")


@pytest.fixture(scope="session")
def golden(tmp_path_factory: pytest.TempPathFactory) -> Unpacked:
    """`golden("crash-4.3.1", "before")` is that state's unpacked root. Shared by all tests, of all processes: read only."""
    base = tmp_path_factory.getbasetemp()
    into = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "golden"
    into.mkdir(exist_ok=True)
    return Unpacked(into)


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    """One Chromium for all tests of this process: Playwright starts once in a process.

    Without one these tests are skipped, or fail where KAFKATS_BROWSER=required.
    """
    from tests.browser.forms import CHROMIUM, chromium

    if not os.access(CHROMIUM, os.X_OK) and os.environ.get("KAFKATS_BROWSER") != "required":
        pytest.skip(f"there is no Chromium at {CHROMIUM}")
    with chromium() as started:
        yield started


@pytest.fixture(scope="session")
def java() -> dict[str, str]:
    """The environment for a spark-submit."""
    return os.environ | of_spark.JAVA


@pytest.fixture(scope="session")
def spark() -> Iterator[Any]:
    """The one Spark session of this process."""
    yield from of_spark.session()


@pytest.fixture
def executor(spark: Any) -> Any:
    """The executor of a job: it uses that session, and prints its progress."""
    return of_spark.executor(spark)


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The figures (matplotlib's) that the test has saved, each laid out."""
    from matplotlib.figure import Figure

    figures: list[Any] = []
    save = Figure.savefig

    def kept(figure: Figure, *args: Any, **named: Any) -> None:
        save(figure, *args, **named)
        figures.append(figure)

    monkeypatch.setattr(Figure, "savefig", kept)
    return figures


def pytest_runtest_setup(item: pytest.Item) -> None:
    if item.get_closest_marker("full") and not os.environ.get("KAFKATS_FULL"):
        pytest.skip("run by scripts/test --full")
    mark = item.get_closest_marker("root")
    if mark and os.geteuid():
        refuse_without(mark.args[0])


@pytest.hookimpl(tryfirst=True)  # before -m chooses
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the cases that `examples` leaves out as slow, and sort the tests.

    Spark's and Airflow's come first, each in one process (`_OneProcess`), then files that copy
    their process: a copy takes 20 ms at the beginning, and 60 ms when tests have left 800 MB more.
    Of the others the longest come first, so that no process ends long after another.
    """
    for cases in _cases_of_functions(items).values():
        for item in _left_out(cases):
            item.add_marker(pytest.mark.slow(0))
    seconds: defaultdict[Path, float] = defaultdict(float)
    for item in items:
        seconds[item.path] += _seconds(item)
    items.sort(
        key=lambda item: (
            _service(item.nodeid) is None,
            item.get_closest_marker("forks") is None,
            -seconds[item.path],
            item.path,
            _seconds(item) > 0,
        )
    )


def _cases_of_functions(items: list[pytest.Item]) -> dict[str, list[pytest.Function]]:
    """Return the cases of each function that has the marker `examples`."""
    found: defaultdict[str, list[pytest.Function]] = defaultdict(list)
    for item in items:
        if isinstance(item, pytest.Function) and item.get_closest_marker("examples"):
            found[f"{item.path}::{item.originalname}"].append(item)
    return found


def _left_out(cases: list[pytest.Function]) -> list[pytest.Function]:
    """Return the cases that the first tier leaves out.

    `examples(3)`: three cases, spread evenly, are kept. `examples(by="kafka")`: the first case for
    each value of this attribute of a golden directory.
    """
    mark = cases[0].get_closest_marker("examples")
    assert mark
    if "by" not in mark.kwargs:
        (count,) = mark.args
        kept = {len(cases) * n // count for n in range(count)}
        return [item for n, item in enumerate(cases) if n not in kept]
    first: dict[object, pytest.Function] = {}
    for item in cases:
        first.setdefault(getattr(_golden_case(item), mark.kwargs["by"]), item)
    return [item for item in cases if item not in first.values()]


def _golden_case(item: pytest.Function) -> Case:
    """Return the golden directory among the test's parameters, which names it or is it."""
    return next(
        one if isinstance(one, Case) else case(one)
        for one in item.callspec.params.values()
        if isinstance(one, Case) or (isinstance(one, str) and (REAL_LOGS / one).is_dir())
    )


def _service(nodeid: str) -> str | None:
    """Return what a test needs that is made once for a process and takes seconds: Airflow's database, a Spark session."""
    folder = nodeid.split("/")[1]
    return {"dags": "Airflow", "spark_jobs": "Spark", "pyspark_kafkats": "Spark"}.get(folder)


class _OneProcess(LoadFileScheduling):  # type: ignore[misc]  # xdist has no types
    """A file's tests run in one process; so do all tests that need the same service."""

    def _split_scope(self, nodeid: str) -> str:
        return _service(nodeid) or super()._split_scope(nodeid)


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    return _OneProcess(config, log)


def _seconds(item: pytest.Item) -> float:
    marks = (item.get_closest_marker(name) for name in ("slow", "long", "full"))
    return max((float(mark.args[0]) for mark in marks if mark), default=0)


_SLOWEST: Final = 10
_MINUTE: Final = 60
_seconds_of_files: defaultdict[str, float] = defaultdict(float)


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    _seconds_of_files[report.nodeid.partition("::")[0]] += report.duration


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Print which files took the longest, where all took more than a minute."""
    if sum(_seconds_of_files.values()) < _MINUTE:
        return
    terminalreporter.section(f"the {_SLOWEST} slowest files, in seconds with their fixtures")
    slowest = sorted(_seconds_of_files.items(), key=lambda one: -one[1])
    for file, seconds in slowest[:_SLOWEST]:
        terminalreporter.write_line(f"{seconds:7.1f}  {file}")
