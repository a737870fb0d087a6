"""Copies of good batches behind a corrupt place: their bytes, their note, and where they may lie."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest

from kafkats.errors import Refused, UsageError
from kafkats.formats import dispatch
from kafkats.logdir.partition import log_bases
from kafkats.recovery.copying import place_of
from kafkats.recovery.kept_runs import COPY_NOTE
from tests.builders.directories import contents
from tests.golden import Unpacked
from tests.recovery.crashed import CRASHED, plan_of, some_of

CORRUPT = "crc-old-rp0-0"


@pytest.fixture
def root(golden: Unpacked, tmp_path: Path) -> Path:
    return some_of(golden, CRASHED.name, (CORRUPT, "torn-0"), tmp_path / "data")


def offsets(log: Path) -> list[int]:
    """The last offsets of a log's batches. Raises CorruptBatch."""
    return [batch.last_offset for batch in dispatch.batches(log.read_bytes())]


@pytest.mark.parametrize("like_kafka", [False, True])
def test_all_good_batches_behind_the_corrupt_one_are_copied(
    root: Path, tmp_path: Path, like_kafka: bool
) -> None:
    before = contents(root)
    planned = plan_of(root, CRASHED, like_kafka=like_kafka, copies=tmp_path / "copies")
    assert contents(root) == before
    rows = {row["partition_dir"]: row for row in planned.beside["recovery"].to_pylist()}
    assert bool(rows[CORRUPT]["blocked"]) != like_kafka
    place = place_of(str(tmp_path / "copies"), str(root), CORRUPT)
    note = json.loads((place / COPY_NOTE).read_text())
    assert note["partition_dir"] == CORRUPT and "no partition directory" in note["about"]
    sizes = {log["file"]: log["bytes"] for log in note["logs"]}
    assert rows[CORRUPT]["copied_bytes"] == sum(sizes.values()) > 0
    assert {path.name for path in place.iterdir()} == {COPY_NOTE, *sizes}
    assert [path.name for path in place.parent.iterdir()] == [CORRUPT]  # torn-0 loses nothing
    for log in note["logs"]:
        copy = (place / log["file"]).read_bytes()
        source = (root / CORRUPT / log["file"]).read_bytes()
        assert copy == b"".join(source[run["start"] : run["end"]] for run in log["runs"])
        assert (len(copy), hashlib.sha256(copy).hexdigest()) == (log["bytes"], log["sha256"])
    # From the recovery point 0 on, all is copied that lies behind the one corrupt batch.
    copied = [offset for name in sorted(sizes) for offset in offsets(place / name)]
    last = root / CORRUPT / f"{log_bases(root / CORRUPT)[-1]:020d}.log"
    assert copied == sorted(copied) and copied[-1] == offsets(last)[-1]
    assert sorted(sizes)[1:] == [
        f"{base:020d}.log"
        for base in log_bases(root / CORRUPT)
        if base > int(sorted(sizes)[0][:20])
    ]


def test_a_second_plan_keeps_the_copy(root: Path, tmp_path: Path) -> None:
    copies = tmp_path / "copies"
    first = plan_of(root, CRASHED, copies=copies).plan.digest
    before = contents(copies)
    assert plan_of(root, CRASHED, copies=copies).plan.digest == first
    assert contents(copies) == before


def test_another_copy_is_not_replaced(root: Path, tmp_path: Path) -> None:
    copies = tmp_path / "copies"
    plan_of(root, CRASHED, copies=copies)
    last = root / CORRUPT / f"{log_bases(root / CORRUPT)[-1]:020d}.log"
    data = bytearray(last.read_bytes())
    data[-1] ^= 1
    last.write_bytes(data)
    before = contents(copies)
    with pytest.raises(Refused, match="already"):
        plan_of(root, CRASHED, copies=copies)
    assert contents(copies) == before


@pytest.mark.parametrize("inside", ["copies", f"{CORRUPT}/copies", "../link/copies"])
def test_no_copy_lies_in_a_log_directory(root: Path, inside: str) -> None:
    (root.parent / "link").symlink_to(root)
    before = contents(root)
    with pytest.raises(UsageError, match="lies in the log directory"):
        plan_of(root, CRASHED, copies=root / inside)
    assert contents(root) == before
