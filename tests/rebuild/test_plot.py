"""The pictures of index health and of migrations: they come out, and can be read."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import astuple
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from matplotlib.figure import Figure

from kafkats.errors import StorageFailed
from kafkats.findings import KINDS
from kafkats.migration import plot as migration_plot
from kafkats.migration.census import CENSUS
from kafkats.plans.facts import SEGMENTS
from kafkats.rebuild import plot
from tests.builders.findings import TABLE, finding, segments

PNG = b"\x89PNG\r\n\x1a\n"


@pytest.mark.parametrize(
    "panels", [{"before": TABLE, "after": TABLE.slice(0, 1)}, {"nothing": SEGMENTS.empty_table()}]
)
def test_a_picture_comes_out(panels: dict[str, pa.Table], tmp_path: Path) -> None:
    plot.plot_health(panels, tmp_path / "health.png")
    assert (tmp_path / "health.png").read_bytes().startswith(PNG)


@pytest.mark.slow(2)
def test_thousands_of_partitions_fit(tmp_path: Path) -> None:
    many = segments(*((f"topic-{n}", 0, []) for n in range(3000)))
    plot.plot_health({"many": many}, tmp_path / "health.png")
    assert (tmp_path / "health.png").stat().st_size < 1_000_000


def test_the_numbers_of_segments_are_whole_and_all_kinds_are_in_the_picture(
    tmp_path: Path, drawn: list[Figure]
) -> None:
    rows = (("t-0", n, [finding(kind, "x.timeindex")]) for n, kind in enumerate(KINDS))
    plot.plot_health({"before": segments(*rows, ("t-1", 0, []))}, tmp_path / "health.png")
    [figure] = drawn
    assert {tick % 1 for tick in figure.axes[0].get_xticks()} == {0}
    assert figure.legends[0].get_window_extent().ymin >= 0
    assert len(figure.legends[0].get_texts()) == len(KINDS) + 1


def test_a_place_that_cannot_be_written_is_our_error(tmp_path: Path) -> None:
    with pytest.raises(StorageFailed, match="writing the plot"):
        plot.plot_health({"x": TABLE}, tmp_path / "no" / "such" / "folder.png")


def test_importing_does_not_import_matplotlib() -> None:
    code = "import sys, kafkats.rebuild.plot; raise SystemExit('matplotlib' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_labels_tell_log_directories_apart() -> None:
    assert plot._labels([("/a/one/data", "t-0"), ("/a/two/data", "t-0")])[1] == [
        "one/data/t-0",
        "two/data/t-0",
    ]
    assert plot._labels([("/a/one/data", "t-0")])[1] == ["t-0"]
    assert plot._labels([]) == ([], [])


def census(*rows: tuple[str, str, int, int]) -> pa.Table:
    return pa.Table.from_pylist(
        [
            dict.fromkeys(CENSUS.names, None)
            | {"log_dir": log_dir, "topic": topic, "magic": magic, "bytes": size}
            for log_dir, topic, magic, size in rows
        ],
        schema=CENSUS,
    )


FORMATS = census(
    ("/one", "new", 2, 900), ("/one", "old", 0, 20), ("/one", "old", 0, 5), ("/one", "old", 2, 1), ("/one", "mid", 1, 30),
    ("/one", "empty", -1, 0), ("/two", "new", 2, 7),
)  # fmt: skip


def test_topics_with_most_old_bytes_come_first() -> None:
    assert migration_plot.format_shares(FORMATS) == {
        "/one": [
            ("all topics", [25, 30, 901]),
            ("mid", [0, 30, 0]),
            ("old", [25, 0, 1]),
            ("new", [0, 0, 900]),
        ],
        "/two": [("all topics", [0, 0, 7]), ("new", [0, 0, 7])],
    }
    assert migration_plot.magic_bytes(FORMATS) == [25, 30, 908]


def test_many_topics_are_one_bar() -> None:
    many = census(*(("/one", f"t{n:03}", n % 3, n + 1) for n in range(500)))
    [bars] = migration_plot.format_shares(many).values()
    assert (len(bars), bars[-1][0]) == (62, "440 other topics")
    assert sum(sum(sizes) for _, sizes in bars[1:]) == sum(bars[0][1]) == sum(range(501))


@pytest.mark.parametrize("table", [FORMATS, CENSUS.empty_table()], ids=["some", "none"])
def test_pictures_of_formats(table: pa.Table, tmp_path: Path) -> None:
    migration_plot.plot_formats(table, tmp_path / "formats.png")
    for runs in ([], [(0, table)], [(86_400_000, FORMATS), (0, table)]):
        migration_plot.plot_burn_down(runs, tmp_path / "burn-down.png")
        assert (tmp_path / "burn-down.png").read_bytes().startswith(PNG)
    assert (tmp_path / "formats.png").read_bytes().startswith(PNG)


def test_the_burn_down_shows_each_run_at_its_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from matplotlib.axes import Axes

    drawn: list[tuple[list[int], list[float]]] = []
    plotted = Axes.plot

    def spy(axes: Axes, times: Any, sizes: Any, **more: Any) -> Any:
        drawn.append((times.astype("datetime64[s]").astype(int).tolist(), list(sizes)))
        return plotted(axes, times, sizes, **more)

    monkeypatch.setattr(Axes, "plot", spy)
    migration_plot.plot_burn_down(
        [(5000, census(("/one", "t", 0, 3))), (1000, FORMATS)], tmp_path / "x.png"
    )
    assert drawn == [([1, 5], [25, 3]), ([1, 5], [30, 0]), ([1, 5], [908, 0])]


def test_what_was_promised_stands_beside_what_came_of_it(tmp_path: Path) -> None:
    from kafkats.migration.forecast import FORECAST
    from kafkats.plans.facts import ACTIONS

    def promised(partition: str, action: str, before: int, after: int) -> dict[str, Any]:
        sizes = {"before_bytes": before, "after_bytes": after, "seconds": 0.5}
        return {"log_dir": "/data", "partition_dir": partition, "action": action, **sizes}

    def done(partition: str, file: str, outcome: str, after: int) -> dict[str, Any]:
        where = {"log_dir": "/data", "partition_dir": partition, "file": file}
        return where | {"outcome": outcome, "after_bytes": after, "seconds": 0.25}

    forecast = pa.Table.from_pylist(
        [
            promised("a-0", "convert", 100, 120),
            promised("b-0", "convert", 300, 290),
            promised("b-0", "convert", 50, 60),
            promised("b-0", "keep", 1000, 1000),
        ],
        schema=FORECAST,
    )
    actions = pa.Table.from_pylist(
        [
            done("b-0", "00000000000000000000.log", "done", 290),
            done("b-0", "00000000000000000000.index", "done", 16),
            done("b-0", "00000000000000000050.log", "already", 60),
            done("a-0", "00000000000000000000.log", "refused", 120),
            done("c-0", "00000000000000000000.log", "done", 5),
        ],
        schema=ACTIONS,
    )
    rows = migration_plot.forecast_outcome([forecast], [actions])
    assert [astuple(row) for row in rows] == [
        ("b-0", 350, 350, 350, 1.0, 0.75),
        ("a-0", 100, 120, 0, 0.5, 0),
    ]
    for n, tables in enumerate([
        (forecast, actions),
        (FORECAST.empty_table(), ACTIONS.empty_table()),
    ]):
        migration_plot.plot_forecast(*([one] for one in tables), tmp_path / f"{n}.png")
        assert (tmp_path / f"{n}.png").read_bytes().startswith(PNG)
