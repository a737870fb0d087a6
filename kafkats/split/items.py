"""The rows of plan.ITEMS about a segment to cut: the files of its parts, or why it is kept."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from kafkats import paths
from kafkats.plans.plan import item_of

_WHY: Final = {
    paths.OFFSET_INDEX: "must be true of the new log",
    paths.TIME_INDEX: "must be true of the new log",
    paths.TXN_INDEX: "aborted transactions go with their markers",
    paths.SNAPSHOT: "producers known at the new base offset",
}


def part_items(
    segment: Mapping[str, Any], part: Mapping[str, Any], next_offset: int, rule: str, why: str
) -> Iterator[dict[str, Any]]:
    """Yield the rows of plan.ITEMS for the files of one part.

    `segment` is a row of report.SEGMENTS, `part` a row of PARTS.
    """
    base, size = part["part_offset"], part["end"] - part["start"]
    head = not part["start"]
    kinds = [paths.LOG, paths.OFFSET_INDEX]
    kinds += [paths.TIME_INDEX] if segment["timeindex"] else []
    # Brokers without time indexes have no producer state either.
    kinds += [paths.SNAPSHOT] if segment["timeindex"] and not head else []
    kinds += [paths.TXN_INDEX] if part["aborted"] or (head and segment["txnindex"]) else []
    for kind in kinds:
        before = segment[kind.removeprefix(".")] if head else None
        gone = kind == paths.TXN_INDEX and not part["aborted"]
        columns = {
            "next_base_offset": next_offset,
            "log_valid_bytes": size,
            "action": "remove" if gone else "replace" if before else "add",
            "reason": why if kind == paths.LOG else _WHY[kind],
            "before": before,
            "after_bytes": size if kind == paths.LOG else 0 if gone else -1,
        }
        yield item_of(segment, base, paths.segment_file(base, kind), rule) | columns


def blocked_item(segment: Mapping[str, Any], why: str, rule: str) -> dict[str, Any]:
    """Return the row of plan.ITEMS about a segment that is kept, with the reason."""
    log = paths.segment_file(segment["base_offset"], paths.LOG)
    columns = {"action": "blocked", "reason": why, "before": segment["log"], "log_valid_bytes": -1}
    return item_of(segment, segment["base_offset"], log, rule) | columns


def why_not(segment: Mapping[str, Any], chain: Sequence[Mapping[str, Any]]) -> str:
    """Return why a segment is not cut into `chain`, "" if it is.

    `segment` is a row of report.SEGMENTS of depth full, `chain` are rows of PARTS.
    """
    if chain[0]["action"] == "blocked":
        return str(chain[0]["reason"])
    if segment["valid_bytes"] is None:
        return unread_reason(segment["findings"])
    if segment["log"] is None or segment["log"]["size"] != chain[-1]["end"]:
        return "came or went while it was looked at; plan anew"
    if segment["stop"] or segment["valid_bytes"] != segment["log"]["size"]:
        return f"the log is corrupt at byte {segment['valid_bytes']} ({segment['stop']}): kafkats verify names it"
    overlaps = [f["reason"] for f in segment["findings"] if f["kind"] == "overlap"]
    return str(segment["blocked"] or (overlaps[0] if overlaps else ""))


def unread_reason(findings: Sequence[Mapping[str, Any]] | None) -> str:
    found = [
        f"{f['file']}: {f['reason']}"
        for f in findings or ()
        if f["kind"] in {"unreadable", "vanished"}
    ]
    return "; ".join(found) or "it could not be looked at; kafkats verify says why"
