"""The policy file: Kafka's names, and errors that say where and what instead."""

from __future__ import annotations

from pathlib import Path

import pytest

from kafkats.config import Policy, TopicSettings, read_policy, with_settings
from kafkats.errors import UsageError


def policy(tmp_path: Path, text: str) -> Policy:
    path = tmp_path / "policy.yaml"
    path.write_text(text)
    return read_policy(path)


def test_topics_lie_over_defaults_and_the_first_match_wins(tmp_path: Path) -> None:
    found = policy(
        tmp_path,
        """
volumes:
  - {broker: "1", path: /data/kafka, owner_stopped: true}
defaults: {log.index.interval.bytes: 1000, segment.index.bytes: 800}
topics:
  "orders-eu": {index.interval.bytes: 10}
  "orders-*": {index.interval.bytes: 20}
""",
    )
    assert found.volumes[0].path == Path("/data/kafka")
    assert found.volumes[0].connection == "spark_default"
    assert found.settings("orders-eu").index_interval_bytes == 10
    assert found.settings("orders-us").index_interval_bytes == 20
    assert found.settings("orders-us").segment_index_bytes == 800
    assert found.settings("payments").index_interval_bytes == 1000


def test_nothing_given_means_infer() -> None:
    assert Policy().settings("any") == TopicSettings()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("volume: []", "line 1: volume: unknown key; did you mean 'volumes'?"),
        ("defaults:\n  index.intervall.bytes: 3", "line 2: defaults.index.intervall.bytes: unknown key; did you mean"),
        ("volumes:\n  - path: /a\n  - broker: '2'", "line 3: volumes.1.path: Field required"),
        ("topics:\n  a:\n    index.interval.bytes: often", "line 3: topics.a.index.interval.bytes: Input should be a valid integer"),
        ("topics:\n  a:\n    log.index.size.max.bytes: 1", "line 3: topics.a.log.index.size.max.bytes: Input should be greater"),
        ("- 1", "a policy is a mapping"),
        ("a: [", "not YAML"),
        ("volumes:\n  - path: !!timestamp 2024-13-45", "not YAML: could not determine a constructor"),
    ],
)  # fmt: skip
def test_a_wrong_policy_is_refused_with_its_line(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(UsageError, match=r".+") as e:
        policy(tmp_path, text)
    assert said in str(e.value)
    assert "policy.yaml" in str(e.value)


def test_the_command_line_lies_over_everything() -> None:
    base = Policy(topics={"a": TopicSettings.model_validate({"index.interval.bytes": 7})})
    found = with_settings(base, ["index.interval.bytes=9", "log.index.size.max.bytes=80"])
    assert (found.settings("a").index_interval_bytes, found.settings("b").segment_index_bytes) == (9, 80)


@pytest.mark.parametrize(
    "pair", ["index.interval.bytes", "nonsense=1", "index.interval.bytes=x", "index.interval.bytes=-1"]
)
def test_wrong_pairs_are_refused(pair: str) -> None:
    with pytest.raises(UsageError):
        with_settings(Policy(), [pair])
