"""Read epochs, index entries beyond the log's end, and traces of the cleaner."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from kafkats import paths
from kafkats.errors import CorruptBatch, KafkatsError, storage
from kafkats.evidence.borders import Witness
from kafkats.formats import dispatch
from kafkats.index import offset_index, time_index
from kafkats.index.entries import whole_entries
from kafkats.index.structure import Structure, examine_offset_index, examine_time_index
from kafkats.kernels import headers_state as k
from kafkats.logdir.checkpoints import EpochStart, read_epochs
from kafkats.segment.broker_walk import read_on
from kafkats.segment.headers import Rows, batch_headers
from kafkats.segment.reader import Source, open_source

_BELIEVABLE: Final = 2**24
"""How many offsets beyond the log's end an index is trusted without entries within the log."""


def epochs_of(directory: Path) -> list[EpochStart]:
    """Return the entries of the partition's leader-epoch-checkpoint.

    Returns [] for a missing or unreadable file, which is a finding of its own.
    """
    try:
        return read_epochs(f"{directory}/{paths.LEADER_EPOCH}")
    except KafkatsError:
        return []


def index_witnesses(directory: Path, base_offset: int, log_end: int) -> Iterator[Witness]:
    """Yield the segment's index files that have plausible entries at or above `log_end`.

    A broker appends to the log before it appends to an index, so an indexed offset was in the log.
    """
    readers = (
        (paths.OFFSET_INDEX, examine_offset_index, offset_index.ENTRY),
        (paths.TIME_INDEX, examine_time_index, time_index.ENTRY),
    )
    for kind, examine, entry in readers:
        try:
            structure = examine(directory / paths.segment_file(base_offset, kind))
        except KafkatsError:
            continue
        if structure is not None:
            entries = whole_entries(structure.entries, entry.itemsize, entry)
            offset = _believable(
                structure, entries["relative_offset"].astype(np.int64) + base_offset, log_end
            )
            if offset is not None:
                yield Witness(structure.name, offset + 1)


def orphan_witnesses(directory: Path, log_end: int) -> Iterator[Witness]:
    """Yield the index files at or above `log_end` whose log is gone, and have plausible entries.

    A broker that deletes or replaces a log renames it before its indexes: they say nothing while
    the renamed log is there. Raises StorageFailed.
    """
    with storage(directory, "listing"), os.scandir(directory) as entries:
        names = [entry.name for entry in entries]
    end = f"{log_end:020d}."
    late = [name for name in names if name >= end or name[20:21] != "." or not name[:20].isdigit()]
    files = [f for f in map(paths.parse_segment_file, late) if f and f.base_offset >= log_end]
    indexes = {
        f.base_offset
        for f in files
        if f.kind in (paths.OFFSET_INDEX, paths.TIME_INDEX) and not f.suffix
    }
    for base in sorted(indexes - {f.base_offset for f in files if f.kind == paths.LOG}):
        yield from index_witnesses(directory, base, base)


def _believable(structure: Structure, offsets: NDArray[np.int64], log_end: int) -> int | None:
    """Return the last offset of an index that is in order and reaches `log_end`, else None."""
    if structure.findings or not len(offsets) or offsets[-1] < log_end:
        return None
    inside = bool(offsets[0] < log_end)
    return int(offsets[-1]) if inside or offsets[-1] - log_end < _BELIEVABLE else None


def highest_end(directory: Path) -> tuple[str, int]:
    """Return the log that ends highest by its batch headers, and its end; "" without a log.

    The logs are the last one, and those of unfinished replacements. A log that cannot be read does
    not count. Raises StorageFailed.
    """
    with storage(directory, "listing"):
        names = sorted(path.name for path in directory.iterdir())
    logs = [(f, name) for name in names if (f := paths.parse_segment_file(name))]
    logs = [(f, name) for f, name in logs if f.kind == paths.LOG and f.suffix in ("", ".swap")]
    last = max((f.base_offset for f, _ in logs if not f.suffix), default=-1)
    found = ("", 0)
    for file, name in logs:
        if file.suffix or file.base_offset == last:
            with suppress(KafkatsError), open_source(directory / name) as source:
                end = read_on(source, file.base_offset, checksums=False).next_offset
                found = max(found, (name, end), key=lambda one: (one[1], bool(one[0])))
    return found


def was_compacted(directory: Path) -> bool | None:
    """Return whether offsets are missing inside segments, as only the cleaner removes them.

    Returns None where that cannot be determined. Reads batch headers up to the first missing
    offset, and decompresses wrappers. What follows a torn batch of the last log says nothing.
    """
    seen: bool | None = False
    with_logs = sorted(
        path for path in directory.glob(f"*{paths.LOG}") if paths.parse_segment_file(path.name)
    )
    for log in with_logs:
        name = paths.parse_segment_file(log.name)
        assert name is not None
        try:
            with open_source(log) as source:
                if _has_hole(source, name.base_offset):
                    return True
        except CorruptBatch:
            seen = seen if log is with_logs[-1] else None
        except KafkatsError:
            seen = None
    return seen


def _has_hole(source: Source, base_offset: int) -> bool:
    expected = base_offset
    for rows in batch_headers(source):
        first, last = rows[:, k.FIRST_OFFSET], rows[:, k.LAST_OFFSET]
        wrapped = first == k.UNKNOWN
        if wrapped.any():
            if _wrapper_hole(source, rows, expected):
                return True
        else:
            follows = np.append(expected, last[:-1] + 1)
            if ((first != follows) | (rows[:, k.COUNT] != last - first + 1)).any():
                return True
        expected = int(last[-1]) + 1
    return False


def _wrapper_hole(source: Source, rows: Rows, expected: int) -> bool:
    """Do the same as `_has_hole`, one batch at a time.

    Raises CorruptBatch for a wrapper that does not decompress.
    """
    for row in rows.tolist():
        count = row[k.COUNT]
        if row[k.FIRST_OFFSET] == k.UNKNOWN:
            data = source.read(row[k.AT], row[k.SIZE])
            batch = next(itertools.islice(dispatch.batches(data, verify=False), 1), None)
            if batch is None:
                raise CorruptBatch("no batch", position=row[k.AT])
            count = len(dispatch.records(data, batch))
        if count != row[k.LAST_OFFSET] - expected + 1:
            return True
        expected = row[k.LAST_OFFSET] + 1
    return False
