"""Offsets by time: the page's answers and exports are those of the lookup table."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kafkats.lookup import exports
from kafkats.lookup.marks import read_marks
from tests.golden import Unpacked
from tests.ui.folders import HOUR_MS
from tests.ui.golden_runs import EXPORTED, FIRST_MS, LOOKED_UP, write_export, write_offsets

AT = FIRST_MS + 1_660_000


@pytest.fixture
def table(folder: Path, golden: Unpacked, tmp_path: Path) -> Path:
    write_offsets(folder, golden, tmp_path / "table")
    return tmp_path / "table"


def answer(client: Any, name: str, run: str = LOOKED_UP, **more: Any) -> Any:
    asked = dict(pair.split("=") for pair in run.split("&")) | more
    return client.get(f"/kafkats/data/{name}", params=asked)


def test_all_partitions_answer_as_the_table(client: Any, table: Path) -> None:
    found = answer(client, "offsets-at", at=AT).json()["answers"]
    marks, _ = read_marks(table, AT)
    assert {(one["topic"], one["partition"], one["offset"], one["reason"]) for one in found} == {
        (one.topic, one.partition, one.offset if one.offset >= 0 else None, one.reason)
        for one in marks
    }
    assert len(found) == 10
    assert {one["topic"]: one["offset"] for one in found}["size"] > 34
    assert all(one["means"] not in {"", "table"} for one in found)


def test_the_steps_of_a_partition_have_a_gap_where_the_table_has_none(
    client: Any, table: Path
) -> None:
    about = answer(client, "offsets").json()
    assert about["partitions"][0] == ["size", 0]
    assert (about["from_ms"], about["to_ms"]) == (FIRST_MS, FIRST_MS + 3 * HOUR_MS)
    found = answer(client, "offsets-stairs", topic="future-pins", partition=0).json()
    assert found["offsets"] == [60, 60]
    assert found["begins"] == [FIRST_MS, FIRST_MS + 2 * HOUR_MS]
    assert found["ends"] == [FIRST_MS + HOUR_MS, FIRST_MS + 3 * HOUR_MS]
    steps = answer(client, "offsets-stairs", topic="size", partition=0).json()
    assert steps["offsets"] == sorted(steps["offsets"])
    for time, offset in steps["points"]:
        given = max(n for n, begin in enumerate(steps["begins"]) if begin <= time)
        assert steps["offsets"][given] <= offset, "no record lies below the line"
    nothing = answer(client, "offsets-stairs", topic="nothing", partition=7).json()
    assert nothing == {"begins": [], "ends": [], "offsets": [], "points": []}


@pytest.mark.parametrize("to", exports.FORMATS)
def test_an_export_is_that_of_the_command(client: Any, table: Path, to: str) -> None:
    found = answer(client, "offsets-export", at=AT, to=to, missing="none", group="g").json()
    made = exports.export(read_marks(table, AT)[0], to=to, missing="none", group="g")
    assert (found["text"], found["partitions"]) == (made.text, made.partitions)
    assert len(found["notes"]) == len(made.notes)


def test_partitions_without_an_answer_are_named(client: Any, table: Path) -> None:
    found = answer(client, "offsets-export", at=AT, to="spark-offsets").json()
    assert "time-all-0: past-end; written as 130" in found["notes"]
    refused = answer(client, "offsets-export", at=AT, to="spark-by-timestamp", missing="leave")
    assert refused.status_code == 422
    assert "'leave' is not possible" in refused.json()["detail"]
    assert answer(client, "offsets-export", at=AT, to="odd").status_code == 422


def test_the_cells_of_an_export(client: Any, folder: Path, golden: Unpacked, table: Path) -> None:
    write_export(folder, golden)
    mine = answer(client, "offsets-at", EXPORTED, at=AT).json()["answers"]
    tables = answer(client, "offsets-at", at=AT).json()["answers"]
    assert {(one["topic"], one["offset"]) for one in mine} == {
        (one["topic"], one["offset"]) for one in tables
    }
    assert answer(client, "offsets", EXPORTED).json()["step_ms"] == 1000
    assert client.get(f"/kafkats/run-offsets?{EXPORTED}").status_code == 200


def test_a_table_that_the_api_server_does_not_see(client: Any, table: Path) -> None:
    table.rename(table.with_name("elsewhere"))
    page = client.get(f"/kafkats/run-offsets?{LOOKED_UP}")
    assert "The api-server cannot see this table." in page.text
    assert answer(client, "offsets-at", at=AT).status_code == 422
    assert "does not see it" in answer(client, "offsets").json()["detail"]


def test_a_table_that_is_damaged(client: Any, table: Path) -> None:
    for part in table.glob("*.parquet"):
        part.write_bytes(b"nonsense")
    assert answer(client, "offsets").status_code == 422
    (table / "_table.json").write_text("{")
    assert answer(client, "offsets").status_code == 422
    assert client.get(f"/kafkats/run-offsets?{LOOKED_UP}").status_code == 200


def test_a_time_and_a_table_that_do_not_exist(client: Any, table: Path) -> None:
    assert answer(client, "offsets-at", at="x").status_code == 422
    assert answer(client, "offsets-at", at=AT, source="nothing").status_code == 404
    far = answer(client, "offsets-at", at=2**62)
    assert far.status_code in {200, 422}
