"""A future replica in the log directory of the replica that it would replace."""

from __future__ import annotations

import pytest

from kafkats.recovery.facts import PartitionStart
from kafkats.recovery.rules import start_rule
from kafkats.recovery.strays import blocked_moves

FUTURE = f"t-0.{'a' * 32}-future"


def one(name: str, log_dir: str = "/a", topic_id: str = "id", **more: str) -> PartitionStart:
    return PartitionStart(log_dir, name, more.pop("outcome", "loads"), topic_id=topic_id, **more)  # type: ignore[arg-type]


@pytest.mark.parametrize("kafka", ["3.7", "3.9.1", "4.3.1"])
def test_both_in_one_log_directory_end_the_broker(kafka: str) -> None:
    """4.3.1 said so."""
    starts = [one("t-0"), one(FUTURE), one("u-0")]
    assert list(blocked_moves(starts, start_rule(kafka), kraft=True)) == [
        "Error while renaming dir for t-0 in log dir /a"
    ]


@pytest.mark.parametrize(
    "starts",
    [
        [one("t-0"), one(FUTURE, log_dir="/b")],
        [one(FUTURE)],
        [one("t-0"), one(FUTURE, topic_id="other")],
        [one("t-0", topic_id=""), one(FUTURE, topic_id="")],
        [one("t-0"), one(FUTURE, set_aside="another topic")],
        [one("t-0", set_aside="another topic"), one(FUTURE)],
        [one("t-0"), one(FUTURE, outcome="offline")],
        [one("t-0"), one(FUTURE.replace("future", "delete"))],
    ],
)
def test_other_copies_do_not(starts: list[PartitionStart]) -> None:
    assert not list(blocked_moves(starts, start_rule("4.3.1"), kraft=True))


@pytest.mark.parametrize(
    ("kafka", "kraft"), [("3.6", True), ("3.9", False), ("3.9", None), ("2.8.2", False)]
)
def test_only_kraft_from_3_7_on(kafka: str, kraft: bool | None) -> None:
    """2.8.2 with ZooKeeper started."""
    assert not list(blocked_moves([one("t-0"), one(FUTURE)], start_rule(kafka), kraft=kraft))
