"""What an answer lets happen, in one sentence."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from kafkats_airflow.approvals.stakes import Stake, on_disk, together

GIB = 1024**3


@pytest.mark.parametrize(
    ("operation", "totals", "disk", "said"),
    [
        (
            "retain",
            {"files": 41, "partitions": 3, "freed_bytes": 12 * GIB},
            889 * GIB,
            "Delete 41 files in 3 partitions, 12.0 GiB of 889.0 GiB on disk",
        ),
        (
            "retain",
            {"files": 1, "partitions": 1, "freed_bytes": 7},
            None,
            "Delete 1 file in 1 partition, 7 B",
        ),
        (
            "rebuild",
            {"files": 2, "partitions": 2, "write_bytes": 24},
            GIB,
            "Rebuild 2 files in 2 partitions: 24 B to write; these volumes hold 1.0 GiB",
        ),
        (
            "recover",
            {"files": 2, "partitions": 1, "write_bytes": 0, "cut_bytes": 5, "dropped_bytes": 6},
            None,
            "Recover 2 files in 1 partition: 11 B to cut off",
        ),
        ("undo", {"files": 4, "partitions": 2}, None, "Put back 4 files in 2 partitions"),
        (
            "purge",
            {"files": 4, "partitions": 2},
            None,
            "would put back (4 files): no undo after that",
        ),
        ("", {"files": 4, "partitions": 2}, None, "Change 4 files in 2 partitions"),
        ("of a later version", {"files": 4}, None, "Change 4 files"),
    ],
)
def test_the_verb_is_that_of_the_operation(
    operation: str, totals: dict[str, Any], disk: int | None, said: str
) -> None:
    assert said in together([Stake("/p", operation, totals, disk)])


@pytest.mark.parametrize(
    ("operation", "totals", "said"),
    [
        (
            "rebuild",
            {"files": 3, "partitions": 1},
            "Rebuild 3 files in 1 partition; these volumes hold 9 B",
        ),
        (
            "retain",
            {"files": 1, "partitions": 1},
            "Delete 1 file in 1 partition; these volumes hold 9 B",
        ),
        ("retain", {"files": 0, "partitions": 0, "freed_bytes": 0}, ""),
        ("undo", {"files": 0, "partitions": 0}, "Put back every file, as they were before"),
        ("purge", {"files": 0}, "Delete the old files that an undo would put back: no undo after"),
    ],
)
def test_no_sentence_counts_nothing(operation: str, totals: dict[str, Any], said: str) -> None:
    found = together([Stake("/p", operation, totals, 9)])
    assert said in found if said else found == ""
    assert not re.search(r"\b0 ", found)


def test_plans_beside_each_other_are_about_the_same_disk() -> None:
    def plan(path: str, disk: int | None) -> Stake:
        totals = {"files": 1, "partitions": 1, "freed_bytes": 5}
        return Stake(path, "retain", totals, disk)

    both = [plan("/run/one/plan-1", 100), plan("/run/one/plan-2", 100), plan("/run/two/plan-3", 11)]
    assert together(both) == "Delete 3 files in 3 partitions, 15 B of 111 B on disk"
    assert together([*both, plan("/run/three/plan", None)]).endswith("20 B"), "not all is known"
    assert together([]) == ""


def test_a_report_that_cannot_be_read_tells_no_bytes(tmp_path: Path) -> None:
    plan = tmp_path / "plan-1"
    assert on_disk(plan) is None
    (tmp_path / "before").mkdir()
    (tmp_path / "before" / "segments.parquet").write_bytes(b"PAR1 half")
    assert on_disk(plan) is None
