"""What is seen in segments that pin by a timestamp that cannot be right: real ones, and the words."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from kafkats.config.policy import Policy
from kafkats.inspect.inventory import inventory_units
from kafkats.plans.facts import SEGMENTS
from kafkats.plans.units import list_units
from kafkats.retention.implausible_timestamps import SHARES, look_into, shares_text
from kafkats.retention.plan import RetainOptions, plan_retain
from kafkats.retention.summary import summary_rows, suspects, with_shares
from tests.golden import case

NOW = 1_795_237_333_755


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return case("retention-4.3.1").unpack("before", tmp_path_factory.mktemp("suspects"))


def rows_of(root: Path) -> list[dict[str, Any]]:
    segments = pa.Table.from_batches([inventory_units(list_units([root]))], SEGMENTS)
    policy = Policy.model_validate({
        "topics": {"*": {"cleanup.policy": "delete", "retention.ms": 86_400_000}}
    })
    return summary_rows(plan_retain(segments, policy, RetainOptions(NOW))[1], NOW)


def seen(rows: list[dict[str, Any]]) -> pa.Table:
    return pa.Table.from_batches(map(look_into, suspects(rows)), SHARES)


def test_only_suspects_are_opened_and_told_of(root: Path) -> None:
    rows = rows_of(root)
    assert {one.partition_dir for one in suspects(rows)} == {"future-pins-0", "order-of-passes-0"}
    told = {row["partition_dir"]: row for row in with_shares(rows, seen(rows))}
    shares = "94 % of its batches in ms, 6 % in the future"
    assert told["future-pins-0"]["why"].endswith(
        f"; its largest timestamp, in the batch of offset 60, is in the future: {shares}"
    )
    assert told["future-pins-0"]["kept_offset"] == 60, "its first record"
    others = [(row, told[row["partition_dir"]]) for row in rows if row["unit"] != "future"]
    assert others and all(before == after for before, after in others)


def test_a_segment_that_went_away_meanwhile(root: Path) -> None:
    row = next(row for row in rows_of(root) if row["partition_dir"] == "future-pins-0")
    (after,) = with_shares([row | {"kept_by": 61}], seen([row | {"kept_by": 61}]))
    assert (
        "in the future: not looked into: " in after["why"]
        and "00000000000000000061.log" in after["why"]
    )


@pytest.mark.parametrize(
    ("shares", "text"),
    [
        ({"ms": 0.97, "us": 0.03}, "97 % of its batches in ms, 3 % in us"),
        (
            {"ms": 0.9999, "future": 0.0001},
            "more than 99 % of its batches in ms, less than 1 % in the future",
        ),
        ({"s": 1.0}, "100 % of its batches in s"),
        (
            {"": 0.5, "negative": 0.5},
            "50 % of its batches old or without a timestamp, 50 % negative",
        ),
    ],
)
def test_words(shares: dict[str, float], text: str) -> None:
    assert shares_text(shares) == text
