"""Build the files of a new segment from a part of another segment's log, in the staging area.

Splitting and cutting share this module.

    .log                  the bytes from one batch border to another, unchanged
    .index, .timeindex    built from the new log by the generation's rule, as recovery builds them
    .txnindex             the aborted transactions whose marker lies in the part; no file for none
    .snapshot             the producers known at the new base offset

All files but the snapshot get the mtime of the old log, which is data for batches without
timestamps.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import numpy as np

from kafkats import paths
from kafkats.errors import Changed, CorruptFile, NotEqual, exists, storage
from kafkats.generations import MAX_RELATIVE_OFFSET, Rule
from kafkats.hashes import SHA256, hash_bytes
from kafkats.index import txn_index
from kafkats.index.build import Built, IndexBuilder, first_offset_reader, with_first_offset
from kafkats.index.entries import Entries
from kafkats.logdir.disk import DISK
from kafkats.logdir.identity import FileIdentity, identify
from kafkats.logdir.journal import Note
from kafkats.logdir.lease import Lease
from kafkats.logdir.producers import snapshot_at
from kafkats.logdir.snapshot import read_snapshot
from kafkats.logdir.staging import Change, Remove, Replace
from kafkats.segment.copying import copy_range
from kafkats.segment.reader import open_segment, open_source
from kafkats.segment.walk import walk


class Part(NamedTuple):
    """Bytes [start, end) of the .log of segment `source`, to become the segment `base_offset`."""

    source: int
    start: int
    end: int
    base_offset: int
    next_base_offset: int | None
    """The base offset of the next segment. None for the last part, the new active segment."""


class Building(NamedTuple):
    """The settings for the index files."""

    rule: Rule
    index_interval_bytes: int
    segment_index_bytes: int


def noted(changes: Sequence[Change]) -> dict[str, Note]:
    """Return the size and hash of each new file, by name."""
    written: dict[str, Note] = {}
    for change in changes:
        if isinstance(change, Replace):
            with storage(change.staged, "looking at a staged file"):
                size = change.staged.stat().st_size
            written[change.name] = {"sha256": change.sha256, "after_bytes": size}
    return written


def stage_families(
    directory: Path,
    parts: Mapping[Part, Mapping[str, FileIdentity | None]],
    building: Building,
    lease: Lease,
) -> list[Change]:
    """Build the files of each part (name -> identity of the live file) for changeset.commit.

    An empty aborted-transactions index is not written; an existing one is removed. Raises Changed
    when a part does not begin with its base offset, NotEqual when a copy differs, CorruptIndex,
    CorruptBatch, StorageFailed.
    """
    copies: list[_Copy] = []
    changes: list[Change] = []
    with ThreadPoolExecutor(2) as beside:
        for part in parts:
            log = directory / paths.segment_file(part.source)
            staged = lease.staged(paths.segment_file(part.base_offset))
            # This hashes the old log's bytes during the copy. Reading the copy back proves that it
            # has the same bytes.
            digest = beside.submit(_hash, log, part)
            copy_range(log, part.start, part.end, staged)
            copies.append(_Copy(part, log, staged, digest, beside.submit(_sync, staged)))
        for part, log, staged, digest, synced in copies:
            with storage(log, "looking at the old log"):
                mtime_ns = log.stat().st_mtime_ns
            changes += _beside(
                directory, part, parts[part], _build(log, staged, part, building), lease, mtime_ns
            )
            synced.result()
            before = parts[part][staged.name]
            changes.append(
                Replace(staged.name, staged, before, digest.result(), mtime_ns, read_back=True)
            )
    return changes


class _Copy(NamedTuple):
    """A part's new log while it is hashed and synced."""

    part: Part
    log: Path
    staged: Path
    digest: Future[str]
    synced: Future[None]


def _beside(
    directory: Path,
    part: Part,
    wanted: Mapping[str, FileIdentity | None],
    built: Built,
    lease: Lease,
    mtime_ns: int,
) -> Iterator[Change]:
    """Build the small files of a part."""
    names = {kind: paths.segment_file(part.base_offset, kind) for kind in paths.SEGMENT_KINDS}
    contents = {paths.OFFSET_INDEX: built.offset_index, paths.TIME_INDEX: built.time_index}
    if names[paths.TXN_INDEX] in wanted:
        contents[paths.TXN_INDEX] = aborted_in(directory, part).tobytes()
    if names[paths.SNAPSHOT] in wanted:
        contents[paths.SNAPSHOT] = snapshot_at(directory, part.base_offset, mapped=True)
    for kind, content in contents.items():
        if names[kind] not in wanted:
            continue
        before = wanted[names[kind]]
        if kind != paths.TXN_INDEX or content:
            yield stage_bytes(
                names[kind], content, before, lease, None if kind == paths.SNAPSHOT else mtime_ns
            )
        elif before is not None:
            yield Remove(names[kind], before)


