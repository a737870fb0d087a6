"""Copy the good batches behind a corrupt place of a log to a folder that the user names.

A broker's recovery drops these batches. The copy of a partition is a folder with one `.log` for
each segment that has such batches, and a note, `copy.json`. It is no partition directory: the log
before the corrupt place is missing, and it has no indexes.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, TypedDict

from kafkats.errors import Refused, StorageFailed, exists, storage
from kafkats.logdir.disk import DISK
from kafkats.plans.files import make_folder, read_json, write_json
from kafkats.plans.rows import SegmentRow
from kafkats.recovery.decide import log_of, valid_bytes
from kafkats.recovery.kept_runs import COPY_NOTE
from kafkats.recovery.readable import Run, good_runs
from kafkats.segment.reader import Source, open_source
from kafkats.segment.walk import walk

_PIECE: Final = 1 << 20
_ABOUT: Final = (
    "The good batches of a Kafka log that lie behind a corrupt place, segment by segment and in the"
    " order of the files. Kafka's recovery deletes them. This is no partition directory: do not put"
    " it into a log directory. `kafkats dump` shows the records of each .log."
)


class CopiedRun(TypedDict):
    """Bytes `start` to `end` of a source log, and the offsets of its first and last batch."""

    start: int
    end: int
    batches: int
    first_offset: int
    last_offset: int


class CopiedLog(TypedDict):
    """A `.log` of the copy."""

    file: str
    source_bytes: int
    bytes: int
    sha256: str
    runs: list[CopiedRun]


def place_of(folder: str, log_dir: str, partition_dir: str) -> Path:
    """Return the folder of a partition's copy: that of its log directory is named by its path."""
    return Path(folder, *Path(log_dir).absolute().parts[1:], partition_dir)


def copy_readable(rows: Sequence[SegmentRow], reason: str, place: Path) -> int:
    """Copy the good batches behind the place where the first of `rows` is corrupt.

    `rows` are facts (facts.SEGMENTS) of a partition's last segments. `reason` says why their good
    batches would be lost. Returns the bytes copied; 0 for none, and then there is no copy. A copy
    that is there and has the same bytes stays. Raises Refused for another one, UsageError in a log
    directory, Vanished, StorageFailed.
    """
    directory = Path(rows[0]["log_dir"], rows[0]["partition_dir"])
    make_folder(place.parent, "the copy of readable records")
    with storage(place, "copying readable records"):
        beside = Path(tempfile.mkdtemp(prefix=f".{place.name}.", dir=place.parent))
    try:
        logs = [*_copied(rows, directory, beside)]
        size = sum(log["bytes"] for log in logs)
        if size:
            note = {
                "about": _ABOUT,
                "log_dir": rows[0]["log_dir"],
                "partition_dir": rows[0]["partition_dir"],
                "reason": reason,
                "logs": logs,
            }
            write_json(beside / COPY_NOTE, note)
            _put(beside, place)
        return size
    finally:
        shutil.rmtree(beside, ignore_errors=True)


def _copied(rows: Sequence[SegmentRow], directory: Path, to: Path) -> Iterator[CopiedLog]:
    for n, row in enumerate(rows):
        log, position = directory / log_of(row), 0 if n else valid_bytes(row)
        with open_source(log, mapped=True) as source:
            runs = [*good_runs(source, position, row["base_offset"])]
            sha256 = _write(source, runs, to / log.name) if runs else ""
        if runs:
            _check(to / log.name, row["base_offset"], runs)
            yield {
                "file": log.name,
                "source_bytes": source.size,
                "bytes": sum(run.facts.valid_bytes - run.start for run in runs),
                "sha256": sha256,
                "runs": [_row(run) for run in runs],
            }


def _write(source: Source, runs: Sequence[Run], copy: Path) -> str:
    """Write runs one behind the other to a new file. Return its SHA-256."""
    done = hashlib.sha256()
    with storage(copy, "copying readable records"), copy.open("xb") as file:
        for run in runs:
            for position in range(run.start, run.facts.valid_bytes, _PIECE):
                data = source.read(position, min(_PIECE, run.facts.valid_bytes - position))
                done.update(data)
                file.write(data)
        file.flush()
        os.fsync(file.fileno())
    return done.hexdigest()


def _row(run: Run) -> CopiedRun:
    facts = run.facts
    return {
        "start": run.start,
        "end": facts.valid_bytes,
        "batches": facts.batches,
        "first_offset": facts.first_offset,
        "last_offset": facts.last_offset,
    }


def _check(copy: Path, base_offset: int, runs: Sequence[Run]) -> None:
    """Raise StorageFailed unless the copy has every batch of the runs, and nothing else."""
    with open_source(copy, mapped=True) as source:
        facts = walk(source, base_offset).facts
    if facts.stop or facts.batches != sum(run.facts.batches for run in runs):
        raise StorageFailed("the copy was written, but reads back with other batches", path=copy)


def _put(beside: Path, place: Path) -> None:
    """Give a complete copy its name."""
    if exists(place, "looking for an older copy"):
        if read_json(place / COPY_NOTE) != read_json(beside / COPY_NOTE):
            raise Refused(
                "there is a copy of other records already: name an empty folder", path=place
            )
        return
    with storage(place, "copying readable records"):
        beside.chmod(0o755)
        DISK.sync_dir(beside)
        beside.rename(place)
        DISK.sync_dir(place.parent)
