"""Check the result of a roll: the new segment is empty, active, and begins where the one before it
ends.
"""

from __future__ import annotations

from kafkats.plans.operation import Proving
from kafkats.plans.proof import Proof, damage_of, writes_of
from kafkats.plans.rows import PartitionKey, partition_of, segment_rows
from kafkats.plans.units import Unit


def prove(request: Proving) -> Proof:
    """Prove a roll by the last two segments of each partition. Raises StorageFailed."""
    writes = writes_of(request.plan)
    ends = {partition_of(row): row["base_offset"] for row in writes if row["action"] == "add"}
    segments = request.stages.verify(_last_two(request, ends))
    rows = segment_rows(segments)
    wrong: dict[PartitionKey, str] = dict.fromkeys(ends, "the new segment is missing")
    for row in rows:
        where = partition_of(row)
        if row["base_offset"] == ends[where]:
            empty = row["active"] and row["log"] is not None and not row["log"]["size"]
            wrong[where] = (
                damage_of(row) if empty else "the new segment is not an empty, active one"
            )
    for row in rows:
        where, last = partition_of(row), row["last_offset"]
        if row["base_offset"] != ends[where] and not wrong[where]:
            ended = last is not None and last + 1 == ends[where]
            wrong[where] = damage_of(row) if ended else f"the segment before ends at {last}"
    reasons = [
        f"{where.log_dir}/{where.partition_dir}: {why}" for where, why in wrong.items() if why
    ]
    equal = sum(not wrong[partition_of(row)] for row in writes)
    return Proof(segments, len(writes), equal, reasons, reasons)


def _last_two(request: Proving, ends: dict[PartitionKey, int]) -> list[Unit]:
    """Return the units of the last two segments of each partition in `ends`."""
    chosen = [
        unit for unit in request.units if unit.key.partition in ends and unit.base_offset >= 0
    ]
    last: dict[PartitionKey, list[Unit]] = {}
    for unit in sorted(chosen, key=lambda unit: unit.base_offset):
        last[unit.key.partition] = [*last.get(unit.key.partition, [])[-1:], unit]
    return [unit for two in last.values() for unit in two]
