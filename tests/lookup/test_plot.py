"""The pictures of looking up: they come out of real and of odd tables, and what they show is counted right."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from matplotlib.figure import Figure

from kafkats import tables
from kafkats.clock import DAY_MS, HOUR_MS
from kafkats.errors import StorageFailed
from kafkats.lookup.marks import marks_in
from kafkats.lookup.partitions import lookup_partitions
from kafkats.lookup.plot import coverage, plot_calendar, plot_disorder, plot_staircase
from kafkats.lookup.record_scatter import LATE, POINTS, cloud_of, cloud_unit, clouds_in, read_cloud
from tests.golden import Unpacked, case

FIRST = 444_444 * HOUR_MS
PNG = b"\x89PNG"


def table(root: Path, folder: Path, *hours: int) -> tables.View:
    for hour in hours:
        begin = FIRST + hour * HOUR_MS
        tables.build(folder, lookup_partitions([root]), begin, begin + HOUR_MS, step_ms=1000)
    return tables.read(folder)


@pytest.mark.slow(1)
def test_pictures_of_a_real_table(golden: Unpacked, tmp_path: Path, drawn: list[Figure]) -> None:
    root = golden("retention-4.1.0", "after")
    view = table(root, tmp_path / "table", 0, 2)
    rows = [cloud_unit(unit, FIRST, FIRST + HOUR_MS) for unit in lookup_partitions([root])]
    clouds = clouds_in(pa.Table.from_batches(rows))
    assert set(view.partitions) <= clouds.keys()
    assert {len(cloud.offset) for cloud in clouds.values()} != {0}
    marks = marks_in(view, FIRST + 1_600_000)
    assert any(mark.offset >= 0 for mark in marks)
    plot_staircase(view, clouds, tmp_path / "staircase.png", marks=marks)
    plot_disorder(clouds, tmp_path / "disorder.png")
    plot_calendar(*tables.open_runs(tmp_path / "table"), tmp_path / "calendar.png")
    for name in ("staircase", "disorder", "calendar"):
        assert (tmp_path / f"{name}.png").read_bytes().startswith(PNG)
    stairs = drawn[0]
    assert [axes.get_title() for axes in stairs.axes] == [
        "size-0", "start-offset-0", "time-some-0", "append-time-kept-0", "future-pins-0",
    ], "a partition without an answer has no panel"  # fmt: skip
    assert "zero-timestamps-0" in stairs.get_supxlabel()
    for axes in stairs.axes:
        labels = [label.get_text() for label in axes.get_yticklabels()]
        assert all(label.isdigit() or label.startswith("\N{MINUS SIGN}") for label in labels), (
            labels
        )
        assert axes.xaxis.get_offset_text().get_text() == "2020-09-13"
    with pytest.raises(StorageFailed):
        plot_calendar(*tables.open_runs(tmp_path / "table"), tmp_path / "nowhere" / "calendar.png")


def test_what_a_table_covers(golden: Unpacked, tmp_path: Path) -> None:
    root = tmp_path / "data"
    shutil.copytree(golden("timestamps-4.3.1", "data"), root)
    table(root, tmp_path / "table", 0, 2)
    manifest, runs = tables.open_runs(tmp_path / "table")
    first, days = coverage(manifest.covered, runs)
    assert first == FIRST // (24 * HOUR_MS) * 24 * HOUR_MS
    assert days.shape == (1, 24)
    assert np.flatnonzero(days).tolist() == [12, 14], "in UTC"
    assert set(days[0, [12, 14]].tolist()) == {2}, "partitions without later records are open"
    (root / "ts-zero-0" / f"{0:020d}.log").write_bytes(b"nonsense" * 99)
    table(root, tmp_path / "table", 1)
    manifest, runs = tables.open_runs(tmp_path / "table")
    _, days = coverage(manifest.covered, runs)
    assert days[0, 12:15].tolist() == [2, 3, 2]
    assert coverage(manifest.covered, [])[1][0, 12:15].tolist() == [1, 1, 1]


def test_how_late_records_came() -> None:
    cloud = cloud_of(np.array([5, 3, -1, 9, 9, 1, 2_000_000, 2_000_000 - 60_000]), np.arange(8))
    assert cloud.offset.tolist() == [0, 1, 3, 4, 5, 6, 7]
    counts = dict(zip(LATE, cloud.late.tolist(), strict=True))
    assert {word: count for word, count in counts.items() if count} == {
        "in order": 4,
        "< 10 ms": 2,
        "< 10 min": 1,
    }
    many = cloud_of(np.arange(5 * POINTS), np.arange(5 * POINTS))
    assert len(many.offset) == len(many.timestamp) == POINTS
    assert many.late.sum() == 5 * POINTS


def test_the_records_of_a_time(golden: Unpacked, tmp_path: Path) -> None:
    name = "time-some-0"
    root = golden("retention-4.1.0", "after")
    records = {
        r["offset"]: r["timestamp"] for r in case("retention-4.1.0").records() if r["tp"] == name
    }
    whole, error = read_cloud(root / name)
    assert (dict(zip(whole.offset.tolist(), whole.timestamp.tolist(), strict=True)), error) == (
        records,
        "",
    )
    begin, end = (sorted(records.values())[n] for n in (3, 12))
    some, error = read_cloud(root / name, begin, end)
    assert error == ""
    assert some.offset.tolist() == [
        offset for offset, time in records.items() if begin <= time < end
    ]
    shutil.copytree(root / name, tmp_path / name)
    (log,) = (tmp_path / name).glob("*.log")
    log.write_bytes(log.read_bytes()[:99] + b"x" * 99 + log.read_bytes()[198:])
    assert "crc" in read_cloud(tmp_path / name)[1].lower()
    assert read_cloud(tmp_path / "nothing-0")[1]


def test_of_nothing(tmp_path: Path) -> None:
    view = tables.View(tables.TABLE.empty_table(), 60_000, ())
    plot_staircase(view, {}, tmp_path / "a.png")
    plot_disorder({}, tmp_path / "b.png")
    plot_calendar(tables.Manifest(60_000), [], tmp_path / "c.png")
    assert all(path.read_bytes().startswith(PNG) for path in tmp_path.glob("*.png"))
    assert coverage((), [])[1].shape == (0, 24)


def test_a_calendar_shows_the_days_that_were_asked_for(tmp_path: Path, drawn: list[Figure]) -> None:
    old = 18_262 * DAY_MS  # 2020-01-01
    manifest = tables.Manifest(
        60_000, covered=((old, old + 2 * DAY_MS), (old + 900 * DAY_MS, old + 1000 * DAY_MS))
    )
    asked = old + DAY_MS + 5 * HOUR_MS
    first, days = coverage(manifest.covered, [], (asked, asked + 1))
    assert first == old
    assert len(days) <= 92
    assert days[:2].all()
    assert not days[2:].any()
    before, days = coverage(manifest.covered, [], (old - 9 * DAY_MS, old - 8 * DAY_MS))
    assert before == old - 9 * DAY_MS
    assert not days[:9].any()
    assert days[9:11].all()
    last, days = coverage(manifest.covered, [])
    assert (last, len(days)) == (old + 908 * DAY_MS, 92)
    near, days = coverage(manifest.covered, [], (last + DAY_MS, last + 2 * DAY_MS))
    assert near <= last + DAY_MS < near + len(days) * DAY_MS
    path = tmp_path / "calendar.png"
    plot_calendar(manifest, [], path, around=(asked, asked + 1), asked=[asked])
    [axes] = drawn[0].axes
    [legend] = drawn[0].legends
    assert [text.get_text() for text in legend.get_texts()] == ["not built", "closed"]
    assert axes.get_yticklabels()[0].get_text() == "2020-01-01"
    assert [line.get_xydata().tolist() for line in axes.lines] == [[[5, 1.5]]]
    assert "ends on 2022-09-26" in drawn[0].get_suptitle()
