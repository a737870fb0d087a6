"""Read a `log.dirs` root: partitions, checkpoints, clean-shutdown marker and foreign files.

A broker does not start when a directory in a root is not named like a partition (LogManager; the
only exception is `remote-log-index-cache`, from 3.6 on). It ignores loose files. It follows links,
also in the place of its own files, and a marker of any kind counts.
`__cluster_metadata-0` belongs to KRaft: kafkats never lists it and never reads it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, TypeVar

from kafkats import errors, paths
from kafkats.findings import Finding
from kafkats.logdir.checkpoints import read_offsets
from kafkats.logdir.partition import PartitionDir, SegmentFiles, gone_or_unreadable, printable
from kafkats.logdir.properties import MetaProperties, read_meta_properties
from kafkats.paths import PartitionName

ROOT_FILES: Final = (
    paths.LOCK,
    paths.CLEAN_SHUTDOWN,
    *paths.OFFSET_CHECKPOINTS,
    paths.META_PROPERTIES,
)
"""The files of a root that kafkats reads."""
_DECODED: Final = (paths.META_PROPERTIES, *paths.OFFSET_CHECKPOINTS)
"""Those whose contents `read_root` has."""

_KNOWN: Final = frozenset({
    *(name + end for name in (*ROOT_FILES, "bootstrap.checkpoint") for end in ("", ".tmp")),
    "_rlmm_committed_offsets",
    paths.DIALECT,
})  # fmt: skip
_STATES: Final = {
    "delete": "a broker is deleting this partition",
    "future": "a copy that a broker was moving here from another log directory",
    "stray": "a broker set it aside: the cluster does not know this partition",
}
_LOADED_ALL_THE_SAME: Final = re.compile(r".+-\+?[0-9]{1,10}(\.\S+-(delete|future|stray))?")
_Read = TypeVar("_Read")


@dataclass(frozen=True)
class LogDir:
    """The contents of a `log.dirs` root.

    `checkpoints` has those of `paths.OFFSET_CHECKPOINTS` that exist and can be read; their keys are
    PartitionNames without state. `partitions` are sorted by directory name. They include partitions
    that a broker moves or deletes (`name.state`). `file` in `findings` is a name in this directory.
    """

    path: Path
    meta: MetaProperties | None
    checkpoints: Mapping[str, Mapping[PartitionName, int]]
    clean_shutdown: bool
    partitions: tuple[PartitionDir, ...]
    findings: tuple[Finding, ...]


@dataclass(frozen=True)
class RootNames:
    """The entries of a root by kind: partition directories (sorted) and loose files.

    `files` also has what stands in the place of a file of ROOT_FILES, such as a link or a pipe.
    """

    partitions: tuple[str, ...]
    files: frozenset[str]
    findings: tuple[Finding, ...]
    linked: tuple[str, ...] = ()
    """Symbolic links to partition directories, sorted: brokers load them, no operation does."""
    remote_index_cache: bool = False
    """Whether there is a `remote-log-index-cache` of remote log storage."""
    metadata_log: bool = False
    """Whether KRaft's metadata log is here."""

    @property
    def metadata_only(self) -> bool:
        """Return whether it is a `metadata.log.dir` that is not in log.dirs.

        A broker that starts creates the offset checkpoints in each of its log.dirs.
        """
        written = self.files & {paths.CLEAN_SHUTDOWN, *paths.OFFSET_CHECKPOINTS}
        return self.metadata_log and not self.loaded and not written

    @property
    def loaded(self) -> tuple[str, ...]:
        """Return the partition directories that a broker loads, sorted: links included."""
        return tuple(sorted((*self.partitions, *self.linked)))


def read_root(path: str | os.PathLike[str], names: RootNames | None = None) -> LogDir:
    """Read the root's own files and leave `partitions` empty.

    Raises Vanished, or another StorageFailed, when the root itself cannot be listed.
    """
    folder = Path(path)
    names = names or list_root(folder)
    findings = list(names.findings)
    meta = None
    if paths.META_PROPERTIES in names.files:
        meta = _readable(read_meta_properties, folder / paths.META_PROPERTIES, findings)
    checkpoints = {}
    for name in paths.OFFSET_CHECKPOINTS:
        offsets = _readable(read_offsets, folder / name, findings) if name in names.files else None
        if offsets is not None:
            checkpoints[name] = offsets
    return LogDir(
        folder, meta, checkpoints, paths.CLEAN_SHUTDOWN in names.files, (), tuple(sorted(findings))
    )


def present_in(roots: Iterable[RootNames]) -> set[PartitionName]:
    """Return the partitions that have a directory in one of these roots, without its state."""
    directories = [paths.parse_partition(name) for names in roots for name in names.loaded]
    return {name._replace(state="") for name in directories if name}


