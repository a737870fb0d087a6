"""After a retention: what is said of files that are not as the plan meant them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from kafkats.errors import CorruptFile
from kafkats.plans.facts import SEGMENTS
from kafkats.plans.proof import wrong_in_directory
from kafkats.retention.plan import RETENTION
from kafkats.retention.proof import not_kept, reasons_of

LOG = "00000000000000000040.log"


def item(
    root: Path, file: str, action: str, base: int = 40, partition: str = "orders-0"
) -> dict[str, Any]:
    return {
        "log_dir": str(root), "partition_dir": partition, "file": file, "action": action, "base_offset": base
    }  # fmt: skip


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "orders-0").mkdir()
    (tmp_path / "orders-0" / LOG).touch()
    (tmp_path / "orders-0" / "leader-epoch-checkpoint").write_text("0\n2\n3 40\n4 50\n")
    (tmp_path / "log-start-offset-checkpoint").write_text("0\n1\norders 0 41\n")
    return tmp_path


@pytest.mark.parametrize(
    ("file", "action", "base", "partition", "why"),
    [
        (LOG, "remove", 40, "orders-0", "is still there"),
        (LOG, "add", 40, "orders-0", ""),
        ("00000000000000000000.log", "remove", 0, "orders-0", ""),
        ("00000000000000000050.log", "add", 50, "orders-0", "is missing"),
        ("leader-epoch-checkpoint", "update", 40, "orders-0", ""),
        ("leader-epoch-checkpoint", "update", 41, "orders-0", "begins at 40, the log at 41"),
        ("leader-epoch-checkpoint", "update", 41, "none-0", ""),
        ("log-start-offset-checkpoint", "update", 40, ".", ""),
    ],
)
def test_a_file(root: Path, file: str, action: str, base: int, partition: str, why: str) -> None:
    found = wrong_in_directory(
        [item(root, file, action, base, partition)], reasons_of=reasons_of
    ).to_pylist()
    assert found == ([{"path": str(root / partition / file), "why": why}] if why else [])


def test_a_log_start_below_the_log(root: Path) -> None:
    (root / "log-start-offset-checkpoint").write_text("0\n1\norders 0 39\n")
    items = [item(root, "log-start-offset-checkpoint", "update", partition=".")]
    [row] = wrong_in_directory(items, reasons_of=reasons_of).to_pylist()
    assert row["why"] == "says 39 of orders-0, which begins at 40"


def test_a_checkpoint_that_cannot_be_read(root: Path) -> None:
    (root / "orders-0" / "leader-epoch-checkpoint").write_text("0\nx\n")
    with pytest.raises(CorruptFile):
        wrong_in_directory([item(root, "leader-epoch-checkpoint", "update")], reasons_of=reasons_of)


def test_what_was_to_stay() -> None:
    def verdict(base: int, **columns: Any) -> dict[str, Any]:
        where = {
            "log_dir": "/d",
            "partition_dir": "a-0",
            "base_offset": base,
            "largest_timestamp": 7,
        }
        return where | {"deletes": False, "veto": ""} | columns

    def seen(base: int, largest: int | None) -> dict[str, Any]:
        return {
            "log_dir": "/d",
            "partition_dir": "a-0",
            "base_offset": base,
            "max_timestamp": largest,
        }

    given = [
        verdict(0, deletes=True),
        verdict(10, deletes=True, veto="legal hold"),
        verdict(20),
        verdict(30, largest_timestamp=-1),
        verdict(40),
        verdict(50, partition_dir="b-0"),
    ]
    now = [seen(20, 7), seen(30, None), seen(40, 8)]
    wrong = not_kept(
        pa.Table.from_pylist(given, schema=RETENTION), pa.Table.from_pylist(now, schema=SEGMENTS)
    )
    assert wrong == {
        "/d/a-0/00000000000000000010.log": "should have been kept, but is gone",
        "/d/a-0/00000000000000000040.log": "is not the segment that should have been kept",
    }
