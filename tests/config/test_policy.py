"""The policy file: Kafka's names, and errors that say where and what instead."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from kafkats.config.globs import Globs
from kafkats.config.policy import Policy
from kafkats.config.reading import read_policy, with_export_file, with_settings
from kafkats.config.settings import ALIASES, KEYS, STRONGER, TopicSettings
from kafkats.config.values import magic_of, parse_duration, parse_size
from kafkats.errors import KafkatsError, UsageError
from tests.calls import calls


def policy(tmp_path: Path, text: str) -> Policy:
    path = tmp_path / "policy.yaml"
    path.write_text(text)
    return read_policy(path)


def refused(tmp_path: Path, text: str) -> str:
    with pytest.raises(UsageError) as e:
        policy(tmp_path, text)
    assert str(tmp_path / "policy.yaml") in str(e.value)
    return e.value.reason


def settings(given: dict[str, Any]) -> dict[str, Any]:
    return TopicSettings.model_validate(given).given()


def test_volumes_may_have_names(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "real")
    found = policy(
        tmp_path,
        f"volumes: [{{path: {tmp_path}/link, name: a, broker: 1}}, {{path: /b, broker: 2}},"
        " {path: /c, broker: 3}, {path: /c, broker: 4}, {path: /d}, {path: /e}]",
    )
    assert found.named_paths() == {str(tmp_path / "real")}
    brokers = [found.broker_of(Path(path)) for path in (f"{tmp_path}/real", "/b", "/c", "/d", "/x")]
    assert brokers == ["1", "2", "", "", ""]


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
        ("volumes:\n  - path: /a\n  - broker: '2'", "line 3: volumes.1.path: is missing"),
        ("topics:\n  a:\n    index.interval.bytes: often", "line 3: topics.a.index.interval.bytes: must be a whole number"),
        ("topics:\n  a:\n    log.index.size.max.bytes: 1", "line 3: topics.a.log.index.size.max.bytes: must be at least"),
        ("- 1", "a policy is a mapping"),
        ("retention.ms: 1", "line 1: retention.ms: unknown key; settings stand under 'defaults' or under a glob of 'topics'"),
        ("defaults:\n  retention_ms: 1", "line 2: defaults.retention_ms: unknown key; did you mean 'retention.ms'?"),
        ("defaults:\n  log.retention.hour: 1", "did you mean 'log.retention.hours'?"),
        ("defaults:\n  min.insync.replicas: 2", "line 2: defaults.min.insync.replicas: unknown key: it is Kafka's, but nothing here needs it"),
        ("defaults:\n  retention.ms: 7d", "line 2: defaults.retention.ms: must be a whole number, not '7d'; Kafka takes plain numbers here: 604800000 as milliseconds?"),
        ("defaults:\n  segment.bytes: 1GiB", "Kafka takes plain numbers here: 1073741824 as bytes?"),
        ("defaults:\n  retention.ms: -2", "line 2: defaults.retention.ms: must be at least -1"),
        ("defaults:\n  retention.ms: 9223372036854775808", "must be at most 9223372036854775807"),
        ("defaults:\n  retention.ms: 1_000", "not '1_000'"),
        ("defaults:\n  retention.ms: 1:30", "not '1:30'"),
        ("defaults:\n  retention.ms: 1.0", "not '1.0'"),
        ("defaults:\n  retention.ms: [1]", "not a list"),
        ("defaults:\n  retention.ms: {a: 1}", "not a mapping"),
        ("defaults:\n  cleanup.policy: Delete", "line 2: defaults.cleanup.policy: must be one of delete, compact, not 'Delete'; did you mean 'delete'?"),
        ("defaults:\n  cleanup.policy: [delete, 3]", "not '3'"),
        ("defaults:\n  message.timestamp.type: LogAppend", "did you mean 'LogAppendTime'?"),
        ("defaults:\n  message.format.version: 0.10", "a release such as 0.10.2, not '0.10'; did you mean '0.10.0'?"),
        ("defaults:\n  message.format.version: 3", "not '3'; did you mean '3.0'?"),
        ("defaults:\n  remote.storage.enable: yes", "must be true or false, not 'yes'"),
        ("topics:\n  a:\n    kafkats.implausible.timestamps: clamped", "line 3: topics.a.kafkats.implausible.timestamps: must be one of report, ignore, mtime, clamp, not 'clamped'; did you mean 'clamp'?"),
        ("topics:\n  a:\n    kafkats.bogus.timestamps: clamped", "line 3: topics.a.kafkats.bogus.timestamps: must be one of report, ignore, mtime, clamp, not 'clamped'; did you mean 'clamp'?"),
        ("topics:\n  a:\n    kafkats.guard.max.share: 50%", "a share from 0 to 1, not '50%'"),
        ("topics:\n  a:\n    kafkats.guard.max.share: nan", "a share from 0 to 1, not 'nan'"),
        ("topics:\n  a:\n    kafkats.guard.max.bytes: 5 apples", "'5 apples' is not a size"),
        ("topics:\n  a:\n    kafkats.keep.segments: 0", "must be at least 1, not 0"),
        ("topics:\n  a:\n    kafkats.legal-hold: true", "did you mean 'kafkats.legal.hold'?"),
        ("guard:\n  max.shares: 1", "line 2: guard.max.shares: unknown key; did you mean 'max.share'?"),
        ("defaults:\n  log.retention.ms: 0", "line 2: defaults.log.retention.ms: must be -1 or at least 1"),
        ("defaults:\n  retention.ms: 5\n  log.retention.hours: soon", "line 3: defaults.log.retention.hours: must be a whole number, not 'soon'"),
        ("defaults:\n  log.retention.hours: 9999999999", "must be a 32-bit number"),
        ("defaults:\n  log.roll.hours: 0", "line 2: defaults.log.roll.hours: must be at least 1"),
        ("defaults:\n  retention.ms: 1\n  retention.ms: 2", "line 3, column 3: retention.ms is given twice, first in line 2, column 3"),
        ("topics:\n  '*': {cleanup.policy: delete, retention.ms: 315360000000, retention.ms: 86400000}", "line 2, column 61: retention.ms is given twice, first in line 2, column 33"),
        ("topics:\n  a: {<<: [*b]}", "not YAML: found undefined alias"),
        ("topics:\n  a: {<<: 5}", "line 2, column 11: << takes a mapping"),
        ("guard: {max.bytes: -1}", "line 1: guard.max.bytes: must be a size, 0 or more bytes, not -1"),
        ("topics:\n  a:\n    kafkats.guard.max.bytes: -5", "line 3: topics.a.kafkats.guard.max.bytes: must be a size"),
        ("topics:\n  a b: {}", "line 2: topics.a b: no topic is named so"),
        ("topics:\n  'a,b': {}", "no topic is named so"),
        ("topics:\n  '*': {}\n  orders-*: {}", "line 3: topics.orders-*: never reached: '*' stands before it"),
        ("topics: [a]", "line 1: topics: must be a mapping"),
        ("topics: {a: 3}", "line 1: topics.a: must be a mapping: keys with values"),
        ("volumes: 3", "line 1: volumes: must be a list"),
        (
            "volumes:\n- {path: /a, name: x}\n- {path: /b}\n- {path: /c, name: x}",
            "line 4: volumes.2.name: 'x' is the name of another volume, too",
        ),
        ("volumes: [{broker: [1], path: /a}]", "line 1: volumes.0.broker: must be a text"),
        ("exported: {}", "line 1: exported: unknown key; did you mean 'exports'?"),
        ("exports: [nowhere.txt]", ""),
        ("a: " + "[" * 700, "nested too deeply"),
        ("a: !!python/name:os.system", "not YAML: could not determine a constructor"),
        ("a: 1\n---\nb: 1", "not YAML: expected a single document"),
        ("a: &a [*b]", "not YAML"),
        ("\x00", "not YAML"),
        ("a: [", "not YAML"),
        ("volumes:\n  - path: !!timestamp 2024-13-45", "not YAML: could not determine a constructor"),
    ],
)  # fmt: skip
def test_a_wrong_policy_is_refused_with_its_line(tmp_path: Path, text: str, said: str) -> None:
    if text.startswith("exports"):
        with pytest.raises(UsageError, match=r"nowhere\.txt: there is no such export"):
            policy(tmp_path, text)
    else:
        assert said in refused(tmp_path, text)


def test_a_policy_that_is_not_text_is_refused_with_its_line(tmp_path: Path) -> None:
    (tmp_path / "policy.yaml").write_bytes(b"# fine\n# \xff\n")
    with pytest.raises(UsageError, match="line 2: not UTF-8"):
        read_policy(tmp_path / "policy.yaml")


def test_of_many_mistakes_ten_are_told(tmp_path: Path) -> None:
    said = refused(tmp_path, "defaults:\n" + "".join(f"  k{i}: 1\n" for i in range(15)))
    assert said.count("unknown key") == 10
    assert said.endswith("; and 5 more")


@pytest.mark.parametrize(
    "text", ["", "# nothing", "volumes: []", "defaults:\n  retention.ms:\n", "defaults: {}"]
)
def test_what_says_nothing_gives_nothing(tmp_path: Path, text: str) -> None:
    assert policy(tmp_path, text).settings("a").given() == {}


def test_merged_mappings_are_yaml_too(tmp_path: Path) -> None:
    found = policy(
        tmp_path, "topics:\n  a: &a {retention.ms: 1}\n  b:\n    <<: *a\n    retention.bytes: 2\n"
    )
    assert found.settings("b").given() == {"retention_ms": 1, "retention_bytes": 2}


def test_of_merged_mappings_the_own_key_and_then_the_first_counts(tmp_path: Path) -> None:
    """`b` is merged into `top` before it is read for itself, and must not look as if it had its own key twice."""
    text = """
