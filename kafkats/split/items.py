"""The rows of plan.ITEMS about a segment to cut: the files of its parts, or why it is kept."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from kafkats import paths
from kafkats.plans.plan import file_of, item_of
from kafkats.plans.rows import FindingRow, Item, SegmentRow
from kafkats.split.parts import PartRow

_WHY: Final = {
    paths.OFFSET_INDEX: "must be true of the new log",
    paths.TIME_INDEX: "must be true of the new log",
    paths.TXN_INDEX: "aborted transactions go with their markers",
    paths.SNAPSHOT: "producers known at the new base offset",
}


def part_items(
    segment: SegmentRow, part: PartRow, next_offset: int, rule: str, why: str
) -> Iterator[Item]:
    """Yield the rows of plan.ITEMS for the files of one part. `why` is the reason for its .log."""
    base, size = part["part_offset"], part["end"] - part["start"]
    head = not part["start"]
    kinds = [paths.LOG, paths.OFFSET_INDEX]
    kinds += [paths.TIME_INDEX] if segment["timeindex"] else []
    # Brokers without time indexes have no producer state either.
    kinds += [paths.SNAPSHOT] if segment["timeindex"] and not head else []
    kinds += [paths.TXN_INDEX] if part["aborted"] or (head and segment["txnindex"]) else []
    for kind in kinds:
        before = file_of(segment, kind) if head else None
        gone = kind == paths.TXN_INDEX and not part["aborted"]
        action = "remove" if gone else "replace" if before else "add"
        reason = why if kind == paths.LOG else _WHY[kind]
        yield item_of(segment, paths.segment_file(base, kind), rule, action, reason) | {
            "base_offset": base,
            "next_base_offset": next_offset,
            "log_valid_bytes": size,
            "before": before,
            "after_bytes": size if kind == paths.LOG else 0 if gone else -1,
        }


def blocked_item(segment: SegmentRow, why: str, rule: str) -> Item:
    """Return the row of plan.ITEMS about a segment that is kept, with the reason."""
    log = paths.segment_file(segment["base_offset"])
    return item_of(segment, log, rule, "blocked", why) | {
        "before": segment["log"],
        "log_valid_bytes": -1,
    }


def why_not(segment: SegmentRow, chain: Sequence[PartRow]) -> str:
    """Return why a segment is not cut into `chain`, "" if it is.

    The segment was looked at in depth full.
    """
    log, valid_bytes = segment["log"], segment["valid_bytes"]
    if chain[0]["action"] == "blocked":
        return chain[0]["reason"]
    if valid_bytes is None:
        return unread_reason(segment["findings"])
    if log is None or log["size"] != chain[-1]["end"]:
        return "changed, appeared or disappeared while the plan was made; make a new plan"
    if segment["stop"] or valid_bytes != log["size"]:
        return (
            f"the log is corrupt at byte {valid_bytes} ({segment['stop']}): kafkats verify names it"
        )
    overlaps = [f["reason"] for f in segment["findings"] if f["kind"] == "overlap"]
    return segment["blocked"] or (overlaps[0] if overlaps else "")


def unread_reason(findings: Sequence[FindingRow] | None) -> str:
    """Return what could not be read of a segment about which nothing is known."""
    unread = [
        f"{f['file']}: {f['reason']}"
        for f in findings or ()
        if f["kind"] in {"unreadable", "vanished"}
    ]
    return "; ".join(unread) or "it could not be looked at; kafkats verify says why"
