"""Logs of a dialect are refused by all that would read them as what shipped."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kafkats import paths
from kafkats.errors import Refused
from kafkats.plans.dialects import read_as
from kafkats.plans.units import list_units
from kafkats.records.plan import ReadOptions, plan_read
from tests.builders.commands import run

Capture = pytest.CaptureFixture[str]
AT = "2024-01-01T00:00:00Z"
HERE = {"broker": "1", "partition": "t-0"}
RECORD = {"timestamp": AT, "key": "a", "value": "b"}
COMMANDS = (
    ("verify",),
    ("verify", "--deep"),
    ("inventory",),
    ("census",),
    ("certify", "--max-magic", "2"),
    ("simulate", "retain"),
    ("simulate", "roll"),
    ("plan", "rebuild", "-o", "PLAN"),
    ("plan", "retain", "-o", "PLAN"),
    ("plan", "migrate", "--to-magic", "2", "-o", "PLAN"),
    ("lookup", "--at", AT),
    ("layouts",),
    ("preflight", "--kafka", "4.3"),
)


def replayed(
    tmp_path: Path, capsys: Capture, kafka: str, *steps: dict[str, Any], version: int = 1
) -> Path:
    """A log directory with one record."""
    script = tmp_path / f"{kafka}.jsonl"
    every = [
        {"do": "broker", "broker": "1", "kafka": kafka},
        {"do": "create", **HERE},
        {"do": "produce", **HERE, "version": version, "records": [RECORD]},
        *steps,
    ]
    script.write_text("".join(json.dumps(one) + "\n" for one in every))
    code, _, err = run(capsys, "replay", script, "-o", tmp_path / kafka, "--not-for-a-broker")
    assert code == 0, err
    return tmp_path / kafka / "broker-1"


@pytest.fixture
def enriched(tmp_path: Path, capsys: Capture) -> Path:
    return replayed(tmp_path, capsys, "enriched")


@pytest.fixture
def kip228(tmp_path: Path, capsys: Capture) -> Path:
    return replayed(tmp_path, capsys, "kip228", version=3)


@pytest.mark.parametrize("dialect", ["enriched", "kip228"])
def test_commands_refuse_it(
    dialect: str, tmp_path: Path, capsys: Capture, request: pytest.FixtureRequest
) -> None:
    root: Path = request.getfixturevalue(dialect)
    before = {path: path.read_bytes() for path in root.rglob("*") if path.is_file()}
    for words in COMMANDS:
        asked = [str(tmp_path / "plan") if word == "PLAN" else word for word in words]
        code, _, err = run(capsys, *asked, root)
        assert (code, f"has logs of the dialect {dialect}" in err) == (3, True), (words, err)
        assert f"--dialect {dialect}" in err
    after = {path: path.read_bytes() for path in root.rglob("*") if path.is_file()}
    assert after == before and not (tmp_path / "plan").exists()
    with pytest.raises(Refused, match=dialect):
        plan_read([str(root)], ReadOptions())
    assert run(capsys, "verify", root / "t-0")[0] == 3


def test_who_names_it_reads_it(
    enriched: Path, kip228: Path, tmp_path: Path, capsys: Capture
) -> None:
    code, _, err = run(capsys, "lookup", "--dialect", "kip228", "--at", AT, kip228)
    assert code == 0, err
    code, _, err = run(capsys, "lookup", "--dialect", "kip228", "--at", AT, enriched)
    assert code == 3 and "dialect enriched" in err
    back = ("plan", "migrate", "--dialect", "enriched", "--to-magic", "1", "-o", tmp_path / "plan")
    assert run(capsys, *back, enriched)[0] == 0
    assert run(capsys, "apply", tmp_path / "plan", "--digest", "any")[0] == 0
    assert run(capsys, "verify", enriched)[0] == 0
    code, _, err = run(capsys, *back[:-1], tmp_path / "other", kip228)
    assert code == 3 and "dialect kip228" in err


def test_a_partition_of_its_own_tells_one_dialect_only(
    enriched: Path, kip228: Path, tmp_path: Path, capsys: Capture
) -> None:
    for root in (enriched, kip228):
        shutil.copytree(root / "t-0", tmp_path / f"copy-of-{root.parent.name}" / "t-0")
    code, _, err = run(capsys, "verify", tmp_path / "copy-of-enriched/t-0")
    assert code == 3 and "dialect enriched" in err
    assert run(capsys, "verify", tmp_path / "copy-of-kip228/t-0")[0] == 0


def _move_to_offset_1(partition: Path) -> None:
    """The segment at offset 0 is empty then."""
    for kind in (paths.LOG, paths.OFFSET_INDEX):
        file = partition / paths.segment_file(0, kind)
        shutil.copy(file, partition / paths.segment_file(1, kind))
        file.write_bytes(b"")


def test_a_segment_without_messages_tells_nothing(enriched: Path, tmp_path: Path) -> None:
    """The next one does, also where a time index says that a broker that shipped wrote it."""
    log = enriched / "t-0" / paths.segment_file(0, paths.LOG)
    _move_to_offset_1(enriched / "t-0")
    with pytest.raises(Refused, match="enriched"):
        list(read_as(list_units([enriched])))
    log.with_name(paths.segment_file(1, paths.TIME_INDEX)).write_bytes(b"")
    assert list(read_as(list_units([enriched])))


@pytest.mark.parametrize("empty_first", [False, True])
@pytest.mark.parametrize("dialect", ["enriched", "kip228"])
def test_a_broker_that_shipped_takes_no_copy(
    dialect: str,
    empty_first: bool,
    tmp_path: Path,
    capsys: Capture,
    request: pytest.FixtureRequest,
) -> None:
    root: Path = request.getfixturevalue(dialect)
    if empty_first:
        _move_to_offset_1(root / "t-0")
    script = tmp_path / "copies.jsonl"
    copied = {"do": "create", **HERE, "from": f"{dialect}/broker-1/t-0"}
    steps = ({"do": "broker", "broker": "1", "kafka": "2.8.2"}, copied)
    script.write_text("".join(json.dumps(one) + "\n" for one in steps))
    code, _, err = run(capsys, "replay", script, "-o", tmp_path / "out")
    assert code == 3 and f"line 2: has logs of the dialect {dialect}" in err


def test_what_shipped_is_read(tmp_path: Path, capsys: Capture) -> None:
    """Without a time index, too."""
    root = replayed(tmp_path, capsys, "0.8.2", version=0)
    code, _, err = run(capsys, "verify", root)
    assert code == 0, err


def _large(mark: Path) -> None:
    mark.touch()
    os.truncate(mark, 1 << 30)


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda mark: mark.write_text("esperanto\n"), "names no dialect"),
        (lambda mark: mark.write_bytes(bytes(range(256))), "names no dialect"),
        (os.mkfifo, "not a regular file"),
        (Path.mkdir, "not a regular file"),
        (_large, "larger than"),
        (lambda mark: mark.symlink_to("/dev/zero"), "not a regular file"),
        (lambda mark: mark.symlink_to("nowhere"), "No such file"),
        (lambda mark: mark.symlink_to(mark.name), "symbolic links"),
    ],
    ids=["unknown", "binary", "pipe", "folder", "large", "endless", "dangling", "loop"],
)
@pytest.mark.parametrize("words", [("verify",), ("preflight", "--kafka", "4.3")])
def test_a_mark_that_names_nothing_known_is_an_error(
    make: Callable[[Path], object],
    says: str,
    words: tuple[str, ...],
    tmp_path: Path,
    capsys: Capture,
) -> None:
    root = replayed(tmp_path, capsys, "2.8.2", version=3)
    make(root / paths.DIALECT)
    code, _, err = run(capsys, *words, root)
    assert code == 2 and f"{paths.DIALECT}: " in err and says in err


def test_a_broker_that_changes_its_dialect_names_it(tmp_path: Path, capsys: Capture) -> None:
    """The batches that it wrote as such stay in the log."""
    there = {"do": "restart", "broker": "1", "kafka": "kip228"}
    root = replayed(tmp_path, capsys, "2.8.2", there, there | {"kafka": "2.8.2"}, version=3)
    assert (root / paths.DIALECT).read_text() == "kip228\n"
