"""The health plot: which kind stands for a segment, and that a picture comes out."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from kafkats import plot
from kafkats.errors import StorageFailed
from kafkats.findings import KINDS
from kafkats.report import FINDING, SEGMENTS

PNG = b"\x89PNG\r\n\x1a\n"


def finding(kind: str, file: str) -> dict[str, Any]:
    return dict.fromkeys(FINDING.names, None) | {"kind": kind, "severity": KINDS[kind][0], "file": file}


def segments(*rows: tuple[str, int, list[dict[str, Any]]]) -> pa.Table:
    return pa.Table.from_pylist(
        [
            dict.fromkeys(SEGMENTS.names, None)
            | {"log_dir": "/data", "partition_dir": partition, "base_offset": base, "findings": findings}
            for partition, base, findings in rows
        ],
        schema=SEGMENTS,
    )


TABLE = segments(
    ("b-0", 100, []),
    ("b-0", 20, [finding("sound", "x.timeindex"), finding("below-maximum", "x.timeindex")]),
    (
        "a-0",
        0,
        [finding("bad-crc", "x.log"), finding("missing-index", "x.timeindex"), finding("empty-index", "x.index")],
    ),
    ("a-0", -1, [finding("stray", "lost+found")]),
)


def test_the_worst_kind_stands_for_the_segment_the_time_index_first() -> None:
    assert plot.worst_kinds(TABLE) == {
        ("/data", "a-0"): ["missing-index"],
        ("/data", "b-0"): ["below-maximum", plot.FINE],
    }


@pytest.mark.parametrize("panels", [{"before": TABLE, "after": TABLE.slice(0, 1)}, {"nothing": SEGMENTS.empty_table()}])
def test_a_picture_comes_out(panels: dict[str, pa.Table], tmp_path: Path) -> None:
    plot.plot_health(panels, tmp_path / "health.png")
    assert (tmp_path / "health.png").read_bytes().startswith(PNG)


def test_thousands_of_partitions_fit(tmp_path: Path) -> None:
    many = segments(*((f"topic-{n}", 0, []) for n in range(3000)))
    plot.plot_health({"many": many}, tmp_path / "health.png")
    assert (tmp_path / "health.png").stat().st_size < 1_000_000


def test_every_kind_has_a_colour(tmp_path: Path) -> None:
    palette = plot._palette([plot.NONE, plot.FINE, *KINDS])
    assert set(palette) == {plot.NONE, plot.FINE, *KINDS}


def test_a_place_that_cannot_be_written_is_our_error(tmp_path: Path) -> None:
    with pytest.raises(StorageFailed, match="writing the plot"):
        plot.plot_health({"x": TABLE}, tmp_path / "no" / "such" / "folder.png")


def test_importing_does_not_import_matplotlib() -> None:
    code = "import sys, kafkats.plot; raise SystemExit('matplotlib' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_labels_tell_log_directories_apart() -> None:
    assert plot._labels([("/a/one/data", "t-0"), ("/a/two/data", "t-0")])[1] == ["one/data/t-0", "two/data/t-0"]
    assert plot._labels([("/a/one/data", "t-0")])[1] == ["t-0"]
    assert plot._labels([]) == ([], [])