topics:
  a: &a {retention.ms: 1, segment.ms: 1}
  c: &c {retention.ms: 3, segment.bytes: 30}
  b: &b {<<: *a, retention.ms: 2}
  d: {<<: [*b, *c], segment.ms: 4}
"""
    found = policy(tmp_path, text)
    assert found.settings("b").given() == {"retention_ms": 2, "segment_ms": 1}
    assert found.settings("d").given() == {"retention_ms": 2, "segment_ms": 4, "segment_bytes": 30}


def merged_bomb(levels: int) -> str:
    """Each level merges nine times the one before."""
    lines = [f"a{n}: &a{n} {{<<: [{', '.join([f'*a{n - 1}'] * 9)}]}}" for n in range(1, levels)]
    return "\n".join(["a0: &a0 {retention.ms: 1}", *lines])


def nested_bomb(levels: int) -> str:
    """Each level holds nine times the one before."""
    lines = [f"x{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, levels)]
    last = f"*a{levels - 1}"
    settings = f"defaults: {{cleanup.policy: {last}, compression.type: {last}}}"
    return "\n".join(["x0: &a0 [delete]", *lines, settings])


@pytest.mark.parametrize(
    ("bomb", "reason"), [(merged_bomb, "a0: unknown key"), (nested_bomb, "not a list")]
)
def test_work_grows_as_a_file_does_whatever_refers_to_what(
    tmp_path: Path, bomb: Callable[[int], str], reason: str
) -> None:
    spent = []
    for levels in (3, 10):
        text = bomb(levels)
        spent.append(calls(lambda text=text: refused(tmp_path, text)))
        assert reason in refused(tmp_path, text)
    assert spent[1] < 20 * spent[0]


@pytest.mark.slow(1)
def test_wide_files_are_refused_with_what_is_wrong_first(tmp_path: Path) -> None:
    wide = f"a: &a {{{', '.join(f'k{n}: 1' for n in range(2000))}}}\nb: {{<<: [{', '.join(['*a'] * 2000)}]}}"
    assert "more than 100000 keys come by merging" in refused(tmp_path, wide)
    assert refused(
        tmp_path, "defaults:\n" + "".join(f"  k{n}: 1\n" for n in range(20_000))
    ).endswith("and 19990 more")


@pytest.mark.slow(4)
def test_of_many_globs_the_first_that_matches_is_found_without_trying_all(tmp_path: Path) -> None:
    globs = [f"team-{n:05}-*" for n in range(10_000)] + [f"topic-{n}" for n in range(10_000)]
    found = policy(tmp_path, "topics:\n" + "".join(f'  "{glob}": {{}}\n' for glob in [*globs, "*"]))
    assert [found.glob(t) for t in ("team-00123-x", "topic-9", "topic-9x")] == [
        "team-00123-*",
        "topic-9",
        "*",
    ]
    assert found.unmatched(f"team-{n:05}-orders" for n in range(9_999)) == (*globs[9_999:], "*")
    alike = "topics:\n" + "".join(f'  "*-{n}-*": {{}}\n' for n in range(1001))
    assert "line 1: topics: more than 1000 globs have wildcards right behind ''" in refused(
        tmp_path, alike
    )
    assert calls(lambda: found.glob("team-00123-x")) < 100


@given(
    st.lists(st.text("ab_*?[]!", min_size=1, max_size=6), unique=True, max_size=8),
    st.text("ab_", min_size=1, max_size=6),
)
def test_globs_match_as_if_they_were_tried_one_after_the_other(
    globs: list[str], topic: str
) -> None:
    open_to = [glob for glob in globs if glob.startswith("__") or not topic.startswith("__")]
    assert Globs(globs).first(topic) == next(
        (glob for glob in open_to if fnmatchcase(topic, glob)), None
    )


def test_words_are_text_until_their_key_reads_them(tmp_path: Path) -> None:
    found = policy(
        tmp_path,
        """
