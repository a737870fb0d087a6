"""The pictures of looking up: they come out of real and of odd tables, and what they show is counted right."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from kafkats import tables
from kafkats.errors import StorageFailed
from kafkats.operations.lookup import lookup_partitions
from kafkats.plot_lookup import HOUR_MS, Cloud, coverage, plot_calendar, plot_disorder, plot_staircase, read_cloud
from tests.golden import Unpacked

FIRST = 444_444 * HOUR_MS
PNG = b"\x89PNG"


def table(root: Path, folder: Path, *hours: int) -> tables.View:
    for hour in hours:
        begin = FIRST + hour * HOUR_MS
        tables.build(folder, lookup_partitions([root]), begin, begin + HOUR_MS, step_ms=1000)
    return tables.read(folder)


def test_pictures_of_a_real_table(golden: Unpacked, tmp_path: Path) -> None:
    root = golden("timestamps-4.3.1", "data")
    view = table(root, tmp_path / "table", 0, 2)
    clouds = {key: read_cloud(root / f"{key[0]}-{key[1]}") for key in view.partitions}
    assert {len(cloud.offset) for cloud in clouds.values()} != {0}
    plot_staircase(view, clouds, tmp_path / "staircase.png")
    plot_disorder(clouds, tmp_path / "disorder.png")
    plot_calendar(view, tmp_path / "calendar.png")
    for name in ("staircase", "disorder", "calendar"):
        assert (tmp_path / f"{name}.png").read_bytes().startswith(PNG)
    with pytest.raises(StorageFailed):
        plot_calendar(view, tmp_path / "nowhere" / "calendar.png")


def test_what_a_table_covers(golden: Unpacked, tmp_path: Path) -> None:
    view = table(golden("timestamps-4.3.1", "data"), tmp_path / "table", 0, 2)
    first, days = coverage(view)
    assert first == FIRST // (24 * HOUR_MS) * 24 * HOUR_MS
    assert days.shape == (1, 24)
    assert np.flatnonzero(days).tolist() == [12, 14], "in UTC"
    assert set(days[0, [12, 14]].tolist()) == {2}, "partitions without later records are open"


def test_how_late_records_came() -> None:
    cloud = Cloud(np.array([5, 3, 9, 9, 1]), np.arange(5))
    assert cloud.lateness.tolist() == [0, 2, 0, 0, 8]


def test_of_nothing(tmp_path: Path) -> None:
    view = tables.View(tables.TABLE.empty_table(), 60_000, ())
    plot_staircase(view, {}, tmp_path / "a.png")
    plot_disorder({}, tmp_path / "b.png")
    plot_calendar(view, tmp_path / "c.png")
    assert all(path.read_bytes().startswith(PNG) for path in tmp_path.glob("*.png"))
    assert coverage(view)[1].shape == (0, 24)
