"""Plans in parts: the digest does not depend on who wrote them, and a kill leaves a whole plan."""

from __future__ import annotations

import errno
import json
import os
import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from kafkats.errors import CorruptPlan, StorageFailed, UsageError
from kafkats.plans import files, parts
from kafkats.plans.facts import read_table, write_table
from kafkats.plans.parts import (
    PlanInParts,
    commit_plan,
    open_plan,
    plan_in_parts,
    rows_files,
)
from kafkats.plans.plan import ITEMS, Plan, digest_of, make_plan, make_sealed, write_plan
from kafkats.plans.replacing import remove_other_rows
from kafkats.plans.rows import Totals
from tests.builders.plan_parts import write_part
from tests.builders.plans import TOTALS, rows_of


def write(
    folder: Path, tables: list[pa.Table], false: Totals | None = None, **options: Any
) -> PlanInParts:
    """A plan whose digest covers whatever its rows and totals say."""
    make_sealed(folder, "plan")
    written = [write_part(folder, rows) for rows in tables]
    totals: Totals = {**TOTALS, "files": sum(part.rows for part in written), **(false or {})}
    plan = plan_in_parts("rebuild", options, totals, written, folder)
    commit_plan(plan)
    return plan


@pytest.mark.parametrize(("most", "pieces"), [(9, [10, 10, 10]), (20, [20, 10]), (99, [30])])
def test_a_plan_in_parts_has_the_rows_of_all_parts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, most: int, pieces: list[int]
) -> None:
    monkeypatch.setattr(parts, "PIECE_ROWS", most)
    tables = [rows_of(n) for n in range(3)]
    plan = write(tmp_path / "plan", tables)
    again = open_plan(tmp_path / "plan")
    assert (again.digest, again.header, again.operation) == (plan.digest, plan.header, "rebuild")
    assert again.header["format"] == 2
    found = list(again.pieces())
    assert [piece.items.num_rows for piece in found] == pieces
    assert pa.concat_tables(piece.items for piece in found).equals(pa.concat_tables(tables))
    assert {(piece.digest, piece.run_id) for piece in found} == {(plan.digest, plan.run_id)}
    assert [rows.num_rows for rows in again.tables(["file"])] == pieces
    assert again.log_dirs() == ["/data"]
    assert [path.is_file() for path in rows_files(tmp_path / "plan")] == [True] * 3


@pytest.mark.parametrize("seed", range(5))
def test_the_digest_does_not_depend_on_the_order_of_parts(tmp_path: Path, seed: int) -> None:
    tables = [rows_of(n, log_dir=log_dir) for log_dir in ("/b", "/a") for n in range(3)]
    plan = write(tmp_path / "one", tables)
    shuffled = random.Random(seed).sample(tables, len(tables))
    other = write(tmp_path / "other", shuffled)
    assert other.digest == plan.digest
    assert open_plan(tmp_path / "other").log_dirs() == ["/a", "/b"]
    assert write(tmp_path / "fewer", tables[1:]).digest != plan.digest
    assert write(tmp_path / "options", tables, rule="last-offset").digest != plan.digest


def test_a_plan_of_one_table_is_opened_as_before(tmp_path: Path) -> None:
    plan = make_plan("rebuild", {}, TOTALS, rows_of(0))
    write_plan(plan, tmp_path / "plan")
    again = open_plan(tmp_path / "plan")
    assert isinstance(again, Plan) and again.digest == plan.digest
    assert rows_files(tmp_path / "plan") == [tmp_path / "plan" / "items.parquet"]


def test_an_edited_part_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "plan"
    plan = write(folder, [rows_of(n) for n in range(3)])
    path = folder / "parts" / f"{plan.parts[1].digest}.parquet"
    files.write_bytes(path, (folder / "parts" / f"{plan.parts[0].digest}.parquet").read_bytes())
    with pytest.raises(CorruptPlan, match="edited"):
        open_plan(folder)
    path.unlink()
    with pytest.raises(CorruptPlan, match="missing"):
        open_plan(folder)


