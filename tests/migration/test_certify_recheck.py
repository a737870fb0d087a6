"""A certificate checked again after a broker's own work: retention and the log cleaner, as real brokers left the directory."""

from __future__ import annotations

import shutil
from collections import Counter
from pathlib import Path

import pytest

from tests.builders.certificates import certified, log_of, message, recheck, whats
from tests.builders.locks import broker
from tests.golden import Unpacked, cases

RETENTION, CLEANER = "deleted from the front, as by retention", "as by the log cleaner"


def become(root: Path, other: Path) -> None:
    """Give `root` the files of `other`: a new file where the content differs, none where there is none any more."""
    for path in [
        path
        for path in root.rglob("*")
        if path.is_file() and not (other / path.relative_to(root)).exists()
    ]:
        path.unlink()
    for path in [path for path in other.rglob("*") if path.is_file()]:
        ours = root / path.relative_to(other)
        if not ours.exists() or ours.read_bytes() != path.read_bytes():
            ours.parent.mkdir(exist_ok=True)
            beside = ours.with_name("new")
            shutil.copy2(path, beside)
            beside.replace(ours)


@pytest.mark.slow(1)
@pytest.mark.parametrize("one", cases("retention", "compaction"), ids=str)
def test_what_a_broker_does_is_told_and_allowed_while_it_runs(
    golden: Unpacked, tmp_path: Path, one: object
) -> None:
    before, after = (golden(str(one), state) for state in ("before", "after"))
    root = tmp_path / "data"
    shutil.copytree(before, root)
    with broker(root):
        running = certified(root, max_magic=2)
    stopped = certified(root, max_magic=2)
    become(root, after)
    words = RETENTION if str(one).startswith("retention") else CLEANER
    for made, unchanged in ((running, True), (stopped, False)):
        again = recheck(made)
        odd = [
            d
            for d in again.differences
            if d.what in {"changed", "vanished", "touched"} and not d.now
        ]
        assert not odd
        assert (again.holds, again.unchanged) == (True, unchanged), Counter(
            d.what for d in again.differences
        )
        assert any(
            words in d.now for d in again.differences if d.what in {"vanished", "changed", "grown"}
        )


def compacted(root: Path) -> None:
    (root / "cleaner-offset-checkpoint").write_text("0\n1\na 0 10\n")


def rewrite(root: Path, base: int, content: bytes) -> None:
    log = log_of(root, "a-0", base)
    log.with_name("cleaned").write_bytes(content)
    log.with_name("cleaned").replace(log)


def test_a_cleaner_that_writes_a_lower_magic_breaks_it(volume: Path) -> None:
    compacted(volume)
    with broker(volume):
        made = certified(volume, min_magic=2)
        rewrite(volume, 0, message(2, 3))
        again = recheck(made)
        assert whats(again) == [("changed", "a-0", 0, False)]
        assert (again.holds, again.unchanged) == (True, True)
        rewrite(volume, 0, message(0, 3))
        again = recheck(made)
        assert whats(again) == [("changed", "a-0", 0, True)]
        assert (again.holds, again.unchanged) == (False, False)


def test_only_a_cleaner_gives_a_segment_other_batches(volume: Path) -> None:
    with broker(volume):
        made = certified(volume, min_magic=2)
        rewrite(volume, 0, message(2, 3))
        assert not recheck(made).unchanged, "nothing compacts this topic"
        compacted(volume)
        assert recheck(made).unchanged
        log = log_of(volume)
        log.write_bytes(message(2, 4))
        assert recheck(made).unchanged, "still another file than the certified one"
        made = certified(volume, min_magic=2)
        log.write_bytes(message(2, 5))
        assert not recheck(made).unchanged, "the same file, changed in its place"


@pytest.mark.parametrize("merged", [True, False])
def test_a_segment_that_is_gone_from_the_middle_counts(volume: Path, merged: bool) -> None:
    compacted(volume)
    log_of(volume, "a-0", 20).write_bytes(message(2, 20))
    with broker(volume):
        made = certified(volume, min_magic=2)
        if merged:
            rewrite(volume, 0, log_of(volume).read_bytes() + log_of(volume, "a-0", 10).read_bytes())
        log_of(volume, "a-0", 10).unlink()
        again = recheck(made)
        [gone] = [d for d in again.differences if d.what == "vanished"]
        assert (gone.base_offset, CLEANER in gone.now, again.unchanged) == (10, merged, merged)


def test_the_last_segment_that_is_gone_counts(volume: Path) -> None:
    with broker(volume):
        made = certified(volume, min_magic=2)
        log_of(volume, "a-0", 10).unlink()
        assert not recheck(made).unchanged
