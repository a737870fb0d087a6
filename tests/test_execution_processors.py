"""The processors and the memory of a process in control groups."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from kafkats.execution import local, processors
from kafkats.execution.local import WORKER_MEMORY, LocalExecutor


@pytest.fixture
def groups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The group of a service in a slice, on a machine of 64 processors."""
    own = tmp_path / "cgroup"
    own.write_text("1:name=systemd:/\n0::/kafka.slice/kafka.service\n")
    monkeypatch.setattr(processors, "_OWN", own)
    monkeypatch.setattr(processors, "_GROUPS", tmp_path / "groups")
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(64)))
    (group := tmp_path / "groups/kafka.slice/kafka.service").mkdir(parents=True)
    return group


@pytest.mark.parametrize(
    ("service", "above", "found"),
    [
        ("max 100000", "max 100000", 64),
        ("200000 100000", "max 100000", 2),
        ("max 100000", "250000 100000", 3),
        ("400000 100000", "150000 100000", 2),
        ("5000 100000", None, 1),
        (None, None, 64),
    ],
)
def test_the_least_quota_of_all_groups_counts(
    groups: Path, service: str | None, above: str | None, found: int
) -> None:
    for folder, text in ((groups, service), (groups.parent, above)):
        if text is not None:
            (folder / "cpu.max").write_text(f"{text}\n")
    assert processors.processors() == found
    assert LocalExecutor().jobs == found


def test_there_are_no_more_workers_than_have_room(groups: Path) -> None:
    (groups / "memory.max").write_text("max\n")
    assert processors.memory_bytes() is None
    (groups.parent / "memory.max").write_text(f"{3 * WORKER_MEMORY + 1}\n")
    assert (LocalExecutor().jobs, LocalExecutor(7).jobs) == (3, 7)
    (groups / "memory.max").write_text("1000\n")
    assert LocalExecutor().jobs == 1 == local._jobs()


@pytest.mark.parametrize("text", ["4:cpu:/\n", None])
def test_without_such_groups_the_affinity_counts(groups: Path, text: str | None) -> None:
    (groups / "cpu.max").write_text("100000 100000\n")
    if text is None:
        processors._OWN.unlink()
    else:
        processors._OWN.write_text(text)
    assert (processors.processors(), processors.memory_bytes()) == (64, None)
