"""The units of operations that read: one per segment, built from names alone.

Listing takes no lock and opens no log, so it works beside a running broker and takes a few
microseconds per file. A unit is small and can be pickled: any process that sees the files can
process it.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator
from functools import lru_cache
from pathlib import Path
from typing import Final, NamedTuple

from kafkats import paths
from kafkats.config.topics import topic_filter
from kafkats.errors import KafkatsError, StorageFailed, UsageError
from kafkats.evidence.claims import Claims, claims_of, is_tiered
from kafkats.evidence.root import gone_findings, is_stale
from kafkats.findings import Finding, failure
from kafkats.logdir.identity import FileIdentity, file_row
from kafkats.logdir.location import Place, locate
from kafkats.logdir.lock import lock_state
from kafkats.logdir.partition import PartitionDir, SegmentFiles, scan_at_rest
from kafkats.logdir.root import (
    LogDir,
    RootNames,
    list_root,
    present_in,
    read_root,
    recovered_segments,
)
from kafkats.plans.rows import PartitionKey, SegmentKey, SegmentRow

_WIDEST_FIRST: Final = ("root", "partition", "segment")


class Unit(NamedTuple):
    """One segment to look at, or with base_offset -1 a directory with findings from its names."""

    log_dir: str
    partition_dir: str
    base_offset: int
    bytes: int = 0
    next_base_offset: int = -1
    """-1: the active segment."""
    clean: bool = False
    live: bool = False
    recovery: bool = False
    time_index_expected: bool = True
    directory_ctime_ns: int = -1
    files: tuple[FileIdentity | None, ...] = (None,) * len(paths.SEGMENT_KINDS)
    """The listed file of each of paths.SEGMENT_KINDS. A later change of the file is detectable."""
    holes: tuple[int, ...] = ()
    """The bytes of these files that have no block on the disk, () without any."""
    log_start_offset: int = -1
    """The partition's entry in the root's checkpoints, -1 without one."""
    high_watermark: int = -1
    claims: Claims | None = None
    """The statements of files about the partition. None in a root's own unit."""
    findings: tuple[Finding, ...] = ()

    @property
    def key(self) -> SegmentKey:
        return SegmentKey(self.log_dir, self.partition_dir, self.base_offset)

    @property
    def active(self) -> bool:
        return self.next_base_offset < 0

    @property
    def directory(self) -> Path:
        return _directory(self.log_dir, self.partition_dir)

    @property
    def log(self) -> Path:
        """The path of the segment's .log."""
        return self.directory / paths.segment_file(self.base_offset)


@lru_cache(maxsize=1024)
def _directory(log_dir: str, partition_dir: str) -> Path:
    """Return the path of a partition. Its units ask for it ten times, and a chunk has hundreds."""
    return Path(log_dir, partition_dir)


def list_units(
    log_dirs: Iterable[str | os.PathLike[str]],
    *,
    topics: str = "*",
    only: Collection[PartitionKey] | None = None,
) -> Iterator[Unit]:
    """Yield the units of log.dirs roots, partition directories or single segments.

    `topics` is a filter as in kafkats.config.topics; `only` are the directories whose units are
    wanted, None for all. Raises UsageError or BadInput for any other path, StorageFailed when a
    path cannot be listed.
    """
    places = _places(log_dirs)
    # A partition that moved, or remote storage, in one root of a broker explains what another
    # lacks.
    roots = {root: list_root(root) for root in {place.root for place in places} if root}
    tiered = any(map(is_tiered, roots.values()))
    present = present_in(roots.values())
    read: dict[Path, LogDir] = {}
    for place in places:
        if place.partition is None:
            # Plans and runs are used from other working directories.
            yield from _root_units(
                place.path.absolute(), roots[place.path], present, topics, only, tiered=tiered
            )
        elif only is None or _key_of(place.partition) in only:
            root = None
            if place.root:
                root = read.get(place.root) or read_root(place.root, roots[place.root])
                read[place.root] = root
            live = is_live(place.root)
            partition = scan_at_rest(place.partition.absolute(), live=live)
            if not topic_filter(topics).matches(partition.name.topic if partition.name else ""):
                continue
            units = _partition_units(partition, root, live=live, tiered=tiered)
            yield from (
                u for u in units if place.base_offset is None or u.base_offset == place.base_offset
            )


