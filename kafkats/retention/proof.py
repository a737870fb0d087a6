"""Check the result of a retention: deleted and kept files, and the checkpoints."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from kafkats import paths
from kafkats.errors import Vanished, storage
from kafkats.logdir.checkpoints import read_epochs, read_offsets

WRONG: Final = pa.schema([("path", pa.string()), ("why", pa.string())])
"""One row per file that is not as planned."""
_SEGMENT: Final = ("log_dir", "partition_dir", "base_offset")


def wrong_files(items: Sequence[Mapping[str, Any]]) -> pa.RecordBatch:
    """Return WRONG of one partition directory, after its `items` (rows of plan.ITEMS) were applied.

    Raises CorruptFile for a checkpoint that cannot be read, StorageFailed.
    """
    found = []
    for item in items:
        path = Path(item["log_dir"], item["partition_dir"], item["file"])
        with storage(path, "proving what was done"):
            if item["action"] == "update":
                found += [(str(path), why) for why in _behind(path, item["base_offset"])]
            elif path.exists() != (item["action"] == "add"):
                found.append((
                    str(path),
                    "is still there" if item["action"] == "remove" else "is missing",
                ))
    return pa.RecordBatch.from_pylist(
        [{"path": path, "why": why} for path, why in found], schema=WRONG
    )


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

    `verdicts` are the plan's (retain.RETENTION). `now` are facts (report.SEGMENTS, depth tail) of
    the partitions that the plan changed; other partitions are not checked.
    """
    found = {
        tuple(row[name] for name in _SEGMENT): row["max_timestamp"]
        for row in _columns(now, "max_timestamp")
    }
    changed = {(log_dir, partition) for log_dir, partition, _ in found}
    stays = verdicts.filter(pc.invert(pc.and_(verdicts["deletes"], pc.equal(verdicts["veto"], ""))))
    wrong = {}
    for row in _columns(stays, "largest_timestamp"):
        key = tuple(row[name] for name in _SEGMENT)
        if key[:2] not in changed:
            continue
        path = str(Path(*key[:2], paths.segment_file(key[2], paths.LOG)))
        if key not in found:
            wrong[path] = "was to stay, and is gone"
        elif (found[key] if found[key] is not None else -1) != row["largest_timestamp"]:
            wrong[path] = "is not the segment that was to stay"
    return wrong


def _columns(table: pa.Table, more: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = table.select([*_SEGMENT, more]).to_pylist()
    return rows