@pytest.mark.parametrize(
    "edit",
    [
        {"parts": []},
        {"parts": None},
        {"parts": [{"digest": "../../etc"}]},
        {"parts": [[]]},
        {"totals": {}},
        {"options": {"all": True}},
        {"format": 3},
    ],
)
def test_an_edited_list_of_parts_is_refused(tmp_path: Path, edit: dict[str, Any]) -> None:
    folder = tmp_path / "plan"
    write(folder, [rows_of(n) for n in range(3)])
    header = json.loads((folder / "plan.json").read_text())
    (folder / "plan.json").write_text(json.dumps(header | edit))
    with pytest.raises(CorruptPlan):
        open_plan(folder)


@pytest.mark.parametrize("numbers", [(0, 0), (1, 0)])
def test_a_partition_in_two_parts_is_refused(tmp_path: Path, numbers: tuple[int, int]) -> None:
    folder = tmp_path / "plan"
    plan = write(folder, [rows_of(0), rows_of(1)])
    header = json.loads((folder / "plan.json").read_text())
    header["parts"] = [plan.parts[n]._asdict() for n in numbers]
    del header["digest"]
    header["digest"] = digest_of(header, ITEMS.empty_table())
    (folder / "plan.json").write_text(json.dumps(header))
    with pytest.raises(CorruptPlan, match="two parts"):
        open_plan(folder)


def test_rows_that_hide_in_another_part_are_refused(tmp_path: Path) -> None:
    """A partition in two parts would be changed by half, as its second work finds it done."""
    first, second = rows_of(0), rows_of(1)
    elsewhere = first.set_column(
        0, ITEMS.field(0), pa.array(["/data"] * 5 + ["/b"] + ["/data"] * 4)
    )
    among = pa.concat_tables([first.slice(0, 5), second.slice(0, 1), first.slice(5)])
    for name, hidden in {"among": among, "elsewhere": elsewhere}.items():
        write(tmp_path / name, [hidden, second.slice(1)])
        with pytest.raises(CorruptPlan, match="not sorted"):
            open_plan(tmp_path / name)


@pytest.mark.parametrize(
    "false", [{"files": 19}, {"blocked": 1}, {"blocked": "x"}, {"blocked": None}]
)
def test_totals_of_other_rows_are_refused(tmp_path: Path, false: Any) -> None:
    write(tmp_path, [rows_of(0), rows_of(1)], false)
    with pytest.raises(CorruptPlan, match="its totals are not"):
        open_plan(tmp_path)


def test_a_part_of_more_rows_is_not_read(tmp_path: Path) -> None:
    plan = write(tmp_path, [rows_of(0)])
    [path] = rows_files(tmp_path)
    write_table(path, pa.concat_tables([rows_of(0)] * 1000))
    with pytest.raises(CorruptPlan, match="has 10000 rows, not 10"):
        list(plan.pieces())


def test_parts_that_may_not_be_looked_at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, [rows_of(0)])
    real = Path.is_file

    def is_file(path: Path) -> bool:
        if path.parent.name == "parts":
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
        return real(path)

    monkeypatch.setattr(Path, "is_file", is_file)
    with pytest.raises(StorageFailed, match="Permission denied"):
        open_plan(tmp_path)


class Killed(BaseException):
    """The process ends here."""


def small(folder: Path) -> None:
    write_plan(make_plan("rebuild", {}, TOTALS, rows_of(1)), folder)


def other_small(folder: Path) -> None:
    write_plan(make_plan("rebuild", {}, TOTALS, rows_of(2)), folder)


def large(folder: Path) -> None:
    write(folder, [rows_of(0), rows_of(1)])


def other_large(folder: Path) -> None:
    write(folder, [rows_of(1), rows_of(2)])


