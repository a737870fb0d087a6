"""One filter for topics, wherever topics are filtered."""

from __future__ import annotations

from pathlib import Path

import pytest

from kafkats.config.policy import Policy
from kafkats.config.topics import topic_filter
from kafkats.errors import UsageError
from kafkats.plans.units import list_units, topics_of
from kafkats.records.plan import ReadOptions, plan_read
from tests.builders.partitions import batch

NAMES = ("__consumer_offsets", "_schemas", "my-offsets", "orders", "payments-eu")
CASES = {
    "*": set(NAMES),
    "*offsets": {"my-offsets"},
    "__*": {"__consumer_offsets"},
    "__c*,orders": {"__consumer_offsets", "orders"},
    " orders , payments-* ": {"orders", "payments-eu"},
    "_*": {"_schemas"},
    "?*": set(NAMES[1:]),
    "orders,*": set(NAMES),
    "Orders": set(),
    "": set(),
}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "meta.properties").write_text("version=0\n")
    for name in NAMES:
        (tmp_path / f"{name}-0").mkdir()
        (tmp_path / f"{name}-0" / f"{0:020d}.log").write_bytes(batch(0, 5))
    return tmp_path


@pytest.mark.parametrize("text", CASES)
def test_everywhere_the_same(root: Path, text: str) -> None:
    assert {name for name in NAMES if topic_filter(text).matches(name)} == CASES[text]
    assert topics_of(list_units([root], topics=text)) == CASES[text]
    if text and CASES[text]:
        read = plan_read([root], ReadOptions(topics=(text,)))
        assert {piece.topic for piece in read} == CASES[text]
    elif text:
        with pytest.raises(UsageError, match="nothing here matches"):
            plan_read([root], ReadOptions(topics=(text,)))


def test_the_source_reads_no_topics_of_kafkas_own_unless_asked(root: Path) -> None:
    assert {piece.topic for piece in plan_read([root], ReadOptions())} == set(NAMES[1:])
    named = plan_read([root / "__consumer_offsets-0"], ReadOptions(topics=("*offsets",)))
    assert {piece.topic for piece in named} == {"__consumer_offsets"}


def test_a_policys_globs_have_the_same_rule() -> None:
    policy = Policy.model_validate({
        "topics": {"*offsets": {"retention.ms": 1}, "*": {"retention.ms": 2}}
    })
    assert [policy.glob(name) for name in NAMES] == [None, "*", "*offsets", "*", "*"]
