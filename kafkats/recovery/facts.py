"""The result of a predicted start, per partition and per log directory, as rows of a report."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

from kafkats import paths
from kafkats.evidence.borders import behind_high_watermark
from kafkats.findings import Finding, worst
from kafkats.logdir.checkpoints import EpochStart

if TYPE_CHECKING:
    from kafkats.logdir.properties import MetaProperties
    from kafkats.recovery.rules import StartRule

Outcome = Literal["loads", "offline", "stops", "unknown"]
"""The end of loading: the log is there, the log directory goes offline, the broker stops, or what a
broker does cannot be told (`words` says why)."""
OUTCOMES: Final[tuple[Outcome, ...]] = ("loads", "unknown", "offline", "stops")
"""All outcomes, from harmless to worst."""

Why = Literal["unflushed", "missing-index", "corrupt-index", "swap"]


class Recovered(NamedTuple):
    """One recovery of a segment: its log is read from the start, its indexes are rebuilt."""

    base_offset: int
    why: Why
    log_bytes: int
    """Size of the log before."""
    cut_to: int
    """Size of the log afterwards."""
    next_offset: int
    """The offset after the last batch that remains."""
    batches: int = 0
    """Batches of magic 2 that are read."""
    messages: int = 0
    """Messages and wrappers of magic 0 and 1 that are read."""

    @property
    def cut_bytes(self) -> int:
        return self.log_bytes - self.cut_to


@dataclass(frozen=True)
class PartitionStart:
    """One partition directory at the start of a broker. Offsets are -1 where there is none."""

    log_dir: str
    partition_dir: str
    outcome: Outcome
    words: str = ""
    """The broker's own words where `outcome` is not `loads`."""
    segments: int = 0
    """Segments before the start."""
    log_bytes: int = 0
    log_start_offset: int = -1
    log_end_offset: int = -1
    """After the start."""
    recovery_point: int = -1
    high_watermark: int = -1
    """The entries that the checkpoints have; a moved or deleted copy has no high watermark."""
    recovered: tuple[Recovered, ...] = ()
    """In order. A segment may be recovered twice."""
    deleted: tuple[int, ...] = ()
    """Base offsets of segments that are deleted: behind a corrupt one, or below the log start."""
    deleted_bytes: int = 0
    removed: tuple[str, ...] = ()
    """Names of files that the start removes, besides those of `deleted` segments."""
    renamed: tuple[str, ...] = ()
    """Names of `.swap` files that take the place of the files without that ending."""
    created: tuple[str, ...] = ()
    """Names of files that the start adds, or writes anew as empty ones."""
    epochs: tuple[EpochStart, ...] = ()
    """The leader epochs after loading."""
    snapshots: tuple[int, ...] = ()
    """Offsets of the producer snapshots after loading."""
    snapshot_offset: int = -1
    """The producer snapshot that is loaded, -1 if none."""
    replay_from: int = -1
    """Producer state is replayed from here to the log end."""
    replay_bytes: int = 0
    """Bytes of the segments that the replay reads, at most."""
    known_end: int = -1
    """The largest end offset that logs and other files know of, before the start.

    A checkpoint that is likely wrong itself does not count (`borders.wrong_witness`)."""
    topic_id: str = ""
    set_aside: str = ""
    """Why the broker renames the directory to `-stray`, or deletes it (3.0 to 3.6), "" if it does
    not."""
    findings: tuple[Finding, ...] = ()

    @property
    def recovered_bytes(self) -> int:
        return sum(one.log_bytes for one in self.recovered)

    @property
    def cut_bytes(self) -> int:
        """Bytes that recoveries cut from logs which the start keeps."""
        kept = (one for one in self.recovered if one.base_offset not in self.deleted)
        return sum(one.cut_bytes for one in kept)

    @property
    def lost_offsets(self) -> int:
        """The number of offsets at the end that are lost at least. New records get them again.

        A deleted copy and one that was set aside lose nothing that anybody reads.
        """
        name = paths.parse_partition(self.partition_dir)
        if self.outcome != "loads" or (name and name.state in ("delete", "stray")):
            return 0
        return max(self.known_end - max(self.log_end_offset, 0), 0)

    @property
    def behind_high_watermark(self) -> int:
        """The number of offsets below the high watermark that the log lacks after the start."""
        return (
            behind_high_watermark(self.log_end_offset, self.high_watermark)
            if self.outcome == "loads"
            else 0
        )

    @property
    def has_wrong_high_watermark(self) -> bool:
        """Return whether the checkpoint with the high watermark is likely wrong, not the log."""
        return self.behind_high_watermark > 0 and self.known_end < self.high_watermark

    @property
    def loses(self) -> bool:
        """Return whether the start loses something here, or does not end well."""
        bad = worst(self.findings) in ("damage", "danger")
        lacks = self.lost_offsets > 0 or self.behind_high_watermark > 0
        return self.outcome != "loads" or bad or bool(self.set_aside) or lacks


@dataclass(frozen=True)
class RootStart:
    """One log directory at the start of a broker, without its partitions."""

    log_dir: str
    outcome: Outcome
    words: tuple[str, ...] = ()
    """The broker's own words where `outcome` is not `loads`, and for checkpoints it ignores."""
    live: bool = False
    """A broker runs: everything is said of a start after it was killed now."""
    clean: bool = False
    """A clean-shutdown marker counts: no segment is recovered for its recovery point."""
    marker_epoch: int | None = None
    meta: MetaProperties | None = None
    metadata_log: bool = False
    """It has KRaft's metadata log."""
    metadata_only: bool = False
    """It is a `metadata.log.dir` that is not in log.dirs."""
    findings: tuple[Finding, ...] = ()
    missing: tuple[str, ...] = ()
    """Partitions that its checkpoints prove, and whose directories are gone."""


@dataclass(frozen=True)
class BrokerStart:
    """The start of one broker on its log directories."""

    kafka: str
    rule: StartRule
    outcome: Outcome
    words: tuple[str, ...]
    """Why the broker does not start, in its own words."""
    roots: tuple[RootStart, ...]
    partitions: tuple[PartitionStart, ...]
    told_epoch: int = -1
    """The broker epoch of the last clean stop, as the controller is told; -1: not clean."""
    kraft: bool | None = None
    """Whether the broker runs with KRaft, None where its log directories do not tell it."""
