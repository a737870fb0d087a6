"""What Kafka's own tools print of topics: transcripts of four generations, and every line that is not theirs.

The transcripts are of real brokers (0.10.2.2, 1.1.1, 2.8.2, 4.3.1) with the same four topics and
`log.retention.minutes=14400 log.roll.hours=24`, as the tools of that version printed them to a file.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkats.config.kafka_configs import read_export
from kafkats.config.policy import Policy
from kafkats.errors import BadInput

FOLDER = Path(__file__).parent / "kafka_configs"
SET = {
    "plain": {},
    "orders.eu-1": {
        "cleanup.policy": "compact,delete",
        "retention.ms": "86400000",
        "segment.bytes": "1048576",
    },
    "changelog": {"cleanup.policy": "compact"},
    "throttled": {
        "retention.bytes": "1000",
        "leader.replication.throttled.replicas": "0:1,1:1",
        "message.timestamp.type": "LogAppendTime",
    },
}
"""What the topics were created with."""
SHORT = ["0.10.2.2-configs", "1.1.1-configs", "2.8.2-configs-zk", "2.8.2-configs", "4.3.1-configs"]
TOPICS = ["0.10.2.2-topics", "1.1.1-topics", "2.8.2-topics", "4.3.1-topics"]
ALL = ["2.8.2-configs-all", "4.3.1-configs-all"]


def read_topic_configs(text: str) -> dict[str, dict[str, str]]:
    """The configs as printed, by topic and key."""
    export = read_export(text)
    found: dict[str, dict[str, str]] = {topic: {} for topic in sorted(export.topics)}
    for config in export.configs:
        found[config.topic][config.key] = config.value
    return found


def transcript(name: str) -> str:
    return (FOLDER / f"{name}.txt").read_text()


@pytest.mark.parametrize("name", SHORT + TOPICS)
def test_what_was_set_is_what_is_read(name: str) -> None:
    found = read_topic_configs(transcript(name))
    # A 4.x cluster has this one key of its own, which kafka-topics shows as set.
    assert found == {
        t: c | ({"min.insync.replicas": "1"} if name == "4.3.1-topics" else {})
        for t, c in SET.items()
    }


@pytest.mark.parametrize("name", ALL)
def test_all_has_what_the_broker_gives_too(name: str) -> None:
    found = read_topic_configs(transcript(name))
    assert found.keys() == SET.keys()
    for topic, config in found.items():
        assert config.items() >= SET[topic].items()
        assert config["segment.ms"] == "86400000"  # of log.roll.hours, which no synonym says
        assert config["segment.index.bytes"] == "10485760"
    assert found["plain"]["retention.ms"] == "864000000"
    assert found["plain"]["cleanup.policy"] == "delete"
    assert found["plain"]["follower.replication.throttled.replicas"] == ""


@pytest.mark.parametrize("name", SHORT + TOPICS + ALL)
def test_a_policy_takes_them(name: str) -> None:
    found = Policy().with_export(read_topic_configs(transcript(name)))
    assert found.limits("orders.eu-1") == (86_400_000, -1)
    assert found.why_kept("orders.eu-1") == ""
    assert "only compaction" in found.why_kept("changelog")
    assert found.settings("throttled").message_timestamp_type == "LogAppendTime"
    # Nobody gave the other topics a cleanup.policy, unless the broker itself says it with --all.
    assert (found.why_kept("throttled") == "") == (name in ALL)
    assert found.limits("plain") == ((864_000_000, -1) if name in ALL else (-1, -1))


def test_transcripts_of_all_generations_behind_each_other_agree() -> None:
    together = "".join(transcript(name) for name in SHORT + TOPICS)
    assert read_topic_configs(together)["orders.eu-1"].items() >= SET["orders.eu-1"].items()


def test_lines_are_told() -> None:
    export = read_export(transcript("2.8.2-configs"))
    line = next(c.line for c in export.configs if c.topic == "changelog")
    assert (
        transcript("2.8.2-configs").splitlines()[line - 1].startswith("  cleanup.policy=compact ")
    )


def test_blocks_about_something_else_are_passed_over() -> None:
    brokers = transcript("2.8.2-brokers-all")
    assert read_topic_configs(brokers + transcript("2.8.2-configs") + brokers) == SET
    with pytest.raises(BadInput, match="no topic's configs in it"):
        read_topic_configs(brokers)


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("Configs for topics:a are retention.ms=1\n", {"a": {"retention.ms": "1"}}),  # 0.9
        ("Configs for topic a are:\n  retention.ms=1 sensitive=false synonyms={}\n", {"a": {"retention.ms": "1"}}),
        ("Topic: a PartitionCount: 1 ReplicationFactor: 1 Configs: retention.ms=1\n", {"a": {"retention.ms": "1"}}),
        ("Topic: a\tPartitionCount: 1\tConfigs: retention.ms=1\tMarkedForDeletion: true\n", {"a": {"retention.ms": "1"}}),
        ("Topic: a\tPartitionCount: 1\tConfigs: \tMarkedForDeletion: true\n", {"a": {}}),
        ("Topic: a\tPartitionCount: 1\tConfigs:\r\n\tTopic: a\tPartition: 0\tLeader: none\r\n", {"a": {}}),
        ("Dynamic configs for topic a are:\n  x.y=secret sensitive=true synonyms={}\n  z=null sensitive=false synonyms={}\n", {"a": {}}),
        ("Completed updating config for topic a.\nDynamic configs for topic a are:\n", {"a": {}}),
        ("[2026-11-21 16:13:38,060] INFO x\n\tssl.provider = null\n (org.apache.kafka.X)\nConfigs for topic 'a' are \n", {"a": {}}),
        ("# mine\n$ kafka-configs.sh --describe\n\nConfigs for topic 'a' are \n", {"a": {}}),
        ("Dynamic configs for client-id c are:\n  a=1 sensitive=false synonyms={}\nConfigs for topic 'a' are x=,y=,1,z=2\n", {"a": {"x": "", "y": ",1", "z": "2"}}),
    ],
)  # fmt: skip
def test_other_shapes(text: str, read: dict[str, dict[str, str]]) -> None:
    assert read_topic_configs(text) == read


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "no topic's configs in it"),
        ("\n\n", "no topic's configs in it"),
        ("Configs for topic 'a' are retention.ms=8640", "line 1: the last line has no end: was the text cut off?"),
        ("Configs for topic 'a' are retention.ms\n", "line 1: not KEY=VALUE: 'retention.ms'"),
        ("Configs for topic 'a' are ,retention.ms=1\n", "line 1: not KEY=VALUE"),
        ("Configs for topic 'a/b' are \n", "line 1: not of Kafka's --describe"),
        ("  retention.ms=1 sensitive=false synonyms={}\n", "line 1: a config without a topic before it"),
        ("Dynamic configs for topic a are:\n  retention.ms=1 sensitive=false syno\n", "line 2: not of Kafka's --describe"),
        ("Dynamic configs for topic a are:\nretention.ms=1\n", "line 2: not of Kafka's --describe"),
        ("Configs for topic 'a' are x=1\nConfigs for topic 'a' are x=2\n", "line 2: x of a is '2' here and '1' in line 1"),
        ("Error while executing config command\n", "line 1: not of Kafka's --describe"),
        ("topics:\n  a: {}\n", "line 1: not of Kafka's --describe"),
    ],
)  # fmt: skip
def test_what_is_not_kafkas_is_refused_with_its_line(text: str, said: str) -> None:
    with pytest.raises(BadInput) as e:
        read_topic_configs(text)
    assert said in e.value.reason


@given(
    lines=st.lists(st.sampled_from(sorted({line for name in SHORT + TOPICS for line in transcript(name).splitlines()})) | st.text(max_size=30)),
    cut=st.integers(0, 60),
)  # fmt: skip
def test_any_text_is_read_or_refused(lines: list[str], cut: int) -> None:
    text = "".join(f"{line}\n" for line in lines)
    try:
        found = read_topic_configs(text[: len(text) - cut])
    except BadInput as e:
        assert e.reason.startswith("line ") or "no topic's configs" in e.reason
    else:
        assert all(key and "=" not in key for config in found.values() for key in config)
