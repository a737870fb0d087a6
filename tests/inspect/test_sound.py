"""Rows by columns against rows one by one: the same table, whatever lies in the directories."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pytest

from conformance.damage import damage_indexes
from kafkats.config.policy import Policy
from kafkats.inspect import inventory, tails
from kafkats.inspect.sound import Sound, sound_inventory, sound_segments
from kafkats.inspect.verify import VerifyOptions
from kafkats.plans.units import Unit, list_units
from tests.golden import Unpacked
from tests.inspect.with_data import WITH_DATA, of_kind

POLICIES = (
    Policy.model_construct(),
    Policy.model_validate({"defaults": {"index.interval.bytes": 5000}}),
)


def nothing(_units: Sequence[Unit], options: VerifyOptions) -> Sound:
    return sound_segments((), options)


def both(root: Path, monkeypatch: pytest.MonkeyPatch) -> int:
    """Look at a root by columns and one by one, by several settings. Return how many were sound."""
    units, count = list(list_units([root])), 0
    for policy in POLICIES:
        options = VerifyOptions(policy=policy)
        found = tails.look_at_tails(units, options)
        with monkeypatch.context() as patch:
            patch.setattr(tails, "sound_segments", nothing)
            wanted = tails.look_at_tails(units, options)
        found.validate(full=True)
        assert found.schema == wanted.schema
        assert found.to_pylist() == wanted.to_pylist()
        sound = sound_segments(units, options)
        count += len(sound.numbers)
        assert [row["base_offset"] for row in sound.rows.to_pylist()] == [
            units[number].base_offset for number in sound.numbers
        ]
    return count


def both_inventories(root: Path, monkeypatch: pytest.MonkeyPatch) -> int:
    """Take the inventory of a root by columns and one by one. Return how many were sound."""
    units = list(list_units([root]))
    found = inventory.inventory_units(units)
    with monkeypatch.context() as patch:
        patch.setattr(inventory, "sound_inventory", lambda _units: sound_inventory(()))
        wanted = inventory.inventory_units(units)
    found.validate(full=True)
    assert found.to_pylist() == wanted.to_pylist()
    return len(sound_inventory(units).numbers)


@pytest.mark.examples(1)
@pytest.mark.parametrize("kind", sorted({one.kind for one, _ in WITH_DATA}))
def test_the_rows_are_those_of_single_segments(
    golden: Unpacked, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    roots = [golden(one, state) for one, state in of_kind(kind)]
    every_one_torn = kind == "torn-append"
    counts = [sum(look(root, monkeypatch) for root in roots) for look in (both_inventories, both)]
    assert counts == [0, 0] if every_one_torn else min(counts) > 0


@pytest.mark.slow(8)
def test_the_rows_of_damaged_directories(
    golden: Unpacked, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    last = [(one, state) for one, state in WITH_DATA if state == one.states[-1]]
    for one, _ in last[::5]:
        copy = tmp_path / one.name
        shutil.copytree(golden(one, one.states[-1]), copy, symlinks=True)
        for partition in filter(Path.is_dir, copy.iterdir()):
            damage_indexes(partition)
        both(copy, monkeypatch)
        both_inventories(copy, monkeypatch)
        (copy / ".kafka_cleanshutdown").unlink(missing_ok=True)
        both(copy, monkeypatch)
        both_inventories(copy, monkeypatch)
        shutil.rmtree(copy)


def test_an_unreadable_file_a_link_and_a_gap(
    golden: Unpacked, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy = tmp_path / "data"
    shutil.copytree(golden("clean-start-4.3.1", "before"), copy, symlinks=True)
    logs = sorted(copy.glob("*/*.log"))
    several = [log for log in logs if len(list(log.parent.glob("*.log"))) > 2]
    assert len({log.parent for log in several}) > 1
    for suffix in (".log", ".index", ".timeindex"):
        several[1].with_suffix(suffix).unlink()
    link = several[-1].with_suffix(".index")
    link.rename(tmp_path / "elsewhere")
    link.symlink_to(tmp_path / "elsewhere")
    several[-2].with_suffix(".timeindex").chmod(0)
    assert both(copy, monkeypatch) > 0
    assert both_inventories(copy, monkeypatch) > 0


def test_no_units_have_no_rows() -> None:
    assert tails.look_at_tails((), VerifyOptions()) == pa.RecordBatch.from_pylist(
        [], schema=tails.LOOKED
    )
