"""The state of one partition directory while its load is predicted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from kafkats import paths
from kafkats.evidence.claims import Claims
from kafkats.logdir.checkpoints import EpochStart
from kafkats.logdir.epochs import assigned
from kafkats.recovery.facts import Recovered, Why
from kafkats.recovery.loading import Files
from kafkats.recovery.reading import (
    End,
    Recovery,
    check_batches,
    epochs_in,
    newest_magic,
    path_of,
    read_end,
    recover,
)
from kafkats.recovery.rules import StartRule
from kafkats.recovery.snapshots import Snapshots


def recovered(base: int, why: Why, done: Recovery) -> Recovered:
    """Return the row of one recovery."""
    return Recovered(
        base, why, done.log_bytes, done.cut_to, done.next_offset, done.batches, done.messages
    )


@dataclass
class Load:
    """The state of one load."""

    directory: Path
    rule: StartRule
    claims: Claims
    interval: int
    sizes: dict[str, int]
    """Bytes by name on disk."""
    files: Files
    snapshots: Snapshots
    epochs: list[EpochStart]
    named: list[EpochStart]
    """Those of the checkpoint before the start."""
    ahead: Mapping[int, Recovery]
    """Recoveries that were made before, by base offset."""
    bases: list[int] = field(default_factory=list)
    """The segments loaded so far."""
    recovered: list[Recovered] = field(default_factory=list)
    recoveries: dict[int, Recovery] = field(default_factory=dict)
    replayed: set[int] = field(default_factory=set)
    deleted: list[int] = field(default_factory=list)
    reached: int = -1
    """The largest end offset of a log that was seen."""

    @property
    def log_start(self) -> int:
        return max(self.claims.log_start, 0)

    @property
    def recovery_point(self) -> int:
        return max(self.claims.recovery_point, 0)

    def source(self, base: int, kind: str) -> Path | None:
        return path_of(self.directory, self.files.sources, base, kind)

    def log(self, base: int) -> Path:
        found = self.source(base, paths.LOG)
        assert found is not None
        return found

    def size(self, base: int) -> int:
        """Bytes of the log, after what was recovered of it."""
        done = self.recoveries.get(base)
        return done.cut_to if done else self.sizes.get(self.log(base).name, 0)

    def recover(self, base: int, why: Why) -> Recovered:
        """Recover a segment. Raises Stops, StorageFailed."""
        done = self.recoveries.get(base)
        log = self.log(base)
        if done is None:
            done = self._known(log, base) or recover(
                log, base, self.interval, newest_magic=self.rule.newest_magic
            )
        else:
            done = done._replace(log_bytes=done.cut_to)
        one = recovered(base, why, done)
        if self.rule.producers:
            self.snapshots.rebuild(self.bases, self.log_start, base)
            self.snapshots.recovered(done.producers_end)
            # Up to 2.8 only the recovery of unflushed segments assigns epochs.
            if self.rule.swaps_renamed or why == "unflushed":
                self._assign_epochs(log, done)
        self.recoveries[base] = done
        self.recovered.append(one)
        self.files.restore(paths.segment_file(base, paths.TXN_INDEX))
        self.reached = max(self.reached, done.seen_to, done.next_offset)
        return one

    def _assign_epochs(self, log: Path, done: Recovery) -> None:
        """Note the epochs that a recovered log begins. Raises StorageFailed."""
        latest = self.epochs[-1].epoch if self.epochs else self.rule.lowest_epoch - 1
        if self.rule.epochs and done.highest_epoch > latest:
            for begun in epochs_in(log, done.cut_to, latest, done.highest_epoch):
                self.epochs = assigned(self.epochs, begun, falling=self.rule.falling_epochs)

    def _known(self, log: Path, base: int) -> Recovery | None:
        """Return the recovery of this log that was made before, None if the log is another."""
        done = self.ahead.get(base)
        named = log.name == paths.segment_file(base)
        return done if done and named and done.log_bytes == self.sizes.get(log.name) else None

    def replay(self, base: int) -> None:
        """Read the batches of a segment for its producers. Raises Stops, StorageFailed."""
        if base not in self.recoveries and base not in self.replayed:
            check_batches(self.log(base), base, self.rule)
            self.replayed.add(base)

    def newest_magic(self, base: int) -> int:
        """Return the newest format of a segment, as `reading.newest_magic`. Raises StorageFailed.

        The index of a recovered segment is new.
        """
        if not self.source(base, paths.LOG):
            return -1  # a new, empty segment
        recovered = base in self.recoveries
        index = None if recovered else self.source(base, paths.OFFSET_INDEX)
        return newest_magic(self.log(base), index, self.size(base))

    def end(self) -> End:
        """Return the log end. Raises Stops, StorageFailed."""
        base = self.bases[-1]
        done = self.recoveries.get(base)
        if done is not None:  # its new index leads to its last batch
            return End(done.next_offset, done.next_offset, 0)
        return read_end(self.log(base), self.source(base, paths.OFFSET_INDEX), base, self.rule)
