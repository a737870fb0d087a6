"""What another retention.ms would delete: as a plan with that policy, from facts that were read before."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from kafkats.config.policy import Policy
from kafkats.errors import BadInput, UsageError
from kafkats.plans.facts import SEGMENTS
from kafkats.plans.files import write_json
from kafkats.retention.plan import RETENTION, RetainOptions, plan_retain
from kafkats.retention.what_if import NAME, basis_of, policy_line, read_basis, what_if, with_limit
from tests.builders.operations import inventoried
from tests.golden import Unpacked, case, retention_moment

GOLDEN = case("retention-4.3.1")
NOW = retention_moment(GOLDEN)
DAY = 86_400_000


def policy(**topics: dict[str, Any]) -> Policy:
    return Policy.model_validate({
        "defaults": {"kafkats.guard.max.share": 1},
        "topics": topics | {"*": {"cleanup.policy": "delete", "retention.ms": 10**15}},
        "guard": {"max.share": 0.9},
    })


@pytest.fixture(scope="module")
def segments(golden: Unpacked) -> pa.Table:
    return inventoried(golden("retention-4.3.1", "before"))


def kept_and_deleted(verdicts: pa.Table, topic: str) -> list[dict[str, Any]]:
    return verdicts.filter(pc.equal(verdicts["topic"], topic)).to_pylist()


@pytest.mark.parametrize("ms", [-1, 0, DAY, 200_000 * DAY, 195_237_027_596])
@pytest.mark.parametrize(
    "topic", ["time-some", "future-pins", "append-time-kept", "zero-timestamps"]
)
def test_it_decides_as_a_plan_with_that_policy(
    segments: pa.Table, topic: str, ms: int, tmp_path: Path
) -> None:
    options = RetainOptions(NOW)
    verdicts = plan_retain(segments, policy(), options)[1]
    given = policy(**{"a-*": {"retention.ms": 1}, "_*": {"retention.ms": 2}})
    write_json(tmp_path / NAME, basis_of(given, asdict(options), {topic}))
    basis = json.loads((tmp_path / NAME).read_text())
    found = what_if(segments, verdicts, *read_basis(basis), topic, ms)
    only = segments.filter(pc.equal(segments["topic"], topic))
    line = {"cleanup.policy": "delete", "retention.ms": ms}
    expected = plan_retain(only, policy(**{topic: line}), options)[1]
    assert found.to_pylist() == expected.to_pylist()
    assert found.num_rows == only.num_rows > 0


def test_a_shorter_time_deletes_more(segments: pa.Table) -> None:
    verdicts = plan_retain(segments, policy(), RetainOptions(NOW))[1]

    def deleted(ms: int) -> int:
        found = what_if(segments, verdicts, policy(), RetainOptions(NOW), "time-all", ms)
        return sum(row["deletes"] for row in found.to_pylist())

    assert deleted(-1) == deleted(10**15) == 0
    assert deleted(DAY) > 2


def test_times_that_the_policy_replaced_stay_replaced(segments: pa.Table) -> None:
    given = policy(**{
        "future-pins": {
            "cleanup.policy": "delete",
            "retention.ms": 1,
            "kafkats.implausible.timestamps": "mtime",
        }
    })
    verdicts = plan_retain(segments, given, RetainOptions(NOW))[1]
    [pinned] = [row for row in kept_and_deleted(verdicts, "future-pins") if row["unit"] == "future"]
    assert pinned["counted_from"] < NOW < pinned["largest_timestamp"]
    found = what_if(segments, verdicts, given, RetainOptions(NOW), "future-pins", 1)
    same = [(row["base_offset"], row["counted_from"], row["deletes"]) for row in found.to_pylist()]
    assert same == [
        (row["base_offset"], row["counted_from"], row["deletes"])
        for row in kept_and_deleted(verdicts, "future-pins")
    ]


def test_the_line_stands_before_all_others_and_keeps_the_topics_own_settings() -> None:
    given = policy(**{"pay-*": {"cleanup.policy": "delete", "retention.bytes": 7}})
    changed = with_limit(given, "pay-ments", 5)
    assert [*changed.topics] == ["pay-ments", "pay-*", "*"]
    assert changed.limits("pay-ments") == (5, 7)
    assert changed.limits("pay-other") == given.limits("pay-other")
    assert with_limit(changed, "pay-ments", 6).limits("pay-ments") == (6, 7)
    assert policy_line(changed, "pay-ments") == (
        '"pay-ments": {"cleanup.policy": ["delete"], "retention.ms": 5, "retention.bytes": 7}'
    )
    assert "cleanup.policy" not in with_limit(Policy(), "new", 5).explicit("new")


@pytest.mark.parametrize(("topic", "ms"), [("*", 1), ("a/b", 1), ("", 1), ("t", -2), ("t", 2**63)])
def test_what_is_no_topic_and_no_time(topic: str, ms: int) -> None:
    nothing = SEGMENTS.empty_table(), RETENTION.empty_table()
    with pytest.raises(UsageError):
        what_if(*nothing, policy(), RetainOptions(NOW), topic, ms)


def test_a_run_without_a_retention_time() -> None:
    nothing = SEGMENTS.empty_table(), RETENTION.empty_table()
    with pytest.raises(UsageError, match="older than a moment"):
        what_if(*nothing, policy(), RetainOptions(NOW, before_ms=5), "t", 1)


@pytest.mark.parametrize(
    "content",
    [
        {},
        {"policy": {}, "options": {}},
        {"policy": {}, "lines": 5, "options": {}},
        {"policy": {}, "lines": [5], "options": {}},
        {"policy": {"topics": 5}, "lines": [["*", {"odd": 1}]], "options": {"now_ms": 1}},
        {"policy": {}, "lines": [], "options": 5},
        {"policy": {}, "lines": [], "options": {}},
    ],
)
def test_a_basis_that_cannot_be_read(content: dict[str, Any]) -> None:
    with pytest.raises(BadInput):
        read_basis(content)
