"""Check the result of a recovery: every file of the plan is read again from the disk."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache
from pathlib import Path

from kafkats import paths
from kafkats.hashes import SHA256, hash_file
from kafkats.logdir.checkpoints import read_offsets
from kafkats.logdir.identity import FileIdentity, identify
from kafkats.logdir.workarea import ROOT
from kafkats.paths import PartitionName
from kafkats.plans.facts import SEGMENTS
from kafkats.plans.operation import Proving
from kafkats.plans.proof import Proof, writes_of, wrong_files
from kafkats.plans.rows import Item
from kafkats.recovery.stage import ends_empty
from kafkats.segment.reader import open_source
from kafkats.segment.walk import walk


def prove(request: Proving) -> Proof:
    """Prove a recovery by each written file, and by the end of each log.

    Raises CorruptFile for a checkpoint that cannot be read, StorageFailed.
    """
    writes = writes_of(request.plan)
    wrong = wrong_files(request, writes, _wrong)
    reasons = [f"{path}: {why}" for path, why in wrong.items()]
    equal = len(writes) - len(wrong)
    return Proof(SEGMENTS.empty_table(), len(writes), equal, list(wrong), reasons)


def _wrong(path: Path, item: Item) -> Iterator[str]:
    if item["file"] == paths.RECOVERY_POINT:
        yield from _wrong_point(item)
    elif item["action"] == "remove":
        if path.exists():
            yield "is still there"
    elif not path.exists():
        yield "is missing"
    elif item["after_sha256"]:
        with path.open("rb", buffering=0) as file:
            same = hash_file(file, SHA256) == item["after_sha256"]
        if not same:
            yield "has other bytes than the plan says"
    else:
        yield from _wrong_log(path, item)


def _wrong_log(path: Path, item: Item) -> Iterator[str]:
    """Yield why a log that was cut is not the good part of the old one."""
    with open_source(path, mapped=True) as source:
        facts = walk(source, item["base_offset"]).facts
    if facts.stop or facts.log_bytes != item["after_bytes"]:
        yield f"has {facts.valid_bytes} good bytes of {facts.log_bytes}, not {item['after_bytes']}"


def _wrong_point(item: Item) -> Iterator[str]:
    """Yield why a partition's recovery point is not its log end, where its empty segment begins."""
    if item["partition_dir"] == ROOT:
        return
    if not ends_empty(Path(item["log_dir"], item["partition_dir"]), item["base_offset"]):
        yield f"the log does not end with an empty segment at {item['base_offset']}"
    points = _points_of(item["log_dir"])
    name = paths.parse_partition(item["partition_dir"])
    point = points.get(name) if name else None
    if point != item["base_offset"]:
        yield f"the recovery point is {point}, not {item['base_offset']}"


def _points_of(log_dir: str) -> Mapping[PartitionName, int]:
    """Return the recovery points of a log directory; they are read once for all partitions."""
    path = Path(log_dir, paths.RECOVERY_POINT)
    return _read_points(path, identify(path))


@lru_cache(maxsize=4)
def _read_points(path: Path, now: FileIdentity | None) -> Mapping[PartitionName, int]:
    return read_offsets(path) if now else {}
