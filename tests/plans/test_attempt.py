"""The rows of an apply in tables, and the report that they become."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from kafkats import paths
from kafkats.errors import CorruptPlan, DiskFull
from kafkats.logdir.workarea import ROOT, ROOT_FIRST
from kafkats.plans import facts
from kafkats.plans.attempt import Attempt, attempt_in, finish_run
from kafkats.plans.facts import ACTIONS, read_in_pieces
from kafkats.plans.run import Run, may_have_written, places_by_outcome, read_actions, wrote_in


def rows(outcome: str, *numbers: int, **more: str) -> pa.Table:
    """Rows of ACTIONS, one for each partition number."""
    empty: dict[str, Any] = {
        field.name: "" if field.type == pa.string() else 0 for field in ACTIONS
    }
    return pa.Table.from_pylist(
        [
            {**empty, "log_dir": "/data", "partition_dir": f"t-{n}", "outcome": outcome, **more}
            for n in numbers
        ],
        schema=ACTIONS,
    )


def applied(folder: Path, *tables: pa.Table) -> None:
    with attempt_in(folder) as made:
        for table in tables:
            made.add(table)
        made.end()
        assert [table.num_rows for table in made] == [table.num_rows for table in tables]
        made.keep({"files": 1})
    assert sorted(p.name for p in folder.iterdir()) == ["report.json", "report.parquet"]


def outcomes(folder: Path) -> list[str]:
    return list(read_actions(folder)["outcome"].to_pylist())


def test_a_repeated_apply_keeps_what_earlier_ones_have_done(tmp_path: Path) -> None:
    applied(tmp_path, rows("done", 1, 2), rows("failed", 3))
    applied(tmp_path, rows("already", 1, 2), rows("done", 3))
    assert outcomes(tmp_path) == ["done"] * 3
    applied(tmp_path, rows("refused", 8), rows("refused", 9))
    assert outcomes(tmp_path) == ["refused"] * 2  # the rows of another plan keep nothing


def test_a_piece_in_which_all_is_blocked_is_passed_over(tmp_path: Path) -> None:
    applied(tmp_path, rows("done", 1), rows("done"), rows("done", 2))
    applied(tmp_path, rows("already", 1), rows("done"), rows("refused", 2))
    assert outcomes(tmp_path) == ["done", "done"]
    assert wrote_in(tmp_path) == {("/data", "t-1"), ("/data", "t-2")}


def test_a_damaged_report_is_replaced(tmp_path: Path) -> None:
    applied(tmp_path, rows("done", 1))
    (tmp_path / "report.parquet").write_bytes(b"PAR1")
    with pytest.raises(CorruptPlan):
        wrote_in(tmp_path)
    run = Run("rebuild", "", "", {"/data": ["t-1", "t-2"]})
    assert may_have_written(run, tmp_path) == {("/data", "t-1"), ("/data", "t-2")}
    applied(tmp_path, rows("already", 1))
    assert outcomes(tmp_path) == ["already"] and wrote_in(tmp_path) == {("/data", "t-1")}


def test_an_error_while_rows_are_written_is_raised_at_the_end(
    tmp_path: Path,
) -> None:
    with open("/dev/full", "r+b", buffering=0) as full:
        made = Attempt(tmp_path, full)
        made.add(rows("done", 1))
        made.add(rows("done", 2))
        made.end()
        assert list(made) == []
        with pytest.raises(DiskFull):
            made.keep({})


def test_an_apply_that_ends_early_keeps_what_it_has_not_reached(tmp_path: Path) -> None:
    applied(tmp_path, rows("done", 1), rows("done", 2))
    applied(tmp_path, rows("already", 1))
    assert outcomes(tmp_path) == ["done"] * 2
    applied(tmp_path)
    assert outcomes(tmp_path) == ["done"] * 2
    finish_run(tmp_path, rows("refused", 2), {})
    finish_run(tmp_path, rows("refused"), {})
    assert outcomes(tmp_path) == ["done"] * 2


def test_two_applies_of_a_run_add_to_one_report(tmp_path: Path) -> None:
    with attempt_in(tmp_path) as one, attempt_in(tmp_path) as other:
        one.add(rows("done", 1, 2))
        other.add(rows("already", 1, 2))
        for made in (one, other):
            made.end()
            made.keep({})
    assert outcomes(tmp_path) == ["done"] * 2


def test_a_run_folder_may_have_any_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("run:1", os.fsdecode(b"run\xff")):
        folder = Path(name)
        folder.mkdir()
        applied(folder, rows("done", 1))
        assert outcomes(folder) == ["done"]


def test_a_report_tells_its_places_piece_by_piece(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    marker = rows("done", 1, partition_dir=ROOT, file=paths.CLEAN_SHUTDOWN)
    checkpoint = rows("failed", 1, partition_dir=ROOT, file=paths.RECOVERY_POINT)
    applied(tmp_path, pa.concat_tables([marker, checkpoint, rows("already", 1), rows("done", 1)]))
    monkeypatch.setattr(facts, "_ROWS_AT_ONCE", 1)
    pieces = list(read_in_pieces(tmp_path / "report.parquet", ACTIONS))
    assert [piece.num_rows for piece in pieces] == [1] * 4
    assert pa.concat_tables(pieces).equals(read_actions(tmp_path))
    assert wrote_in(tmp_path) == {("/data", ROOT_FIRST), ("/data", "t-1")}
    assert places_by_outcome(tmp_path, "failed".__eq__) == {("/data", ROOT)}
