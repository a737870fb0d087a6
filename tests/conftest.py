"""What all tests share: the golden log directories, unpacked once per session."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import HealthCheck, settings

from tests import spark as of_spark
from tests.golden import Unpacked
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
    """What a job works with: on that session, and it prints its progress."""
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
    mark = item.get_closest_marker("root")
    if mark and os.geteuid():
        refuse_without(mark.args[0])


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Sort: the longest file of all, files that copy their process, the quick ones, the others.

    The longest file waits a lot, beside processes that work. A copy of the process takes 20 ms at
    the beginning, and 60 ms when tests have left 800 MB more. Quick tests show most mistakes early.
    Of the others the longest come first, so that no process ends long after another.
    """
    seconds: defaultdict[Path, float] = defaultdict(float)
    for item in items:
        seconds[item.path] += _slow(item)
    longest = max(seconds, key=lambda path: seconds[path], default=None)
    items.sort(
        key=lambda item: (
            item.path != longest or len(seconds) < _MANY_FILES,
            item.get_closest_marker("forks") is None,
            seconds[item.path] > 0,
            -seconds[item.path],
            item.path,
            _slow(item) > 0,
        )
    )


def _slow(item: pytest.Item) -> float:
    mark = item.get_closest_marker("slow")
    return float(mark.args[0]) if mark else 0


_MANY_FILES: Final = 100
"""So many are tested by more than one process."""
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
