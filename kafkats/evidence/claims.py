"""The offsets that the files around a partition's logs state for its begin and end.

The sources are file names and the root's checkpoints. No file of the partition directory is opened.
Kafka sources: LogManager (checkpoints, marker), UnifiedLog and ProducerStateManager (snapshots),
LogCleanerManager of Kafka 0.8 to 4.3.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from kafkats import paths
from kafkats.logdir.partition import PartitionDir, unfinished_swaps
from kafkats.logdir.root import LogDir, RootNames
from kafkats.logdir.smallfiles import SmallFiles, small_files_of

ALWAYS_COMPACTED: Final = frozenset({
    "__consumer_offsets",
    "__transaction_state",
    "__share_group_state",
})
_INDEXES: Final = (paths.OFFSET_INDEX, paths.TIME_INDEX)
_REMOTE_METADATA_TOPIC: Final = "__remote_log_metadata"
_REMOTE_COMMITTED_OFFSETS: Final = "_rlmm_committed_offsets"


class Claims(NamedTuple):
    """Offsets that files state, -1 where no file does, and the state of the partition directory."""

    recovery_point: int = -1
    high_watermark: int = -1
    log_start: int = -1
    first_base: int = -1
    """The base offset of the first segment, -1 without one."""
    last_snapshot: int = -1
    """The largest offset in the name of a producer snapshot."""
    rooted: bool = False
    """Whether the root of the partition directory was read too."""
    clean: bool = False
    live: bool = False
    compacted: bool = False
    """Whether the cleaner cleans this log, so that offsets may be missing."""
    tiered: bool = False
    """Whether the broker has remote log storage. A log may then begin above its log start offset.
    """
    deleting: bool = False
    """Whether `.deleted` logs remain below the first segment: a broker was deleting them here."""
    unsettled: bool = False
    """Whether a broker start may add or remove segments.

    This is so while a broker has unfinished segment replacements here, and when a log is a link or
    could not be examined.
    """

    replacing: bool = False
    """Whether that is for unfinished segment replacements alone: every log was examined."""
    orphans: bool = True
    """Whether there may be index files without a log."""
    small_files: SmallFiles | None = None
    """What a listing knows of them; None beside a running broker, which may have changed it."""
    end_settled: bool = True
    """Whether no broker start moves the log end: the unfinished replacements, if any, are of
    segments before the last one. The cleaner never replaces the active segment.
    """

    @property
    def flushed_to(self) -> int:
        """The offset below which the log was flushed, so that an unclean stop loses nothing of it.

        After a clean stop, and for a partition that was copied elsewhere, this is the whole log.
        """
        return 2**63 - 1 if self.clean or not self.rooted else max(self.recovery_point, 0)


def shows_remote_storage(claims: Claims) -> bool:
    """Return whether the first segments seem to lie in remote storage (KIP-405) alone.

    The broker has remote storage, and the log start offset lies below the first segment.
    """
    return claims.tiered and 0 <= claims.log_start < claims.first_base


def claims_of(partition: PartitionDir, root: LogDir | None, *, live: bool, tiered: bool) -> Claims:
    """Return the claims about one partition directory."""
    name = partition.name
    if name is not None and name.state:
        name = name._replace(state="")

    def offset_in(checkpoint: str) -> int:
        offsets = root.checkpoints.get(checkpoint) if root else None
        return offsets.get(name, -1) if offsets and name else -1

    replacements = unfinished_swaps(finding.file for finding in partition.findings)
    unseen = _has_unseen_logs(partition)
    others = [file.name for file in partition.others]
    first_base = partition.segments[0].base_offset if partition.segments else -1
    return Claims(
        recovery_point=offset_in(paths.RECOVERY_POINT),
        high_watermark=offset_in(paths.HIGH_WATERMARK),
        log_start=offset_in(paths.LOG_START),
        first_base=first_base,
        last_snapshot=max(_snapshots(partition), default=-1),
        rooted=root is not None,
        clean=root is not None and root.clean_shutdown,
        live=live,
        compacted=offset_in(paths.CLEANER) >= 0
        or (name is not None and name.topic in ALWAYS_COMPACTED),
        tiered=tiered,
        deleting=any(base < first_base for base in paths.deleted_logs(others)),
        unsettled=bool(replacements) or unseen,
        replacing=bool(replacements) and not unseen,
        orphans=any(name.endswith(_INDEXES) for name in others),
        small_files=None if live else small_files_of(partition),
        end_settled=not unseen and _replaced_below_the_last(partition, replacements),
    )


def is_tiered(names: RootNames) -> bool:
    """Return whether a root shows that its broker has remote log storage (KIP-405)."""
    files = _REMOTE_COMMITTED_OFFSETS in names.files
    return (
        names.remote_index_cache
        or files
        or any(d.startswith(_REMOTE_METADATA_TOPIC) for d in names.loaded)
    )


def _snapshots(partition: PartitionDir) -> Iterable[int]:
    for segment in partition.segments:
        if paths.SNAPSHOT in segment.files:
            yield segment.base_offset
    for file in partition.others:
        if file.name.endswith(paths.SNAPSHOT) and (parsed := paths.parse_segment_file(file.name)):
            yield parsed.base_offset


def _replaced_below_the_last(partition: PartitionDir, replacements: Sequence[str]) -> bool:
    """Return whether each of the unfinished replacements begins below the base of the last segment.

    A start deletes `.cleaned` files, and swaps `.swap` files in.
    """
    if not replacements:
        return True
    last = partition.segments[-1].base_offset if partition.segments else -1
    swaps = (paths.parse_segment_file(name) for name in replacements if name.endswith(".swap"))
    return all(swap is not None and swap.base_offset < last for swap in swaps)


def _has_unseen_logs(partition: PartitionDir) -> bool:
    """The same rule as `report.unseen_logs` applies to findings."""
    if not partition.findings:  # of nearly every partition
        return False
    unseen = ("stray", "unreadable", "vanished")
    logs = (f.file for f in partition.findings if f.kind in unseen)
    return any(
        parsed is not None and parsed.kind == paths.LOG
        for parsed in map(paths.parse_segment_file, logs)
    )
