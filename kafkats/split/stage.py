"""Check and build the planned parts of a segment: a split, and a cut at its front, share them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from kafkats import paths
from kafkats.errors import CorruptPlan
from kafkats.generations import RULES
from kafkats.logdir.families import Building, Part, good_snapshot_stays, stage_families
from kafkats.logdir.identity import FileIdentity, identity_of
from kafkats.logdir.lease import Lease
from kafkats.logdir.staging import Change
from kafkats.plans.plan import check_settings, kind_of
from kafkats.plans.rows import Item, source_log


def check_planned(item: Item) -> None:
    """Raise CorruptPlan for a row of plan.ITEMS that is no valid file of a part."""
    kind = kind_of(item)
    if item["log"] is None or (item["action"] == "remove" and kind != paths.TXN_INDEX):
        raise CorruptPlan(f"{item['file']}: action {item['action']!r} is unknown here")
    if kind == paths.LOG and not 0 <= item["after_bytes"] <= item["log"]["size"]:
        raise CorruptPlan(f"{item['file']}: not a part of its log")
    check_settings(item)


def stage_parts(
    directory: Path,
    source: int,
    items: Sequence[Item],
    unchanged: dict[str, FileIdentity],
    lease: Lease,
) -> list[Change]:
    """Build the planned parts at the end of the .log of segment `source`.

    `items` are rows of plan.ITEMS, in order of base offset. Raises as `stage_families`.
    """
    logs = [item for item in items if item["file"].endswith(paths.LOG)]
    start = source_log(logs[0])["size"] - sum(item["after_bytes"] for item in logs)
    parts: dict[Part, dict[str, FileIdentity | None]] = {}
    for item in logs:
        base, end = item["base_offset"], start + item["after_bytes"]
        part = Part(
            source,
            start,
            end,
            base,
            None if item["next_base_offset"] < 0 else item["next_base_offset"],
        )
        files = parts[part] = {
            i["file"]: identity_of(i["before"]) for i in items if i["base_offset"] == base
        }
        good_snapshot_stays(directory, files, unchanged)
        start = end
    building = Building(
        RULES[logs[0]["rule"]], logs[0]["index_interval_bytes"], logs[0]["segment_index_bytes"]
    )
    return stage_families(directory, parts, building, lease)
