from __future__ import annotations

import re
from pathlib import Path

import pytest

from kafkats import paths
from kafkats.logdir.root import recovered_segments
from tests.builders.directories import scan_root
from tests.golden import Case, Unpacked, cases


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for name in ("orders-0", "orders-1.0123abcd-future"):
        (tmp_path / name).mkdir()
        for base, size in ((0, 100), (1000, 200), (2000, 300)):
            (tmp_path / name / paths.segment_file(base, paths.LOG)).write_bytes(b"x" * size)
    return tmp_path


def recovered(root: Path, n: int = 0) -> tuple[list[int], int]:
    found = scan_root(root)
    segments = recovered_segments(found, found.partitions[n])
    return [s.base_offset for s in segments], sum(s.log.size for s in segments)


@pytest.mark.parametrize(
    ("point", "expected"),
    [
        (0, ([0, 1000, 2000], 600)),
        (999, ([0, 1000, 2000], 600)),
        (1000, ([1000, 2000], 500)),
        (1999, ([1000, 2000], 500)),
        (2000, ([2000], 300)),
        (10**9, ([2000], 300)),
    ],
)
def test_from_the_segment_with_the_recovery_point_on(
    root: Path, point: int, expected: tuple[list[int], int]
) -> None:
    (root / paths.RECOVERY_POINT).write_text(f"0\n2\norders 0 {point}\norders 1 {point}\n")
    assert recovered(root) == expected
    assert recovered(root, 1) == expected  # a copy being moved is looked up by its plain name


@pytest.mark.parametrize(
    "text", [None, "", "0\n0\n", "0\n9\norders 0 2000\n", "0\n1\nothers 0 2000\n"]
)
def test_a_recovery_point_that_is_missing_or_unreadable_counts_as_0(
    root: Path, text: str | None
) -> None:
    if text is not None:
        (root / paths.RECOVERY_POINT).write_text(text)
    assert recovered(root) == ([0, 1000, 2000], 600)


def test_below_the_first_segment(root: Path) -> None:
    (root / "orders-0" / paths.segment_file(0, paths.LOG)).unlink()
    assert recovered(root) == ([1000, 2000], 500)


def test_nothing_after_a_clean_stop(root: Path) -> None:
    (root / paths.CLEAN_SHUTDOWN).touch()
    assert recovered(root) == ([], 0)


RECOVERING = re.compile(
    r"(?:partition=(?P<new>[^ ,]+), .*)?Recovering unflushed segment (?P<base>\d+)(?: in log (?P<old>\S+)\. )?"
)
SOUND_LOGS = (
    "untouched-0",
    "no-index-old-0",
    "no-indexes-0",
    "empty-index-old-0",
    "noise-timeindex-old-0",
    "no-epochs-0",
)


@pytest.mark.parametrize("one", [c for c in cases("crash")], ids=str)
def test_real_brokers_recovered_these_very_segments(one: Case, golden: Unpacked) -> None:
    """By the brokers' own logs. Where they found corruption they stopped there."""
    found = scan_root(golden(one, "before"))
    assert not found.clean_shutdown
    said: dict[str, set[int]] = {}
    for m in RECOVERING.finditer(one.text("broker-log.txt.xz")):
        said.setdefault(m["new"] or m["old"], set()).add(int(m["base"]))
    checked = 0
    for p in found.partitions:
        if str(p.name) not in one.info["damage"] or str(p.name).startswith((
            "lost-",
            "swap-",
            "orphan-",
        )):
            continue
        ours = [s.base_offset for s in recovered_segments(found, p)]
        theirs = sorted(said.get(str(p.name), set()))
        assert theirs == ours[: len(theirs)], str(p.name)
        assert theirs, str(p.name)
        if str(p.name) in SOUND_LOGS:
            assert theirs == ours, str(p.name)
            checked += 1
    assert checked >= 4