def list_partitions(
    log_dirs: Iterable[str | os.PathLike[str]], *, topics: str = "*"
) -> Iterator[PartitionKey]:
    """Yield the partition directories that have units in `list_units`, from names alone.

    Raises as it does.
    """
    for place in _places(log_dirs):
        if place.partition is None:
            path = place.path.absolute()
            for name in chosen_names(list_root(place.path), topics):
                yield PartitionKey(str(path), name)
        else:
            named = paths.parse_partition(place.partition.name)
            if topic_filter(topics).matches(named.topic if named else ""):
                yield _key_of(place.partition)


def _places(log_dirs: Iterable[str | os.PathLike[str]]) -> list[Place]:
    """Return the places of paths, the widest first."""
    return distinct_places(
        sorted(map(locate, log_dirs), key=lambda place: _WIDEST_FIRST.index(place.kind))
    )


def _key_of(partition: Path) -> PartitionKey:
    path = partition.absolute()
    return PartitionKey(str(path.parent), path.name)


def distinct_places(places: Iterable[Place]) -> list[Place]:
    """Drop directories that are named twice or lie in another named one."""
    listed: set[str] = set()
    distinct = []
    for place in places:
        real = os.path.realpath(place.path)
        if not listed & {real, *map(str, Path(real).parents[: _WIDEST_FIRST.index(place.kind)])}:
            listed.add(real)
            distinct.append(place)
    return distinct


def _root_units(
    path: Path,
    names: RootNames,
    present: Collection[paths.PartitionName],
    topics: str,
    only: Collection[PartitionKey] | None,
    *,
    tiered: bool,
) -> Iterator[Unit]:
    root = read_root(path, names)
    live = is_live(path)
    if only is None or (str(path), "") in only:
        yield from own_units(root, names, present, topics, live=live)
    for name in chosen_names(names, topics):
        if only is None or (str(path), name) in only:
            yield from units_at(root, name, names, live=live, tiered=tiered)


def own_units(
    root: LogDir,
    names: RootNames,
    present: Collection[paths.PartitionName],
    topics: str,
    *,
    live: bool,
) -> Iterator[Unit]:
    """Yield the unit of a log directory itself, if there are findings about it.

    `present` are the partitions in all log directories of the listing.
    """
    gone = gone_findings(root, present, live=live, stale=is_stale(root.path, names))
    chosen = tuple(f for f in gone if topic_filter(topics).matches(f.file.rpartition("-")[0]))
    if root.findings or chosen:
        yield Unit(str(root.path), "", -1, findings=(*root.findings, *chosen))


def chosen_names(names: RootNames, topics: str) -> Iterator[str]:
    """Yield the partition directories of a root that are listed for these topics, sorted."""
    for name in names.loaded:
        parsed = paths.parse_partition(name)
        if (
            parsed is None
            or parsed.state in ("delete", "stray")
            or not topic_filter(topics).matches(parsed.topic)
        ):
            continue
        yield name


def units_at(
    root: LogDir, name: str, names: RootNames, *, live: bool, tiered: bool
) -> Iterator[Unit]:
    """Yield the units of a partition directory in a root: one, if it cannot be listed."""
    path = _directory(str(root.path), name)
    try:
        if name in names.linked:
            raise _linked(path)
        yield from _partition_units(scan_at_rest(path, live=live), root, live=live, tiered=tiered)
    except KafkatsError as e:
        yield Unit(str(root.path), name, -1, live=live, findings=(failure(name, e),))


def _partition_units(
    partition: PartitionDir, root: LogDir | None, *, live: bool, tiered: bool
) -> Iterator[Unit]:
    log_dir, name = str(root.path if root else partition.path.parent), partition.path.name
    claims = claims_of(partition, root, live=live, tiered=tiered)
    yield Unit(
        log_dir,
        name,
        -1,
        clean=claims.clean,
        live=live,
        directory_ctime_ns=partition.ctime_ns,
        claims=claims,
        findings=partition.findings,
    )
    recovered = (
        {s.base_offset for s in recovered_segments(root, partition)} if root and not live else set()
    )
    expected = _has_time_indexes(partition)
    for segment, following in zip(
        partition.segments, [*partition.segments[1:], None], strict=False
    ):
        yield Unit(
            log_dir,
            name,
            segment.base_offset,
            bytes=segment.log.size,
            next_base_offset=following.base_offset if following else -1,
            clean=claims.clean,
            live=live,
            recovery=segment.base_offset in recovered,
            time_index_expected=expected,
            directory_ctime_ns=partition.ctime_ns,
            files=_identities(segment),
            holes=_holes(segment),
            log_start_offset=claims.log_start,
            high_watermark=claims.high_watermark,
            claims=claims,
        )


