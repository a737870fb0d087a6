"""Check the result of a retention: deleted and kept files, and the checkpoints."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from kafkats import paths
from kafkats.errors import Vanished
from kafkats.logdir.checkpoints import read_epochs, read_offsets
from kafkats.plans.facts import read_near
from kafkats.plans.operation import Proving
from kafkats.plans.proof import Proof, writes_of, wrong_files
from kafkats.plans.rows import Item, SegmentKey, keys_of, partition_of
from kafkats.retention.plan import RETENTION


def prove(request: Proving) -> Proof:
    """Prove a retention: deleted files are gone; kept segments are there, with the same last
    records; checkpoints begin where the logs do.

    Raises CorruptFile, CorruptPlan, StorageFailed.
    """
    writes = writes_of(request.plan)
    wrong = wrong_files(request, writes, reasons_of)
    written = {partition_of(row) for row in writes}
    segments = request.stages.ends([u for u in request.units if u.key.partition in written])
    decided = pa.array(
        [key.partition not in request.later for key in keys_of(segments)], pa.bool_()
    )
    verdicts = read_near(request.folder / "retention.parquet", RETENTION, written)
    wrong |= not_kept(verdicts, segments.filter(decided))
    reasons = [f"{path}: {why}" for path, why in wrong.items()]
    equal = max(len(writes) - len(wrong), 0)
    return Proof(segments, len(writes), equal, list(wrong), reasons)


def reasons_of(path: Path, item: Item) -> Iterator[str]:
    """Yield why a file is not as planned.

    Raises CorruptFile for a checkpoint that cannot be read, OSError.
    """
    if item["action"] == "update":
        yield from _behind(path, item["base_offset"])
    elif path.exists() != (item["action"] == "add"):
        yield "is still there" if item["action"] == "remove" else "is missing"


def _behind(path: Path, start: int) -> Iterator[str]:
    """Yield what a checkpoint still says about deleted offsets."""
    try:
        if path.name == paths.LEADER_EPOCH:
            epochs = read_epochs(path)
            if epochs and epochs[0].start_offset < start:
                yield f"begins at {epochs[0].start_offset}, the log at {start}"
            return
        for name, offset in read_offsets(path).items():
            logs = [
                paths.parse_segment_file(log.name)
                for log in (path.parent / str(name)).glob(f"*{paths.LOG}")
            ]
            first = min((log.base_offset for log in logs if log), default=-1)
            if offset < first:
                yield f"says {offset} of {name}, which begins at {first}"
    except Vanished:  # brokers do not need it
        return


def not_kept(verdicts: pa.Table, now: pa.Table) -> dict[str, str]:
    """Return segments that should have been kept and are not: path of the .log -> why.

    `verdicts` are the plan's (retention.plan.RETENTION). `now` are facts (facts.SEGMENTS, depth
    tail) of the partitions that the plan changed; other partitions are not checked.
    """
    there = _timestamps(now, "max_timestamp")
    changed = {segment.partition for segment in there}
    kept = verdicts.filter(pc.invert(pc.and_(verdicts["deletes"], pc.equal(verdicts["veto"], ""))))
    wrong = {}
    for segment, largest in _timestamps(kept, "largest_timestamp").items():
        if segment.partition not in changed:
            continue
        path = Path(*segment.partition, paths.segment_file(segment.base_offset))
        if segment not in there:
            wrong[str(path)] = "should have been kept, but is gone"
        elif there[segment] != largest:
            wrong[str(path)] = "is not the segment that should have been kept"
    return wrong


def _timestamps(table: pa.Table, name: str) -> dict[SegmentKey, int]:
    """Return the largest timestamp of each segment, -1 for none."""
    return dict(zip(keys_of(table), pc.fill_null(table[name], -1).to_pylist(), strict=True))
