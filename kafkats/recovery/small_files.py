"""The small files that recovery rebuilds from the logs: snapshots, aborted transactions, epochs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from kafkats import paths
from kafkats.errors import CorruptFile, Vanished, storage
from kafkats.logdir.checkpoints import EpochStart, encode_epochs, read_epochs
from kafkats.logdir.epochs import after
from kafkats.logdir.snapshot import ProducerEntry, read_snapshot
from kafkats.recovery.replay import Log, Replayed, Start, replay_logs


class Snapshots(NamedTuple):
    """The producer snapshots of a partition directory, by offset."""

    readable: Mapping[int, Sequence[ProducerEntry]]
    unreadable: Mapping[int, str]
    """Why a snapshot cannot be read. A broker deletes it and takes the one before."""


class Wanted(NamedTuple):
    """The part of a partition's small files to make.

    `snapshots` are offsets. Transactions are wanted of the logs whose base offset is `first` or
    higher, epochs of those from `epochs_from` on.
    """

    log_end: int
    snapshots: frozenset[int]
    first: int
    epochs_from: int


class Epochs(NamedTuple):
    """The entries of a leader-epoch-checkpoint. `wrong`: why it cannot be read, ""."""

    entries: Sequence[EpochStart]
    wrong: str = ""


def read_snapshots(directory: Path, names: Iterable[str]) -> Snapshots:
    """Read the snapshots among the files `names` of a partition directory. Raises StorageFailed."""
    readable: dict[int, Sequence[ProducerEntry]] = {}
    unreadable: dict[int, str] = {}
    for name in names:
        parsed = paths.parse_segment_file(name)
        if parsed is None or parsed.kind != paths.SNAPSHOT or parsed.suffix:
            continue
        try:
            readable[parsed.base_offset] = read_snapshot(directory / name)
        except CorruptFile as e:
            unreadable[parsed.base_offset] = e.reason
    return Snapshots(readable, unreadable)


def epochs_there(directory: Path) -> Epochs:
    """Read the leader epochs of a partition directory. Raises StorageFailed.

    Where a broker was deleting the first segments they begin at the first that is left: its
    deletion ends so, and after it no other file tells why the log begins there.
    """
    try:
        entries = read_epochs(directory / paths.LEADER_EPOCH)
    except Vanished:
        return Epochs(())
    except CorruptFile as e:
        return Epochs((), e.reason)
    with storage(directory, "listing"):
        names = [path.name for path in directory.iterdir()]
    logs = [f for f in map(paths.parse_segment_file, names) if f and f.kind == paths.LOG]
    first = min((f.base_offset for f in logs if f.suffix in ("", ".swap")), default=-1)
    deleted = any(base < first for base in paths.deleted_logs(names))
    return Epochs(after(entries, first) if deleted else entries)


def remake(logs: Sequence[Log], snapshots: Snapshots, epochs: Epochs, wanted: Wanted) -> Replayed:
    """Replay the logs of a partition as far as `wanted` needs it.

    The replay begins at the nearest readable snapshot at or below `wanted.first`, else at the first
    of `logs`. Raises as `replay_logs`.
    """
    usable = [offset for offset in snapshots.readable if offset <= wanted.first]
    offset = max(usable, default=0)
    entries = snapshots.readable[offset] if usable else ()
    below = [log for log in logs if log.base_offset <= offset]
    begin = min(wanted.epochs_from, below[-1].base_offset) if below else offset
    needed = [log for log in logs if log.base_offset >= begin]
    start = Start(offset, entries, epochs.entries)
    return replay_logs(
        needed,
        start,
        wanted.log_end,
        snapshots.readable,
        wanted.snapshots,
        epochs_from=wanted.epochs_from,
    )


def contents(made: Replayed) -> dict[str, bytes]:
    """Return the bytes of each small file by name.

    b"" stands for an index of aborted transactions that there should not be.
    """
    files = {
        paths.segment_file(offset, paths.SNAPSHOT): content
        for offset, content in made.snapshots.items()
    }
    files |= {
        paths.segment_file(base, paths.TXN_INDEX): content for base, content in made.aborted.items()
    }
    return {**files, paths.LEADER_EPOCH: encode_epochs(made.epochs)}
