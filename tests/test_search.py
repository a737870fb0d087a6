"""Searches by time: every answer that a real broker gave, and the truth by brute force."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kafkats import search
from kafkats.generations import SEARCH_RULES
from tests.golden import Case, Unpacked, cases

NONE = (-1, -1)


def rule_of(kafka: str) -> str:
    version = tuple(int(part) for part in kafka.split(".")[:3])
    for since, rule in (((3, 8), "3.8"), ((3, 0), "3.0"), ((0, 11), "0.11"), ((0, 10, 1), "0.10.1")):
        if version >= since:
            return rule
    return "0.8"


def searchable(case: Case, kafka: str, partition: str) -> bool:
    """Whether that broker searches a topic of this format by time."""
    settings = case.info["brokers"][-1].get("settings", {})
    version = case.topic_config(partition).get("message.format.version") or settings.get("log.message.format.version")
    return not version or rule_of(kafka) == "3.8" or not version.startswith(("0.8", "0.9"))


@pytest.fixture(scope="module")
def recorded(golden: Unpacked, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A case -> (what was recorded, the partition as it was when the broker was asked: with the mtimes of that moment)."""
    into = tmp_path_factory.mktemp("asked")

    def of(case: Case) -> Iterator[tuple[dict[str, Any], search.Partition]]:
        root = golden(case, case.states[-1])
        for asked in case.times():
            (found,) = root.rglob(asked["tp"])
            copy = into / case.name / asked["tp"]
            if not copy.exists():
                shutil.copytree(found, copy)
            for name, mtime_ms in asked["mtime_ms_of_logs_when_asked"].items():
                if (copy / name).exists():
                    os.utime(copy / name, ns=(mtime_ms * 10**6, mtime_ms * 10**6))
            clean = (found.parent / ".kafka_cleanshutdown").exists()
            served = searchable(case, asked["kafka"], asked["tp"])
            log_start = checkpoint(found.parent, asked["tp"])
            with search.open_partition(copy, clean=clean, searchable=served, log_start_offset=log_start) as partition:
                yield asked, partition

    return of


def checkpoint(root: Path, partition: str) -> int:
    file = root / "log-start-offset-checkpoint"
    lines = file.read_text().splitlines()[2:] if file.exists() else []
    entries = {f"{topic}-{number}": int(offset) for topic, number, offset in map(str.split, lines)}
    return entries.get(partition, 0)


ASKED = [case for case in cases() if (case.folder / "offsets_for_times.json.xz").exists()]


@pytest.mark.parametrize("case", ASKED, ids=str)
def test_answers_of_real_brokers(case: Case, recorded: Any) -> None:
    compared = 0
    for asked, partition in recorded(case):
        rule = rule_of(asked["kafka"])
        for target, theirs in asked["answers"]:
            if rule == "0.8":
                offsets = search.offsets_before(partition, target, now_ms=asked["asked_at_ms"])
                assert offsets == theirs["offsets"], (asked["tp"], target)
                continue
            ours = search.find(partition, target, rule)
            said = (ours.offset, ours.timestamp)
            assert said == ((theirs["offset"], theirs["timestamp"]) if theirs else NONE), (asked["tp"], target, ours)
            assert ours.reason in search.REASONS
            if theirs and "leader_epoch" in theirs:
                assert ours.leader_epoch == theirs["leader_epoch"], (asked["tp"], target)
            compared += 1
    assert compared or rule == "0.8"
