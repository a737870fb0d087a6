"""Check the result of a split: each new log has its planned size and reads to its end, its indexes
equal a rebuild, and removed files are gone.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from kafkats.errors import exists
from kafkats.paths import LOG, OFFSET_INDEX, TIME_INDEX
from kafkats.plans.operation import Proving
from kafkats.plans.proof import Proof, damage_of, path_of, read_again, writes_of
from kafkats.plans.rows import Item, SegmentKey, SegmentRow, key_of


def prove(request: Proving) -> Proof:
    """Prove what a split wrote. Raises StorageFailed."""
    writes = writes_of(request.plan)
    segments, states = read_again(request, writes)
    wrong = {path_of(row): why for row in writes if (why := _wrong(row, states))}
    reasons = [f"{path}: {why}" for path, why in wrong.items()]
    return Proof(segments, len(writes), len(writes) - len(wrong), list(wrong), reasons)


def _wrong(item: Item, states: Mapping[SegmentKey, SegmentRow]) -> str:
    """Return what is wrong with a file, "" if it is as planned."""
    there = exists(Path(path_of(item)), "proving what was done")
    if item["action"] == "remove":
        return "is still there" if there else ""
    segment = states.get(key_of(item))
    if not there or segment is None:
        return "is missing"
    if item["file"].endswith(LOG):
        size = segment["log"]["size"] if segment["log"] else 0
        if size != item["after_bytes"] or segment["valid_bytes"] != size:
            return f"has {size} bytes, of which {segment['valid_bytes']} can be read"
        return damage_of(segment, item["file"])
    kinds = {OFFSET_INDEX: segment["offset_index"], TIME_INDEX: segment["time_index"]}
    found = next((one for kind, one in kinds.items() if item["file"].endswith(kind)), "equal")
    return "" if found == "equal" else f"is not what its log says: {found}"
