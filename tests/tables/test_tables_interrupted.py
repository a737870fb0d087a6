"""Runs that end at any of their effects on the disk, killed or with a full one: the table is that of before or of after, and the next
run makes of it what it would have been."""

from __future__ import annotations

import errno
import json
import os
import shutil
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from kafkats import tables
from kafkats.errors import CorruptFile, StorageFailed, UsageError
from tests.builders.partitions import HOUR, T0, Grown, grown
from tests.builders.tables import files, rows_of, run

Start = Callable[[Path, Grown], None]


class Killed(BaseException):
    pass


@contextmanager
def ended(at: int, error: BaseException, *, done: bool) -> Generator[list[str], None, None]:
    """The effect number `at` raises, when it is `done` or instead of it; all effects so far are in what is given."""
    effects: list[str] = []

    def counted(name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def effect(*args: Any, **more: Any) -> Any:
            effects.append(name)
            if len(effects) != at:
                return real(*args, **more)
            if done:
                real(*args, **more)
            raise error

        return effect

    with pytest.MonkeyPatch.context() as patch:
        for owner, name in ((os, "fsync"), (Path, "replace"), (Path, "unlink")):
            patch.setattr(owner, name, counted(name, getattr(owner, name)))
        yield effects


def nothing(table: Path, one: Grown) -> None:
    pass


def all_hours_but_one(table: Path, one: Grown) -> None:
    """The last makes one file of 24."""
    run(table, [one], T0, T0 + 23 * HOUR)


def open_cells(table: Path, one: Grown) -> None:
    """What follows closes them."""
    run(table, [one], T0 + 22 * HOUR, T0 + 23 * HOUR)
    one.append(T0 + 24 * HOUR)


@pytest.mark.examples(2)
@pytest.mark.parametrize(
    "start", [nothing, all_hours_but_one, open_cells], ids=lambda start: start.__name__
)
@pytest.mark.parametrize(
    "error", [Killed(), OSError(errno.ENOSPC, "No space left on device")], ids=["killed", "full"]
)
@pytest.mark.parametrize("done", [False, True], ids=["before", "after"])
def test_ended_at_every_effect(
    tmp_path: Path, start: Start, error: BaseException, done: bool
) -> None:
    one, before = grown(tmp_path), tmp_path / "before"
    one.append(*(T0 + n * HOUR // 2 for n in range(46)))
    before.mkdir()
    start(before, one)
    after = Path(shutil.copytree(before, tmp_path / "after"))
    with ended(0, error, done=False) as effects:
        run(after, [one], T0 + 23 * HOUR, T0 + 24 * HOUR)
    assert len(effects) >= 4 and "replace" in effects
    states = {
        json.dumps(rows_of(table)) for table in (before, after) if (table / "_table.json").exists()
    } | {"[]"}
    for at in range(1, len(effects) + 1):
        table = Path(shutil.copytree(before, tmp_path / f"{at}"))
        with ended(at, error, done=done), pytest.raises((Killed, StorageFailed)):
            run(table, [one], T0 + 23 * HOUR, T0 + 24 * HOUR)
        if (table / "_table.json").exists():
            assert json.dumps(rows_of(table)) in states
            tables.verify(table)
        run(table, [one], T0 + 23 * HOUR, T0 + 24 * HOUR)
        assert files(table) == files(after), f"effect {at}, {effects[at - 1]}"


def test_a_table_that_lost_its_manifest_is_nobodys_leftovers(tmp_path: Path) -> None:
    one, table = grown(tmp_path), tmp_path / "t"
    one.append(T0)
    run(table, [one], T0, T0 + HOUR)
    manifest = (table / "_table.json").read_bytes()
    for lost in (None, "gone", ""):
        (table / "_table.json").unlink(missing_ok=True)
        if lost == "gone":
            (table / "_table.json").symlink_to(tmp_path / "gone")
        elif lost is not None:
            (table / "_table.json").write_text(lost)
        held = files(table) if lost != "gone" else None
        with pytest.raises((CorruptFile, UsageError)):
            run(table, [one], T0 + HOUR, T0 + 2 * HOUR)
        assert held is None or files(table) == held
    (table / "_table.json").write_bytes(manifest)
    assert tables.verify(table).rows == 60


def test_a_manifest_that_names_another_file_takes_none_away(tmp_path: Path) -> None:
    one, table = grown(tmp_path), tmp_path / "t"
    one.append(T0, T0 + 10 * HOUR)
    for hour in (0, 3):
        run(table, [one], T0 + hour * HOUR, T0 + (hour + 1) * HOUR)
    path = table / "_table.json"
    (name,) = [p.name for p in table.glob("cells-*T03*.parquet")]
    path.write_text(path.read_text().replace(name, name.replace("T03", "T07")))
    before = files(table)
    with pytest.raises(CorruptFile, match="not what the table's manifest says: missing"):
        run(table, [one], T0, T0 + HOUR)
    assert files(table) == before


def test_a_full_disk_gets_its_room_back(tmp_path: Path) -> None:
    one, table = grown(tmp_path), tmp_path / "t"
    one.append(T0)
    run(table, [one], T0, T0 + HOUR)
    before = files(table)
    with (
        ended(5, OSError(errno.ENOSPC, "No space left on device"), done=False),
        pytest.raises(StorageFailed),
    ):
        run(table, [one], T0 + 24 * HOUR, T0 + 50 * HOUR)
    assert files(table) == before


def test_a_first_run_that_failed_binds_nobody_to_its_step(tmp_path: Path) -> None:
    one, table = grown(tmp_path), tmp_path / "t"
    one.append(T0)
    with ended(7, Killed(), done=False), pytest.raises(Killed):
        run(table, [one], T0, T0 + HOUR, 60_000)
    assert tables.read(table).rows.num_rows == 0
    assert run(table, [one], T0, T0 + HOUR, 1000).added == 3600


def test_a_manifest_of_other_times(tmp_path: Path) -> None:
    one, sound = grown(tmp_path), tmp_path / "sound"
    one.append(T0)
    run(sound, [one], T0, T0 + HOUR)
    for number, (old, new) in enumerate((
        ('"step_ms": 60000', '"step_ms": 70000'),
        (f'"to_ms": {T0 + HOUR}', f'"to_ms": {T0 + HOUR // 2}'),
    )):
        table = Path(shutil.copytree(sound, tmp_path / str(number)))
        text = (table / "_table.json").read_text()
        assert old in text
        (table / "_table.json").write_text(text.replace(old, new))
        with pytest.raises(CorruptFile, match="cells of other times"):
            tables.read(table)
