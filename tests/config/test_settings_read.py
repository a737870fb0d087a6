"""The settings that each operation says it reads, held against what the commands do."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from kafkats.cli import main
from kafkats.config.given import Given
from kafkats.config.option import declared
from kafkats.config.settings import KEYS, TopicSettings
from kafkats.config.settings_read import INDEXES, NOWHERE, SEARCHES
from kafkats.operations import OPERATIONS
from kafkats.paths import CLEAN_SHUTDOWN
from kafkats.plans.operation import Operation
from kafkats.retention.operation import INSIDE_READS
from kafkats.rolling.operation import SIMULATION_READS
from tests.golden import case

VALUES = {
    "cleanup.policy": "delete", "retention.ms": "1000", "retention.bytes": "5000", "segment.bytes": "3000", "segment.ms": "60000",
    "segment.jitter.ms": "5", "segment.index.bytes": "1000", "index.interval.bytes": "512", "max.compaction.lag.ms": "1000",
    "remote.storage.enable": "true", "message.format.version": "2.8", "kafkats.legal.hold": "true", "kafkats.guard.max.share": "0.1",
    "message.timestamp.type": "LogAppendTime", "message.timestamp.before.max.ms": "1", "message.timestamp.after.max.ms": "1",
    "message.timestamp.difference.max.ms": "1", "kafkats.guard.max.bytes": "1", "kafkats.implausible.timestamps": "ignore", "kafkats.keep.segments": "2",
}  # fmt: skip
COMMANDS: dict[str, list[tuple[str, ...]]] = {
    "verify": [("verify", "ROOT")],
    "rebuild": [("plan", "rebuild", "ROOT", "--depth", "full", "-o", "PLAN")],
    "recover": [("plan", "recover", "KILLED", "-o", "PLAN")],
    "migrate": [("plan", "migrate", "ROOT", "--to-magic", "2", "--compression-type", "zstd", "-o", "PLAN")],
    "split": [("plan", "split", "ROOT", "--where", "rolled", "--segment-bytes", "3000", "--latest", "NOW", "-o", "PLAN")],
    "lookup": [("lookup", "ROOT", "--at", "2020-09-15T00:00:00Z")],
    "export": [("export", "ROOT", "--at", "2020-09-15T00:00:00Z", "--to", "json", "--missing", "leave")],
    "retain": [
        ("plan", "retain", "ROOT", "--now", "NOW", "--generation", rule, "-o", "PLAN") for rule in ("3.0", "kip33")
    ] + [("simulate", "retain", "ROOT", "--now", "NOW")],
    "retain inside segments": [
        ("plan", "retain", "ROOT", "--now", "NOW", "--inside-segments", "--generation", rule, "-o", "PLAN") for rule in ("3.0", "kip33")
    ],
    "roll": [("plan", "roll", "ROOT", "--now", "NOW", "-o", "PLAN")],
    "simulate roll": [("simulate", "roll", "ROOT", "--now", "NOW")],
}  # fmt: skip


def reads(operation: Operation) -> frozenset[str]:
    """The settings that an operation reads with the defaults of its options."""
    every = [one for model in operation.models for one in declared(model)]
    return operation.reads(Given({one.name: one.default for one in every}, 0))


READS = {
    "verify": INDEXES,
    "lookup": SEARCHES,
    "export": SEARCHES,
    "retain inside segments": INSIDE_READS,
    "simulate roll": SIMULATION_READS,
    **{name: reads(one) for name, one in OPERATIONS.items()},
}


@pytest.fixture
def places(tmp_path: Path) -> dict[str, str]:
    """A real directory of which retention would delete the first part of a segment, and a policy that allows it."""
    (tmp_path / "data").mkdir()
    root = case("retention-4.3.1").unpack("before", tmp_path / "data")
    killed = tmp_path / "killed"
    shutil.copytree(root, killed)
    (killed / CLEAN_SHUTDOWN).unlink()
    policy = tmp_path / "policy.json"
    policy.write_text(
        json.dumps({
            "topics": {
                "*": {
                    "cleanup.policy": "delete",
                    "retention.ms": 86_400_000,
                    "retention.bytes": 10_000_000,
                }
            }
        })
    )
    return {
        "ROOT": str(root),
        "KILLED": str(killed),
        "PLAN": str(tmp_path / "plan"),
        "NOW": "1600086440000",
        "POLICY": str(policy),
    }


def run(
    capsys: pytest.CaptureFixture[str],
    places: dict[str, str],
    words: tuple[str, ...],
    *settings: str,
) -> tuple[Any, str]:
    """The lines of the result without remarks, and all that is said of settings."""
    given = [word for setting in settings for word in ("--config", setting)]
    given += [] if words[0] == "export" else ["--json"]
    with pytest.raises(SystemExit) as end:
        main([*(places.get(word, word) for word in words), "--policy", places["POLICY"], *given])
    out, err = capsys.readouterr()
    assert end.value.code in (0, 1), err
    if words[0] == "export":
        return out, err
    *rows, last = [json.loads(line) for line in out.splitlines()]
    remarks = last["summary"].pop("remarks", []) if "summary" in last else []
    return (rows, last), "\n".join([err, *remarks])


def test_every_key_is_in_the_tables() -> None:
    assert set(VALUES) == set(KEYS.values()) - NOWHERE == set().union(*READS.values())


@pytest.mark.parametrize("operation", READS)
def test_what_is_read_is_in_the_table(
    operation: str,
    places: dict[str, str],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fields, seen = {name: KEYS[name] for name in TopicSettings.model_fields}, set()

    def getting(self: TopicSettings, name: str) -> Any:
        if name in fields:
            seen.add(fields[name])
        return object.__getattribute__(self, name)

    with monkeypatch.context() as patch:
        patch.setattr(TopicSettings, "__getattribute__", getting)
        for words in COMMANDS[operation]:
            run(capsys, places, words)
    if operation == "roll":
        # Rolling takes the index interval out, and verifies what it closes with the defaults.
        seen -= INDEXES - READS[operation]
    assert seen == READS[operation]


@pytest.mark.slow(1)
@pytest.mark.examples(3)
@pytest.mark.parametrize("operation", READS)
def test_what_is_not_read_changes_nothing_and_is_said(
    operation: str, places: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    ignored = [key for key in VALUES if key not in READS[operation]]
    for words in COMMANDS[operation]:
        plain, said = run(capsys, places, words)
        assert "not read by this operation" not in said
        result, said = run(capsys, places, words, *(f"{key}={VALUES[key]}" for key in ignored))
        assert result == plain
        assert all(
            f"--config {key} is given, and not read by this operation" in said for key in ignored
        )
        assert said.count("not read by this operation") == len(ignored)
        for key in READS[operation]:
            assert (
                "not read by this operation"
                not in run(capsys, places, words, f"{key}={VALUES[key]}")[1]
            )