def stage_bytes(
    name: str,
    content: bytes,
    before: FileIdentity | None,
    lease: Lease,
    mtime_ns: int | None = None,
) -> Replace:
    """Write a small new file into the staging area. Raises StorageFailed."""
    staged = lease.staged(name)
    with storage(staged, "writing the new file"):
        staged.write_bytes(content)
    return Replace(name, staged, before, hash_bytes(content, SHA256), mtime_ns)


def aborted_in(directory: Path, part: Part) -> Entries:
    """Return the aborted transactions whose marker lies in the part: dtype txn_index.ENTRY.

    Raises Vanished when there is no such file, CorruptIndex, StorageFailed.
    """
    entries = txn_index.read(directory / paths.segment_file(part.source, paths.TXN_INDEX))
    last = entries["last_offset"].astype(np.int64)
    end = 2**63 - 1 if part.next_base_offset is None else part.next_base_offset
    return entries[(last >= part.base_offset) & (last < end)]


def good_snapshot_stays(
    directory: Path, files: dict[str, FileIdentity | None], unchanged: dict[str, FileIdentity]
) -> None:
    """Move a readable snapshot from `files` (name -> identity of the live file) to `unchanged`.

    A broker that stopped cleanly has written the snapshot at the log end. An unreadable snapshot
    remains in `files` and is replaced.
    """
    for name in [name for name in files if name.endswith(paths.SNAPSHOT)]:
        there = identify(directory / name)
        if there is None:
            continue
        files[name] = there
        with suppress(CorruptFile):
            read_snapshot(directory / name)
            unchanged[name] = there
            del files[name]


def refuse_unclean(log_dir: str | os.PathLike[str]) -> None:
    """Raise Changed without a clean-shutdown marker: recovery may still move the log end."""
    if not exists(Path(log_dir, paths.CLEAN_SHUTDOWN), "looking for the clean-shutdown marker"):
        raise Changed(
            f"{paths.CLEAN_SHUTDOWN} is gone: make a new plan after a clean stop", path=log_dir
        )


def _build(log: Path, staged: Path, part: Part, building: Building) -> Built:
    """Build both indexes of the copy in one pass, and compare its batches with the original."""
    with open_source(log, mapped=True) as old, open_source(staged) as new:
        first = first_offset_reader(new)
        builder = IndexBuilder(part.base_offset, building.rule, building.segment_index_bytes, first)
        walked = walk(
            new, part.base_offset, interval=building.index_interval_bytes, on_points=builder.add
        )
        built = builder.close(
            with_first_offset(walked.facts, first), new.mtime_ms, part.next_base_offset
        )
        original = walk(old, part.base_offset, start=part.start, end=part.end, checksums=False)
    facts = built.facts
    if facts.batches and facts.first_offset != part.base_offset and part.start:
        raise Changed(
            f"the part begins at offset {facts.first_offset}: the log has changed", path=log
        )
    end = (
        part.base_offset + MAX_RELATIVE_OFFSET + 1
        if part.next_base_offset is None
        else part.next_base_offset
    )
    if facts.stop or built.blocked or facts.last_offset >= end:
        why = built.blocked or facts.stop or f"offset {facts.last_offset} belongs to the next one"
        raise NotEqual(f"the new log does not read to its end: {why}", path=staged)
    # The batch checksums hold. The fingerprint covers the bytes outside them: together, every byte.
    if (walked.fingerprint, facts.batches) != (original.fingerprint, original.facts.batches):
        raise NotEqual("the copy has other batches than the original", path=staged)
    return built


def _sync(staged: Path) -> None:
    with storage(staged, "writing the new log"):
        DISK.sync_file(staged)


def _hash(log: Path, part: Part) -> str:
    with open_segment(log) as view:
        return hash_bytes(view[part.start : part.end].data)