volumes: [{broker: 010, path: 2024-13-45, owner_stopped: TRUE}]
defaults: {message.format.version: 2.10, retention.ms: "007", kafkats.guard.max.share: .5}
""",
    )
    assert (found.volumes[0].broker, found.volumes[0].path, found.volumes[0].owner_stopped) == (
        "010", Path("2024-13-45"), True,
    )  # fmt: skip
    assert found.defaults.message_format_version == "2.10"
    assert (found.defaults.retention_ms, found.defaults.kafkats_guard_max_share) == (7, 0.5)


HOUR = 3_600_000


@pytest.mark.parametrize(
    ("given", "read"),
    [
        ({"retention.ms": "5"}, {"retention_ms": 5}),
        ({"log.retention.ms": 5}, {"retention_ms": 5}),
        ({"log.retention.minutes": 5}, {"retention_ms": 300_000}),
        ({"log.retention.hours": 5}, {"retention_ms": 5 * HOUR}),
        ({"log.retention.hours": 1, "log.retention.minutes": 2}, {"retention_ms": 120_000}),
        ({"log.retention.minutes": 2, "log.retention.hours": 1}, {"retention_ms": 120_000}),
        ({"log.retention.hours": 1, "log.retention.ms": 3}, {"retention_ms": 3}),
        ({"log.retention.minutes": 1, "log.retention.ms": 3}, {"retention_ms": 3}),
        ({"log.retention.ms": 3, "retention.ms": 4}, {"retention_ms": 4}),
        ({"log.retention.ms": None, "log.retention.hours": 1}, {"retention_ms": HOUR}),
        ({"retention.ms": None, "log.retention.hours": 1}, {"retention_ms": HOUR}),
        ({"log.retention.hours": -1}, {"retention_ms": -1}),
        ({"log.retention.minutes": -5}, {"retention_ms": -1}),
        ({"log.retention.ms": -5}, {"retention_ms": -1}),
        ({"retention.ms": 0}, {"retention_ms": 0}),
        ({"retention.bytes": -5}, {"retention_bytes": -5}),
        ({"log.retention.bytes": 7}, {"retention_bytes": 7}),
        ({"log.roll.hours": 2}, {"segment_ms": 2 * HOUR}),
        ({"log.roll.hours": 2, "log.roll.ms": 9}, {"segment_ms": 9}),
        ({"log.roll.ms": 9, "segment.ms": 8}, {"segment_ms": 8}),
        ({"log.roll.jitter.hours": 0}, {"segment_jitter_ms": 0}),
        ({"log.roll.jitter.hours": 1, "log.roll.jitter.ms": 9}, {"segment_jitter_ms": 9}),
        ({"segment.bytes": 1048576, "internal.segment.bytes": 4096}, {"segment_bytes": 4096}),
        ({"log.segment.bytes": 50, "segment.bytes": 60}, {"segment_bytes": 60}),
        ({"log.index.size.max.bytes": 80}, {"segment_index_bytes": 80}),
        ({"log.index.interval.bytes": 0}, {"index_interval_bytes": 0}),
        ({"log.cleanup.policy": "compact"}, {"cleanup_policy": ("compact",)}),
        ({"cleanup.policy": "compact, delete"}, {"cleanup_policy": ("compact", "delete")}),
        ({"cleanup.policy": ["delete", "delete"]}, {"cleanup_policy": ("delete",)}),
        ({"cleanup.policy": ""}, {"cleanup_policy": ()}),
        (
            {"log.message.timestamp.type": "LogAppendTime"},
            {"message_timestamp_type": "LogAppendTime"},
        ),
        ({"max.message.time.difference.ms": 6}, {"message_timestamp_difference_max_ms": 6}),
        (
            {"max.message.time.difference.ms": 6, "log.message.timestamp.difference.max.ms": 7},
            {"message_timestamp_difference_max_ms": 7},
        ),
        ({"log.message.timestamp.before.max.ms": 1}, {"message_timestamp_before_max_ms": 1}),
        ({"log.message.timestamp.after.max.ms": 1}, {"message_timestamp_after_max_ms": 1}),
        ({"log.segment.delete.delay.ms": 1}, {"file_delete_delay_ms": 1}),
        ({"log.cleaner.delete.retention.ms": 1}, {"delete_retention_ms": 1}),
        ({"log.cleaner.max.compaction.lag.ms": 1}, {"max_compaction_lag_ms": 1}),
        ({"remote.storage.enable": "False"}, {"remote_storage_enable": False}),
        ({"log.message.format.version": "0.10.2-IV0"}, {"message_format_version": "0.10.2-IV0"}),
        ({"message.format.version": 1}, {"message_format_version": "1"}),
        ({"compression.type": "uncompressed"}, {"compression_type": "none"}),
        ({"kafkats.guard.max.bytes": "1.5GiB"}, {"kafkats_guard_max_bytes": 3 * 2**29}),
        ({"kafkats.guard.max.share": 1}, {"kafkats_guard_max_share": 1.0}),
        ({"kafkats.legal.hold": "true"}, {"kafkats_legal_hold": True}),
        ({"kafkats.keep.segments": "2"}, {"kafkats_keep_segments": 2}),
        ({"kafkats.implausible.timestamps": "clamp"}, {"kafkats_implausible_timestamps": "clamp"}),
        ({"kafkats.bogus.timestamps": "clamp"}, {"kafkats_implausible_timestamps": "clamp"}),
        (
            {"kafkats.bogus.timestamps": "mtime", "kafkats.implausible.timestamps": "clamp"},
            {"kafkats_implausible_timestamps": "clamp"},
        ),
    ],
)
def test_every_name_of_a_key_and_kafkas_precedence(
    given: dict[str, Any], read: dict[str, Any]
) -> None:
    assert settings(given) == read


def test_the_table_above_has_every_other_name() -> None:
    mark = next(
        mark
        for mark in test_every_name_of_a_key_and_kafkas_precedence.pytestmark
        if mark.name == "parametrize"
    )
    tried = {key for given, _ in mark.args[1] for key in given}
    assert set(ALIASES) | set(STRONGER) <= tried
    assert {alias.key for alias in (ALIASES | STRONGER).values()} <= set(KEYS.values())


@pytest.mark.parametrize(
    ("version", "magic"),
    [("0", 0), ("1", 1), ("2", 2), ("0.8.2", 0), ("0.9.0.1", 0), ("0.10.0-IV0", 1), ("0.10.2.2", 1), ("0.11.0", 2), ("1.0", 2), ("2.8-IV1", 2), ("3.0", 2)],
)  # fmt: skip
def test_format_versions_are_magics_and_releases(version: str, magic: int) -> None:
    assert (
        magic_of(
            TopicSettings.model_validate({"message.format.version": version}).message_format_version
            or ""
        )
        == magic
    )


@pytest.mark.parametrize(
    ("text", "size"), [("0", 0), ("4096", 4096), ("1GiB", 2**30), ("1.5 kB", 1500), ("0.1GiB", 107374182), ("2tib", 2**41), ("7B", 7)]
)  # fmt: skip
def test_sizes(text: str, size: int) -> None:
    assert parse_size(text) == size


@pytest.mark.parametrize(
    ("text", "ms"), [("250ms", 250), ("90s", 90_000), ("15m", 900_000), ("24h", 86_400_000), ("7d", 604_800_000), ("1.5h", 5_400_000)]
)  # fmt: skip
def test_durations(text: str, ms: int) -> None:
    assert parse_duration(text) == ms


@pytest.mark.parametrize("text", ["", "GiB", "-1GiB", "1e3", "1 2", "1PiB", "9" * 30, "１GiB"])
def test_what_is_no_size(text: str) -> None:
    with pytest.raises(ValueError, match="is not a size"):
        parse_size(text)


GIVEN = {"cleanup.policy": "delete", "retention.ms": 5}
"""Enough for retention to look at a topic."""


@pytest.mark.parametrize(
    ("file", "exported", "topic", "kept", "limits"),
    [
        ({}, {}, "a", "cleanup.policy is not given", (-1, -1)),
        ({"topics": {"a": GIVEN}}, {}, "a", "", (5, -1)),
        ({"topics": {"*": GIVEN}}, {}, "a", "", (5, -1)),
        ({"topics": {"b": GIVEN}}, {}, "a", "cleanup.policy is not given", (-1, -1)),
        ({"topics": {"a": {"retention.ms": 5}}}, {}, "a", "cleanup.policy is not given", (5, -1)),
        ({"topics": {"a": {"cleanup.policy": "delete"}}}, {}, "a", "neither retention.ms nor retention.bytes", (-1, -1)),
        ({"topics": {"a": {"cleanup.policy": "delete", "retention.bytes": 9}}}, {}, "a", "", (-1, 9)),
        ({"topics": {"a": {"cleanup.policy": "delete", "retention.bytes": -9}}}, {}, "a", "", (-1, -1)),
        ({"topics": {"a": {"cleanup.policy": "delete", "log.retention.hours": 1}}}, {}, "a", "", (HOUR, -1)),
        # defaults count where a glob names the topic
        ({"defaults": GIVEN}, {}, "a", "counts where a glob under topics names it", (-1, -1)),
        ({"defaults": GIVEN, "topics": {"*": {}}}, {}, "a", "counts where a glob under topics names it", (-1, -1)),
        ({"defaults": GIVEN, "topics": {"?*": {}}}, {}, "a", "counts where a glob under topics names it", (-1, -1)),
        ({"defaults": GIVEN, "topics": {"[a-z]*": {}}}, {}, "a", "counts where a glob under topics names it", (-1, -1)),
        ({"defaults": GIVEN, "topics": {"a*": {}}}, {}, "a", "", (5, -1)),
        ({"defaults": {"retention.ms": 5}, "topics": {"*": {"cleanup.policy": "delete", "retention.bytes": 1}}}, {}, "a", "", (-1, 1)),
        # Kafka's own topics
        ({"topics": {"*": GIVEN}}, {}, "__consumer_offsets", "cleanup.policy is not given", (-1, -1)),
        ({"topics": {"?_*": GIVEN}}, {}, "__x", "cleanup.policy is not given", (-1, -1)),
        ({"topics": {"__*": GIVEN}}, {}, "__x", "", (5, -1)),
        ({"topics": {"*": GIVEN}}, {}, "_schemas", "", (5, -1)),
        ({}, {"__x": GIVEN}, "__x", "cleanup.policy is not given", (-1, -1)),
        ({"topics": {"__x": {}}}, {"__x": GIVEN}, "__x", "", (5, -1)),
        # what an export says
        ({}, {"a": GIVEN}, "a", "", (5, -1)),
        ({}, {"b": GIVEN}, "a", "cleanup.policy is not given", (-1, -1)),
        ({}, {"a": {"retention.ms": 5}}, "a", "cleanup.policy is not given", (5, -1)),
        ({"topics": {"a": {"cleanup.policy": "delete"}}}, {"a": {"retention.ms": 5}}, "a", "", (5, -1)),
        ({"topics": {"a": {"retention.ms": 7}}}, {"a": GIVEN}, "a", "", (7, -1)),
        ({"defaults": {"retention.bytes": 1}}, {"a": GIVEN}, "a", "", (5, -1)),
        # what is not deleted whatever the limits
        ({"topics": {"a": GIVEN | {"cleanup.policy": "compact"}}}, {}, "a", "cleanup.policy=compact: only compaction", (5, -1)),
        ({"topics": {"a": GIVEN | {"cleanup.policy": ""}}}, {}, "a", "cleanup.policy=: only compaction", (5, -1)),
        ({"topics": {"a": GIVEN | {"cleanup.policy": "compact,delete"}}}, {}, "a", "", (5, -1)),
        ({"topics": {"a": GIVEN}}, {"a": {"cleanup.policy": "compact"}}, "a", "the export says cleanup.policy=compact, the policy delete", (5, -1)),
        ({"topics": {"a": GIVEN | {"remote.storage.enable": True}}}, {}, "a", "remote.storage.enable=true", (5, -1)),
        ({"topics": {"a": GIVEN}, "defaults": {"remote.storage.enable": True}}, {}, "a", "remote.storage.enable=true", (5, -1)),
        ({"topics": {"a": GIVEN | {"remote.storage.enable": False}}}, {"a": {"remote.storage.enable": "true"}}, "a", "remote.storage.enable=true", (5, -1)),
    ],
)  # fmt: skip
def test_nothing_is_deleted_that_was_not_said(
    file: dict[str, Any], exported: dict[str, Any], topic: str, kept: str, limits: tuple[int, int]
) -> None:
    found = Policy.model_validate(file).with_export(exported)
    assert (kept in found.why_kept(topic)) if kept else (found.why_kept(topic) == "")
    assert found.limits(topic) == limits


def test_the_command_line_alone_deletes_nothing() -> None:
    laid = with_settings(Policy(), ["cleanup.policy=delete", "retention.ms=5"])
    assert laid.settings("a").retention_ms == 5
    assert laid.explicit("a") == set()
    assert "the command line alone does not count" in laid.why_kept("a")
    given = with_settings(
        Policy.model_validate({"topics": {"a": GIVEN}}), ["log.retention.minutes=1"]
    )
    assert (given.why_kept("a"), given.limits("a")) == ("", (60_000, -1))


def test_a_time_stands_in_for_a_limit_but_not_for_the_cleanup_policy() -> None:
    found = Policy.model_validate({"topics": {"a": {"cleanup.policy": "delete"}}})
    assert (found.why_kept("a", limit_given=True), found.why_kept("a") != "") == ("", True)
    assert found.why_kept("b", limit_given=True) != ""


def test_settings_lie_over_each_other_key_by_key() -> None:
    base = Policy.model_validate({
        "defaults": {
            "retention.ms": 1,
            "segment.ms": 1,
            "retention.bytes": 1,
            "segment.bytes": 100,
        },
        "topics": {"a": {"retention.ms": 3, "segment.ms": 3}},
    })
    found = with_settings(
        base.with_export({"a": {"segment.ms": "2", "retention.bytes": "2"}}), ["segment.ms=4"]
    )
    assert found.settings("a").given() == {
        "retention_ms": 3, "segment_ms": 4, "retention_bytes": 2, "segment_bytes": 100,
    }  # fmt: skip
    assert found.settings("b").retention_bytes == 1
    assert with_settings(found, ["retention.ms=9"]).settings("a").segment_ms == 4


def test_contradictions_and_globs_that_match_nothing_can_be_told() -> None:
    base = Policy.model_validate({"topics": {"a": GIVEN, "b*": {}, "__*": {}}})
    found = base.with_export({
        "a": {"cleanup.policy": "compact,delete", "retention.ms": "5", "flush.ms": "1"}
    })
    assert found.contradictions("a") == (
        "cleanup.policy: the policy says delete, the export compact,delete",
    )
    assert found.unmatched(["a", "c", "bx"]) == ("__*",)


def test_a_policy_of_everything_goes_through_json_and_back() -> None:
    base = Policy.model_validate({
        "volumes": [{"path": "/a"}],
        "topics": {"a": GIVEN},
        "guard": {"max.bytes": "1GiB"},
    })
    found = with_settings(base.with_export({"b": GIVEN}), ["kafkats.keep.segments=3"])
    assert Policy.model_validate_json(found.model_dump_json(by_alias=True)) == found


def test_exports_lie_beside_the_policy(tmp_path: Path) -> None:
    (tmp_path / "topics.txt").write_text(
        "Configs for topic 'a' are cleanup.policy=delete,flush.ms=1\n"
    )
    (tmp_path / "more.txt").write_text("Configs for topic 'a' are retention.ms=9\n")
    found = policy(tmp_path, "exports: [topics.txt, more.txt]")
    assert found.settings("a").given() == {"cleanup_policy": ("delete",), "retention_ms": 9}
    assert found.why_kept("a") == ""


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("Configs for topic 'a' are \nConfigs for topic 'b' are retention.ms=soon\n", "line 2: b: retention.ms: must be a whole number, not 'soon'"),
        ("Configs for topic 'a' are cleanup.policy=remove\n", "line 1: a: cleanup.policy: must be one of"),
        ("nothing of Kafka\n", "line 1: not of Kafka's --describe"),
        ("", "no topic's configs in it"),
    ],
)  # fmt: skip
def test_a_wrong_export_is_refused_with_its_line(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "topics.txt"
    path.write_text(text)
    with pytest.raises(UsageError, match=re.escape(f"{path}: {said}")):
        with_export_file(Policy(), path)


def test_the_command_line_lies_over_everything() -> None:
    base = Policy(topics={"a": TopicSettings.model_validate({"index.interval.bytes": 7})})
    found = with_settings(base, ["index.interval.bytes=9", "log.index.size.max.bytes=80"])
    assert (found.settings("a").index_interval_bytes, found.settings("b").segment_index_bytes) == (
        9,
        80,
    )


@pytest.mark.parametrize(
    "pair",
    [
        "index.interval.bytes",
        "nonsense=1",
        "index.interval.bytes=x",
        "index.interval.bytes=-1",
        "volumes=1",
        "=1",
    ],
)
def test_wrong_pairs_are_refused(pair: str) -> None:
    with pytest.raises(UsageError):
        with_settings(Policy(), [pair])


NAMES = st.sampled_from([*KEYS.values(), *ALIASES, *STRONGER, "volumes", "topics", "defaults", "guard", "exports", "path", "max.share", "<<", "*"])  # fmt: skip
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=8)
    | st.dates()
    | st.binary(max_size=4)
)
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES | SCALARS, inner, max_size=4), max_leaves=12
)  # fmt: skip
POLICIES = st.dictionaries(
    NAMES | st.text(max_size=4), VALUES | st.dictionaries(NAMES, VALUES, max_size=4), max_size=4
)


@given(
    text=POLICIES.map(yaml.safe_dump)
    | st.text(alphabet="ab:{}[]&*!|>'\"#-?%@`, \n\t\x00<~0.1", max_size=40)
)
def test_whatever_a_file_says_it_is_a_policy_or_our_error(
    tmp_path_factory: pytest.TempPathFactory, text: str
) -> None:
    path = tmp_path_factory.getbasetemp() / "any.yaml"
    path.write_text(text, encoding="utf-8", errors="surrogatepass")
    try:
        found = read_policy(path)
    except KafkatsError as e:
        assert e.path
    else:
        found.settings("a"), found.explicit("a"), found.why_kept("a")


@given(
    key=st.sampled_from(sorted(KEYS.values())) | st.sampled_from(sorted(ALIASES)),
    value=SCALARS | st.lists(SCALARS, max_size=2),
)
def test_a_setting_is_what_was_meant_or_refused(key: str, value: Any) -> None:
    try:
        found = settings({key: value})
    except ValidationError as e:
        assert [problem["loc"][0] for problem in e.errors()] == [key]
    else:
        # What was read can be read again: nothing was made of it that its own key does not allow.
        assert settings({KEYS[name]: read for name, read in found.items()}) == found


def test_a_mountain_of_aliases_is_no_mountain_of_work(tmp_path: Path) -> None:
    steps = "\n".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 40))
    assert "unknown key" in refused(tmp_path, f"a0: &a0 [x]\n{steps}\n")


def test_a_policy_comes_from_a_pipe_but_waits_for_no_writer(tmp_path: Path) -> None:
    path = tmp_path / "policy.yaml"
    os.mkfifo(path)
    with pytest.raises(UsageError, match="into which nobody writes"):
        read_policy(path)
    reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    writer = os.open(path, os.O_WRONLY)
    os.write(writer, b'topics: {"a": {retention.ms: 5}}')
    os.close(writer)
    assert list(read_policy(path).topics) == ["a"]
    os.close(reader)