def list_again(unit: Unit) -> list[Unit]:
    """Return the units of a unit's partition directory as it is now.

    Raises Vanished, or another StorageFailed.
    """
    log_dir = Path(unit.log_dir)
    directory = log_dir / unit.partition_dir
    if unit.claims is None and directory.is_symlink():
        raise _linked(directory)
    rooted = unit.claims is None or unit.claims.rooted
    live = is_live(log_dir) if rooted else unit.live
    partition = scan_at_rest(directory, live=live)
    root = read_root(log_dir) if rooted else None
    return list(
        _partition_units(
            partition, root, live=live, tiered=bool(unit.claims and unit.claims.tiered)
        )
    )


def _linked(directory: Path) -> StorageFailed:
    """Return the error for a link that a listing of a whole root has found."""
    return StorageFailed("a symbolic link: Kafka follows it, kafkats does not", path=directory)


def _identities(segment: SegmentFiles) -> tuple[FileIdentity | None, ...]:
    of = segment.files.get
    return tuple([
        FileIdentity(file.size, file.mtime_ns, file.ctime_ns, file.inode) if file else None
        for file in map(of, paths.SEGMENT_KINDS)
    ])


def _holes(segment: SegmentFiles) -> tuple[int, ...]:
    holes = [file.hole for file in segment.files.values()]
    if not any(holes):  # of nearly every segment
        return ()
    return tuple(
        file.hole if (file := segment.files.get(kind)) else 0 for kind in paths.SEGMENT_KINDS
    )


def _has_time_indexes(partition: PartitionDir) -> bool:
    """Return whether the partition should have time indexes.

    Brokers before 0.10.1 have none, so none is missing unless some file shows a later broker.
    """
    kinds = {kind for segment in partition.segments for kind in segment.files}
    others = {f.name for f in partition.others}
    later = {paths.TIME_INDEX, paths.TXN_INDEX, paths.SNAPSHOT}
    return bool(kinds & later or others & {paths.LEADER_EPOCH, paths.PARTITION_METADATA})


def is_live(root: Path | None) -> bool:
    """Return whether a broker runs on a root."""
    return root is not None and lock_state(root).held


def segments_in(units: Iterable[Unit]) -> int:
    """Return how many of these units are segments: a report has a row of each."""
    return sum(unit.base_offset >= 0 for unit in units)


def topics_of(units: Iterable[Unit]) -> set[str]:
    """Return the topics that have a directory among these units."""
    names = map(paths.parse_partition, {unit.partition_dir for unit in units})
    return {name.topic for name in names if name is not None}


def refuse_parts(units: Iterable[Unit]) -> None:
    """Raise UsageError for single segments where a decision needs the whole partition."""
    whole: set[tuple[str, str]] = set()
    for unit in units:  # a directory's own unit comes before its segments
        if unit.base_offset < 0:
            whole.add((unit.log_dir, unit.partition_dir))
        elif (unit.log_dir, unit.partition_dir) not in whole:
            raise UsageError("name the directory, not its segments", path=unit.directory)


def unseen(unit: Unit) -> Iterator[Finding]:
    """Yield findings of a directory's unit about batches that only a broker can read.

    These are unreadable entries, links (a broker follows them), and a finished swap that only lacks
    its last rename.
    """
    for finding in unit.findings:
        if finding.kind in ("unreadable", "vanished"):
            yield finding
        elif _hides_batches(unit, finding):
            yield finding._replace(kind="unreadable")


def _hides_batches(unit: Unit, finding: Finding) -> bool:
    segment = paths.parse_segment_file(finding.file)
    log = segment and paths.segment_file(segment.base_offset)
    if finding.kind == "transient":
        return finding.file == f"{log}.swap"
    if finding.kind != "stray":
        return False
    return finding.file == log if unit.partition_dir else Path(unit.log_dir, finding.file).is_dir()


def unit_columns(unit: Unit, rule: str) -> SegmentRow:
    """Return the columns of facts.SEGMENTS that a segment's unit fills."""
    name = paths.partition_name(unit.partition_dir)
    log, index, timeindex, txnindex, snapshot = map(file_row, unit.files)
    return {
        "log_dir": unit.log_dir,
        "partition_dir": unit.partition_dir,
        "directory_ctime_ns": unit.directory_ctime_ns,
        "topic": name.topic,
        "partition": name.partition,
        "base_offset": unit.base_offset,
        "next_base_offset": unit.next_base_offset,
        "active": unit.active,
        "clean": unit.clean,
        "recovery": unit.recovery,
        "rule": rule,
        "log_start_offset": unit.log_start_offset,
        "high_watermark": unit.high_watermark,
        "log": log,
        "index": index,
        "timeindex": timeindex,
        "txnindex": txnindex,
        "snapshot": snapshot,
    }
