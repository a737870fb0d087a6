"""Entries of one copy of a ledger come into another once, whoever brings them."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from kafkats.errors import Refused
from kafkats.migration import ledger, merging

MS = 1_795_500_000_001


def grown(path: Path, event: str, ms: int = MS) -> None:
    ledger.append(path, event, by="ops", now_ms=ms, broker="1", phase="phase-1")


def events(path: Path) -> list[str]:
    return [one.event for one in ledger.read(path).entries]


@pytest.fixture
def copies(tmp_path: Path) -> tuple[Path, Path]:
    """A ledger, and a copy of it."""
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    grown(ours, "begun")
    shutil.copy(ours, theirs)
    return ours, theirs


def test_every_entry_keeps_its_moment_and_is_brought_once(copies: tuple[Path, Path]) -> None:
    ours, theirs = copies
    grown(theirs, "started", MS + 1)
    grown(theirs, "converted", MS + 999)
    grown(ours, "meanwhile")
    for _ in range(2):
        merging.merge(theirs, ours)
    assert events(ours) == ["begun", "meanwhile", "started", "converted"]
    came = [one.at for one in ledger.read(theirs).entries]
    assert [one.at for one in ledger.read(ours).entries if one.event != "meanwhile"] == came


def test_two_who_bring_the_same_entry_at_once_bring_it_once(
    copies: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    ours, theirs = copies
    grown(theirs, "started")
    append = ledger.append

    def later(*given: Any, **named: Any) -> ledger.Entry:
        """Append after another one has."""
        monkeypatch.setattr(merging, "append", append)
        merging.merge(theirs, ours)
        return append(*given, **named)

    monkeypatch.setattr(merging, "append", later)
    merging.merge(theirs, ours)
    assert events(ours) == ["begun", "started"]


def test_the_ledger_of_another_migration_is_refused(tmp_path: Path) -> None:
    for name in ("ours", "theirs"):
        grown(tmp_path / name, "begun", MS + len(name))
    with pytest.raises(Refused, match="of another migration"):
        merging.merge(tmp_path / "theirs", tmp_path / "ours")
    assert events(tmp_path / "ours") == ["begun"]


def test_a_ledger_that_is_not_there_is_made(copies: tuple[Path, Path], tmp_path: Path) -> None:
    merging.merge(copies[0], tmp_path / "new")
    assert events(tmp_path / "new") == ["begun"]
