"""Plans: equal plans have equal digests, edited ones are refused."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pyarrow as pa
import pytest

from kafkats.cli import making
from kafkats.cli.planning import show
from kafkats.errors import Changed, CorruptPlan, KafkatsError, UsageError
from kafkats.plans.facts import read_table, write_table
from kafkats.plans.plan import ITEMS, Plan, check_digest, make_plan, read_plan, write_plan
from tests.builders.plans import item


def plan_of(numbers: list[int], **options: object) -> Plan:
    items = pa.Table.from_pylist([item(n) for n in numbers], schema=ITEMS)
    return make_plan("rebuild", options, {"files": len(numbers)}, items)


def test_the_digest_knows_content_and_not_order(tmp_path: Path) -> None:
    numbers = list(range(50))
    shuffled = random.Random(1).sample(numbers, 50)
    plan = plan_of(numbers, rule="last-offset")
    assert plan_of(shuffled, rule="last-offset").digest == plan.digest
    assert plan_of(numbers, rule="first-offset").digest != plan.digest
    assert plan_of(numbers[1:], rule="last-offset").digest != plan.digest
    write_plan(plan, tmp_path / "plan")
    assert read_plan(tmp_path / "plan").digest == plan.digest
    assert read_plan(tmp_path / "plan").items.equals(plan.items)


def test_an_edited_plan_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "plan"
    write_plan(plan_of([1, 2, 3]), folder)
    rows = read_table(folder / "items.parquet", ITEMS).to_pylist()
    rows[0]["after_bytes"] += 1
    write_table(folder / "items.parquet", pa.Table.from_pylist(rows, schema=ITEMS))
    with pytest.raises(CorruptPlan, match="edited"):
        read_plan(folder)


@pytest.mark.parametrize("broken", ["plan.json", "items.parquet"])
@pytest.mark.parametrize("content", [None, b"", b"[]", b"{}", b"PAR1"])
def test_a_broken_plan_is_refused(tmp_path: Path, broken: str, content: bytes | None) -> None:
    folder = tmp_path / "plan"
    write_plan(plan_of([1]), folder)
    if content is None:
        (folder / broken).unlink()
    else:
        (folder / broken).write_bytes(content)
    with pytest.raises(CorruptPlan):
        read_plan(folder)


def test_another_format_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "plan"
    write_plan(plan_of([1]), folder)
    header = json.loads((folder / "plan.json").read_text())
    (folder / "plan.json").write_text(json.dumps(header | {"format": 99}))
    with pytest.raises(CorruptPlan, match="format 99"):
        read_plan(folder)


def test_a_folder_of_something_else_is_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("mine")
    with pytest.raises(UsageError):
        write_plan(plan_of([1]), tmp_path)


def test_approval_is_of_a_digest() -> None:
    plan = plan_of([1])
    check_digest(plan, plan.digest)
    check_digest(plan, plan.digest[:8].upper())
    check_digest(plan, "any")
    with pytest.raises(UsageError):
        check_digest(plan, plan.digest[:7])
    with pytest.raises(Changed):
        check_digest(plan, "0" * 64)


@pytest.mark.parametrize("position", range(40, 2000, 130))
def test_a_flipped_byte_is_our_error(tmp_path: Path, position: int) -> None:
    folder = tmp_path / "plan"
    write_plan(plan_of(list(range(20))), folder)
    content = bytearray((folder / "items.parquet").read_bytes())
    content[position] ^= 0xFF
    (folder / "items.parquet").write_bytes(content)
    try:
        assert read_plan(folder).digest == plan_of(list(range(20))).digest  # the byte means nothing
    except KafkatsError as e:
        assert str(folder) in str(e)


def test_json_without_end_is_our_error(tmp_path: Path) -> None:
    write_plan(plan_of([1]), tmp_path / "plan")
    (tmp_path / "plan" / "plan.json").write_text("[" * 100_000)
    with pytest.raises(CorruptPlan, match="not JSON"):
        read_plan(tmp_path / "plan")


def test_a_file_in_the_folders_place(tmp_path: Path) -> None:
    (tmp_path / "plan").write_text("mine")
    with pytest.raises(UsageError, match="is a file: name a folder for the plan"):
        write_plan(plan_of([1]), tmp_path / "plan")


@pytest.mark.parametrize("missing", sorted(set(ITEMS.names) - {"before", "log"}))
def test_an_item_without_a_value_is_refused(tmp_path: Path, missing: str) -> None:
    items = pa.Table.from_pylist([item(1) | {missing: None}], schema=ITEMS)
    write_plan(make_plan("rebuild", {}, {}, items), tmp_path / "plan")
    with pytest.raises(CorruptPlan, match=f"no {missing}"):
        read_plan(tmp_path / "plan")


TOTALS = {
    "files": 1, "segments": 1, "partitions": 1, "read_bytes": 1, "write_bytes": 1, "blocked": 0, "segments_seen": 1,
    "recovery_segments": 0, "recovery_bytes": 0, "settings_from": {"given": 1}, "not_repaired": {"danger": 0},
}  # fmt: skip


def sealed(
    tmp_path: Path, totals: dict[str, object], operation: str = "rebuild", **options: object
) -> Path:
    """A plan whose digest covers whatever its header says."""
    items = pa.Table.from_pylist([item(1)], schema=ITEMS)
    write_plan(make_plan(operation, options, totals, items), tmp_path / "plan")
    return tmp_path / "plan"


@pytest.mark.parametrize(
    "wrong",
    [
        {"files": None}, {"blocked": "0"}, {"read_bytes": 1.5}, {"segments": True}, {"settings_from": {"guessed": 1}},
        {"settings_from": {"given": "1"}}, {"not_repaired": []}, {"recovery_bytes": {}},
    ],
)  # fmt: skip
def test_nonsense_in_what_a_plan_says_of_itself_is_told(
    tmp_path: Path, wrong: dict[str, object]
) -> None:
    folder = sealed(tmp_path, TOTALS | wrong)
    with pytest.raises(
        CorruptPlan, match=r"settings from|its totals are not those of a plan to rebuild"
    ):
        show.main([str(folder)], standalone_mode=False)


def test_a_plan_of_no_rule_of_retention(tmp_path: Path) -> None:
    numbers = dict.fromkeys(
        ("freed_bytes", "kafka_bytes", "kafka_segments", "blocked_bytes", "blocked_segments"), 0
    )
    folder = sealed(tmp_path, TOTALS | numbers | {"vetoes": {}}, "retain", rule="mine")
    with pytest.raises(CorruptPlan, match="no rule of retention"):
        show.main([str(folder)], standalone_mode=False)


def test_our_own_error_is_not_the_plans(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> list[str]:
        raise KeyError("ours")

    monkeypatch.setattr(making, "plan_sentences", broken)
    with pytest.raises(KeyError, match="ours"):
        show.main([str(sealed(tmp_path, TOTALS))], standalone_mode=False)