def list_root(path: str | os.PathLike[str]) -> RootNames:
    """List names only.

    Raises Vanished, or another StorageFailed, when the root cannot be listed.
    """
    partitions, linked = [], []
    files = set()
    findings: list[Finding] = []
    left_alone = set()
    with errors.storage(path, "listing the log directory"), os.scandir(path) as entries:
        for entry in entries:
            name = entry.name
            if name in {paths.CLUSTER_METADATA, paths.REMOTE_INDEX_CACHE}:
                left_alone.add(name)
                continue
            try:
                is_link, is_dir, is_file = entry.is_symlink(), entry.is_dir(), entry.is_file()
            except OSError as e:
                findings.append(gone_or_unreadable(name, e))
                continue
            parsed = paths.parse_partition(name)
            if is_dir and parsed and is_link:
                linked.append(name)
            elif is_dir and parsed:
                partitions.append(name)
                if parsed.state:
                    findings.append(Finding("transient", name, _STATES[parsed.state]))
            elif is_dir or is_link:
                findings.append(_foreign(name, is_dir, is_link))
                if name in ROOT_FILES and not is_dir and Path(entry.path).exists():
                    files.add(name)
            elif is_file:
                files.add(name)
                if name not in _KNOWN:
                    findings.append(
                        Finding("stray", printable(name), "not a file that Kafka writes here")
                    )
            else:
                files |= {name} & {*ROOT_FILES}
                findings += _no_file(name)
    listed = RootNames(
        tuple(sorted(partitions)),
        frozenset(files),
        tuple(sorted(findings)),
        tuple(sorted(linked)),
        paths.REMOTE_INDEX_CACHE in left_alone,
        paths.CLUSTER_METADATA in left_alone,
    )
    if not listed.metadata_only:
        return listed
    return replace(listed, findings=tuple(map(_beside_the_metadata_log, listed.findings)))


def _beside_the_metadata_log(finding: Finding) -> Finding:
    """Return a finding of a directory in which a broker looks for no partitions."""
    if finding.kind != "stops-the-broker":
        return finding
    return finding._replace(kind="stray", reason="not a directory that Kafka makes here")


def _no_file(name: str) -> list[Finding]:
    """Return the finding for a pipe, socket or device, [] if `read_root` makes it."""
    kind = "unreadable" if name in ROOT_FILES else "stray"
    finding = Finding(kind, printable(name), "neither a file nor a directory")
    return [] if name in _DECODED else [finding]


def _foreign(name: str, is_dir: bool, is_link: bool) -> Finding:
    """Return the finding for a symbolic link, or a directory not named like a partition."""
    shown = printable(name)
    if is_dir and not _LOADED_ALL_THE_SAME.fullmatch(name):
        return Finding(
            "stops-the-broker",
            shown,
            "a directory that is not named topic-partition: no broker starts with it here",
        )
    if is_link:
        follows = "kafkats reads it, too" if name in ROOT_FILES else "kafkats does not"
        return Finding("stray", shown, f"a symbolic link: Kafka follows it, {follows}")
    return Finding(
        "stray", shown, "not a valid topic's name, though a broker would load it as a partition"
    )


def _readable(
    read: Callable[[Path], _Read],
    path: Path,
    findings: list[Finding],
) -> _Read | None:
    try:
        return read(path)
    except errors.Vanished:
        findings.append(Finding("vanished", path.name, "was listed, and was gone a moment later"))
    except errors.KafkatsError as e:
        findings.append(
            Finding("unreadable", path.name, e.reason, -1 if e.position is None else e.position)
        )
    return None


def recovered_segments(root: LogDir, partition: PartitionDir) -> tuple[SegmentFiles, ...]:
    """Return the segments that a broker recovers at its next start; none after a clean shutdown.

    After an unclean stop it recovers the segment that contains the partition's recovery point and
    all later ones: it reads each log from its start, rebuilds the indexes and cuts a torn tail
    (Kafka: LogLoader.recoverLog, before 3.0 Log.recoverLog), whether or not kafkats rebuilt them. A
    missing or unreadable recovery point counts as 0. A broker writes its first recovery points 30 s
    after it starts.
    """
    if root.clean_shutdown:
        return ()
    point = recovery_point_of(root, partition.name) if partition.name else 0
    first = first_recovered((s.base_offset for s in partition.segments), point)
    return tuple(s for s in partition.segments if s.base_offset >= first)


def recovery_point_of(root: LogDir, name: PartitionName) -> int:
    """Return a partition's recovery point, 0 without one.

    Kafka looks up `-future` and `-delete` directories under the plain partition name.
    """
    return root.checkpoints.get(paths.RECOVERY_POINT, {}).get(name._replace(state=""), 0)


def first_recovered(bases: Iterable[int], recovery_point: int) -> int:
    """Return the offset from which on a broker recovers segments after an unclean stop.

    `bases` are the base offsets of a partition's segments, in order.
    """
    return max((base for base in bases if base <= recovery_point), default=0)