@pytest.mark.slow(2)
@pytest.mark.parametrize(
    ("old", "new"),
    [(small, other_small), (small, large), (large, small), (large, other_large), (small, small)],
)
def test_a_kill_at_any_step_leaves_a_whole_plan(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, old: Any, new: Any
) -> None:
    old(tmp_path / "old")
    new(tmp_path / "new")
    whole = {open_plan(tmp_path / name).digest for name in ("old", "new")}
    steps = 0
    while True:
        folder = tmp_path / f"killed-{steps}"
        old(folder)
        with monkeypatch.context() as patched:
            left = iter([False] * steps + [True])
            for name in ("replace", "rename", "unlink", "link", "rmdir", "fsync"):
                patched.setattr(os, name, _until(getattr(os, name), left))
            try:
                new(folder)
            except Killed:
                killed = True
            else:
                killed = False
        left_there = open_plan(folder)
        assert left_there.digest in whole
        shown = pa.concat_tables(read_table(path, ITEMS) for path in rows_files(folder))
        assert shown.equals(pa.concat_tables(piece.items for piece in left_there.pieces()))
        new(folder)  # the same command again
        assert open_plan(folder).digest == open_plan(tmp_path / "new").digest
        names = {p.name for p in folder.rglob("*") if not p.name.endswith(".tmp")}
        assert names == {p.name for p in (tmp_path / "new").rglob("*")}
        if not killed:
            break
        steps += 1
    assert steps > 3


def test_a_plan_is_replaced_on_a_share_without_hard_links(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def link(*_: Any, **__: Any) -> None:
        raise OSError(errno.EPERM, os.strerror(errno.EPERM))

    small(tmp_path)
    monkeypatch.setattr(os, "link", link)
    other_small(tmp_path)
    assert open_plan(tmp_path).pieces()
    assert sorted(p.name for p in tmp_path.iterdir()) == ["items.parquet", "plan.json"]


def _until(call: Any, left: Any) -> Any:
    def counted(*args: Any, **kwargs: Any) -> Any:
        if next(left, False):
            raise Killed
        return call(*args, **kwargs)

    return counted


@pytest.mark.parametrize("left", [".deciding-0123456789ab", "deciding-0123456789ab/driver/"])
def test_a_folder_in_which_planning_was_killed_is_taken_again(tmp_path: Path, left: str) -> None:
    (tmp_path / left).mkdir(parents=True)
    make_sealed(tmp_path, "plan")


@pytest.mark.parametrize(
    "mine",
    [
        {"thesis": ""},
        {"deciding-factors/driver": ""},
        {"deciding-0123456789ab/thesis.txt": ""},
        {"deciding-0123456789ab/driver": "", "plan.json": '{"name": "my project"}'},
        {"plan.json": '{"name": "my project"}', "items.parquet": "", "parts/engine.parquet": ""},
        {"plan.json": "[" * 100_000},
    ],
)
def test_a_folder_of_others_is_left_alone(tmp_path: Path, mine: dict[str, str]) -> None:
    for name, text in mine.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    with pytest.raises(UsageError, match="exists and is no plan"):
        small(tmp_path)
    there = {
        str(p.relative_to(tmp_path)): p.read_text() for p in tmp_path.rglob("*") if p.is_file()
    }
    assert there == mine


@pytest.mark.parametrize("new", [small, large])
def test_only_rows_of_plans_are_removed(tmp_path: Path, new: Any) -> None:
    folder, mine = tmp_path / "plan", tmp_path / "plan" / "parts" / "mine.parquet"
    other_large(folder)
    mine.write_text("mine")
    new(folder)
    assert mine.exists()
    lake = folder / "parts"
    lake.rename(tmp_path / "lake")
    lake.symlink_to(tmp_path / "lake")
    there = {path.name for path in lake.iterdir()}
    with pytest.raises(UsageError, match="is a link"):
        new(folder)
    remove_other_rows(folder)
    assert {path.name for path in lake.iterdir()} == there
