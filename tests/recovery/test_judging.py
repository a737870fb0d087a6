"""verify, preflight and plan recover agree on directories with random damages.

The newest release is asked, and the plan has no options. A sample of fixed numbers runs each time; with
KAFKATS_FULL as many of numbers that nobody chose.
"""

from __future__ import annotations

import secrets
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Final

import pytest

from kafkats import paths
from kafkats.findings import KINDS
from kafkats.recovery.sentences import summary
from tests.builders.operations import applied_rows
from tests.golden import Unpacked, tree
from tests.recovery.judged import Judged, Scene, judged, scene

AT_THE_END: Final = {"missing-records", "end-not-flushed"}
"""Findings of verify that name records which the log's end lacks."""


def bad(kinds: Iterable[str], *severities: str) -> set[str]:
    """The kinds of these severities: damage and danger if none is named."""
    return {kind for kind in kinds if KINDS[kind][0] in (severities or ("damage", "danger"))}


def found(one: Judged) -> set[str]:
    return {finding["kind"] for finding in one.found}


def told(one: Judged) -> set[str]:
    return {finding.kind for finding in one.start.findings}


def same_end(of: Scene, one: Judged) -> None:
    """A start and the plan end a log alike. Beside a marker a broker believes the index, and the plan reads the log."""
    if not one.row or one.blocked or one.start.outcome != "loads" or of.clean:
        return
    assert one.start.log_end_offset == one.row["log_end"]
    assert one.start.cut_bytes == one.row["cut_bytes"] + one.row["zero_bytes"]
    assert one.start.deleted_bytes == one.row["dropped_bytes"]


def same_losses(of: Scene, one: Judged) -> None:
    """A loss that one of them names is named by the others: none says that nothing is lost."""
    if one.start.lost_offsets or bad(found(one), "danger") or found(one) & AT_THE_END:
        # Beside a marker a broker believes a wrong index and a torn tail; the plan mends both.
        mended = of.clean and one.planned.plan.items.num_rows > 0
        assert one.blocked or one.row["lost"] or mended, "the plan loses nothing"
    if bad(found(one), "danger") or found(one) & AT_THE_END:
        # verify judges the last log, which a start may replace.
        replaced = "transient" in found(one) and "torn-tail-marked-clean" in found(one)
        assert one.start.loses or replaced, "preflight loses nothing"
    if one.start.lost_offsets or bad(told(one), "danger"):
        assert bad(found(one)) or found(one) & AT_THE_END, "verify finds nothing"
    # The plan replaces no log by a torn one, which a broker may do; verify does not read these.
    if one.blocked and not one.row["blocked"].partition(" ")[0].endswith(".swap"):
        assert one.start.loses or unread_damage(one), (
            "the plan is blocked, and preflight loses nothing"
        )
        assert bad(found(one)), "the plan is blocked, and verify finds nothing"


def unread_damage(one: Judged) -> bool:
    """Whether verify finds a corrupt log that the start does not read, and so does not predict."""
    read = {paths.segment_file(done.base_offset, paths.LOG) for done in one.start.recovered}
    return any(f["kind"].startswith("bad-") and f["file"] not in read for f in one.found)


def same_numbers(of: Scene, one: Judged) -> None:
    """The summaries agree. A directory that a plan cures is no log to a broker yet."""
    if of.clean or (one.start.outcome != "loads" and not one.blocked):
        return
    of_plan, of_start = one.planned.plan.header["totals"], summary(one.broker)
    names = ["behind_high_watermark"] if one.blocked else [
        "behind_high_watermark", "cut_bytes", "zero_bytes",
    ]  # fmt: skip
    assert [of_plan[name] for name in names] == [of_start[name] for name in names]  # type: ignore[literal-required]


def nothing_left(before: Judged, after: Judged) -> None:
    """After apply a broker loads the log as the plan says, loses nothing more, and nothing is left to plan."""
    start = after.start
    assert start.outcome == "loads", start.words
    assert not after.planned.plan.items.num_rows, "a second plan"
    if not before.row["segments"] and not before.row["cut_bytes"]:
        return  # nothing was recovered
    assert start.log_end_offset == before.row["log_end"]
    assert not start.cut_bytes and not start.deleted
    assert bad(found(after)) <= bad(found(before)), "verify"
    assert bad(told(after)) <= bad(told(before)), "preflight"
    if before.start.outcome == "loads":
        assert start.lost_offsets <= before.start.lost_offsets


def check(number: int, golden: Unpacked, root: Path) -> bool:
    """Hold all relations for one number. Return whether its partition was recovered."""
    root.mkdir(parents=True)
    of = scene(number, golden, root)
    one, kept = judged(of), tree(of.directory)
    try:
        same_end(of, one)
        if one.row:
            same_losses(of, one)
        same_numbers(of, one)
        if one.blocked:
            assert tree(of.directory) == kept, "a blocked partition was changed"
            return False
        outcomes = applied_rows(one.planned.plan)["outcome"].to_pylist()
        assert {*outcomes} <= {"done", "nothing"}
        if one.row:
            nothing_left(one, judged(of))
    except AssertionError as e:
        raise AssertionError(f"{of.words}: {e}; {one.start}; {one.row}") from e
    return True


def check_all(numbers: Collection[int], golden: Unpacked, folder: Path) -> None:
    recovered = sum(check(number, golden, folder / str(number) / "data") for number in numbers)
    assert len(numbers) // 4 < recovered < len(numbers), "most are blocked, or none"


def test_a_sample(golden: Unpacked, tmp_path: Path) -> None:
    check_all(range(30), golden, tmp_path)


@pytest.mark.full(600)
def test_more_of_them(golden: Unpacked, tmp_path: Path) -> None:
    begin, count = secrets.randbelow(10**9), 2000
    check_all(range(begin, begin + count), golden, tmp_path)
