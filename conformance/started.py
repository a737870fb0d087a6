"""Real brokers on damaged log directories: what they make of them, beside what preflight predicted.

A start is compared after its clean stop: the recovery points are the log ends then.
"""

from __future__ import annotations

import random
import shutil
import socket
import struct
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final, NamedTuple

from conformance.damaged_partitions import Damaged, damaged
from conformance.soaked import START_S, Broker, until
from conformance.tally import Tally
from kafkats import paths
from kafkats.execution.local import LocalExecutor
from kafkats.logdir.checkpoints import encode_offsets, read_offsets
from kafkats.logdir.properties import read_partition_metadata
from kafkats.paths import PartitionName
from kafkats.recovery.facts import PartitionStart
from kafkats.recovery.start import predict_start
from kafkats.recovery.strays import Cluster
from tests.golden import Unpacked

STARTED: Final = "a real broker starts, and its logs end as predicted"
_TRIES: Final = 3
_API_VERSIONS: Final = struct.pack(">ihhih", 10, 18, 0, 1, -1)
"""Size, key, version, correlation id, no client id."""
_KINDS: Final = (".log", ".index", ".timeindex", ".snapshot")
_SET_ASIDE: Final = 0.1
"""The share of partitions with a topic id that the cluster does not know, or with none."""
_FAILED: Final = "Shutdown broker because all log dirs in"
_GRACE_S: Final = 3
_END_S: Final = 30
"""Seconds in which a broker ends that is expected to."""
"""A broker that is up notices within this time that all its log directories have failed."""


class Release(NamedTuple):
    """A Kafka version, started with ZooKeeper or with KRaft."""

    version: str
    zookeeper: bool = False

    def __str__(self) -> str:
        return f"{self.version} with ZooKeeper" if self.zookeeper else self.version

    @property
    def topic_ids(self) -> bool:
        """Whether it sets directories aside that the cluster does not know."""
        return not self.zookeeper and self.version != "2.8.2"


RELEASES: Final = (
    Release("4.3.1"),
    Release("4.1.0"),
    Release("3.9.1"),
    Release("3.9.1", zookeeper=True),
    Release("2.8.2", zookeeper=True),
)


class Partition(NamedTuple):
    """A partition after a start: as predicted, or as found on the disk."""

    log_start: int
    log_end: int
    files: list[str]
    sizes: Mapping[str, int]
    """Bytes of the logs that are recovered."""
    set_aside: bool


def compare_start(
    release: Release, turn: int, numbers: list[int], unpacked: Unpacked, tally: Tally, work: Path
) -> None:
    """Start a broker on damaged partitions, stop it, and compare log ends, files and sizes."""
    label = str(release)
    for _ in range(_TRIES):
        with Started(release, work / "start") as broker:
            ones = fill(broker.root, release, numbers, unpacked, clean=turn % 2 == 0)
            known = Cluster(topic_ids(broker.root)) if release.topic_ids else None
            aside = _unknown_topics(broker.root, ones, turn) if release.topic_ids else {}
            with LocalExecutor(1) as executor:
                start = predict_start(executor, [broker.root], release.version, cluster=known)
            predicted = {
                p.partition_dir: _predicted(p, broker.root / p.partition_dir)
                for p in start.partitions
            }
            tally.same(
                STARTED, label, f"start {turn}", "directories set aside",
                sorted(name for name in ones if predicted[name].set_aside), sorted(aside),
            )  # fmt: skip
            if broker.outcome() != "loads":
                what = f"{ones}"
                tally.same(STARTED, label, f"start {turn}", what, "starts", broker.said()[-3000:])
                return
            # Only a stop after a whole start writes the marker and the log ends.
            if (broker.root / paths.CLEAN_SHUTDOWN).exists():
                _compare_partitions(broker, turn, ones, predicted, tally)
                return
    tally.differs(f"{STARTED}, Kafka {label}: no clean stop in {_TRIES} tries")


def _compare_partitions(
    broker: Started,
    turn: int,
    ones: Mapping[str, Damaged],
    predicted: Mapping[str, Partition],
    tally: Tally,
) -> None:
    ends = read_offsets(broker.root / paths.RECOVERY_POINT)
    starts = read_offsets(broker.root / paths.LOG_START)
    for name, one in ones.items():
        ours = predicted[name]
        theirs = _on_disk(broker.root / name, ends, starts, ours.sizes)
        what = f"{name}: {one}"
        tally.same(STARTED, str(broker.release), f"start {turn}", what, ours, theirs)


def _predicted(start: PartitionStart, directory: Path) -> Partition:
    names = names_after({f.name for f in directory.iterdir()}, start)
    sizes = {paths.segment_file(r.base_offset, paths.LOG): r.cut_to for r in start.recovered}
    for base in start.deleted:
        sizes.pop(paths.segment_file(base, paths.LOG), None)
    files = sorted(segment_files(names))
    if start.set_aside:  # its log is not closed, so no end is written
        return Partition(-1, -1, files, sizes, True)
    return Partition(start.log_start_offset, start.log_end_offset, files, sizes, False)


def _on_disk(
    directory: Path,
    ends: Mapping[PartitionName, int],
    starts: Mapping[PartitionName, int],
    asked: Iterable[str],
) -> Partition:
    name = paths.parse_partition(directory.name)
    assert name is not None
    aside = next(directory.parent.glob(f"{directory.name}.*-stray"), None)
    there = {f.name: f.stat().st_size for f in (aside or directory).iterdir()}
    files = sorted(segment_files(there))
    sizes = {log: there.get(log, -1) for log in asked}
    if aside is not None:
        return Partition(-1, -1, files, sizes, True)
    first = min((int(f[:20]) for f in files if f.endswith(paths.LOG)), default=-1)
    return Partition(starts.get(name, first), ends.get(name, -1), files, sizes, False)


def names_after(names: set[str], start: PartitionStart) -> set[str]:
    """Return the names in a partition directory after its predicted start."""
    names = names - set(start.removed) | set(start.created)
    names = names - set(start.renamed) | {f.removesuffix(".swap") for f in start.renamed}
    deleted = {f"{base:020d}" for base in start.deleted}
    kept = {f for f in names if f[:20] not in deleted or f in start.created}
    kept = {f for f in kept if not f.endswith(".snapshot")}
    return kept | {paths.segment_file(offset, paths.SNAPSHOT) for offset in start.snapshots}


def segment_files(names: Iterable[str]) -> Iterator[str]:
    """Yield the names of segments and snapshots."""
    return (name for name in names if name[20:21] == "." and name.endswith(_KINDS))


def fill(
    root: Path, release: Release, numbers: Iterable[int], unpacked: Unpacked, *, clean: bool
) -> dict[str, Damaged]:
    """Make `root` the golden one with the damaged partitions in the place of its topics.

    With ZooKeeper the cluster is a new one, which gives itself an id.
    """
    version = release.version
    source = unpacked(f"clean-start-{version}", "before")
    topics = [p.name for p in sorted(source.iterdir()) if p.is_dir() and p.name[:2] != "__"]
    left_out = [*topics, "log-start-*", ".lock"]
    left_out += ["__cluster_metadata-0", "bootstrap.checkpoint"] if release.zookeeper else []
    shutil.copytree(source, root, ignore=shutil.ignore_patterns(*left_out))
    if not clean:
        (root / paths.CLEAN_SHUTDOWN).unlink()
    if release.zookeeper:
        (root / paths.META_PROPERTIES).write_text("version=0\nbroker.id=1\n")
    ones = {}
    for name, number in zip(topics, numbers, strict=False):
        to = root / name
        ones[name] = damaged(version, number, unpacked, to, keep=(paths.PARTITION_METADATA,))
        known = source / name / paths.PARTITION_METADATA
        if known.exists():
            shutil.copy2(known, to)
    _write_checkpoints(root, ones)
    return ones


def topic_ids(root: Path) -> dict[str, str]:
    """Return the topics by id, as the partitions of `root` have them."""
    found = {}
    for path in root.glob(f"*/{paths.PARTITION_METADATA}"):
        name = paths.parse_partition(path.parent.name)
        if name is not None:
            found[read_partition_metadata(path).topic_id] = name.topic
    return found


def _unknown_topics(root: Path, ones: Iterable[str], turn: int) -> dict[str, str]:
    """Give some partitions a topic id that the cluster does not know, or none. Returns them by name."""
    dice = random.Random(f"unknown topics {turn}")
    some = {name: f"{turn:04d}{n:04d}AAAAAAAAAAAAAA" for n, name in enumerate(ones)}
    some = {name: new for name, new in some.items() if dice.random() < _SET_ASIDE}
    for name, new in some.items():
        file = root / name / paths.PARTITION_METADATA
        if dice.random() < 0.5:
            file.write_text(f"version: 0\ntopic_id: {new}")
        else:
            file.unlink()
    return some


def _write_checkpoints(root: Path, ones: Mapping[str, Damaged]) -> None:
    names = {name: paths.parse_partition(name) for name in ones}
    points = {names[n]: one.recovery_point for n, one in ones.items()}
    starts = {names[n]: one.log_start for n, one in ones.items() if one.log_start}
    for file, offsets in ((paths.RECOVERY_POINT, points), (paths.LOG_START, starts)):
        known = {name: offset for name, offset in offsets.items() if name is not None}
        (root / file).write_bytes(encode_offsets(known))
    (root / paths.HIGH_WATERMARK).unlink(missing_ok=True)
    (root / paths.CLEANER).unlink(missing_ok=True)


class Started(Broker):
    """A broker on a golden root of its version, with the metadata log in it, ended at the end."""

    def __init__(self, release: Release, work: Path) -> None:
        shutil.rmtree(work, ignore_errors=True)
        super().__init__(release.version, work)
        self.release = release
        self.more: list[Path] = []
        """Other log directories than `root`."""
        self.metadata: Path | None = None
        """metadata.log.dir; None: the first log directory."""
        self.named: list[Path] = []
        """Directories beside the log directories that a prediction is asked about."""
        self._heard = 0

    def __enter__(self) -> Started:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()
        shutil.rmtree(self.work, ignore_errors=True)

    @property
    def kraft(self) -> bool:
        return not self.release.zookeeper

    @property
    def roots(self) -> list[Path]:
        return [self.root, *self.more]

    def outcome(self, *, ends: bool = False) -> str:
        """Start it, and stop it. Returns `loads`, or `stops` if it ended by itself.

        One that `ends`, as predicted, has time for it: it may answer requests before.
        """
        self._heard = len(self._output())
        try:
            self.start(at_rest=True)
            until(self._ended_or_answers, START_S, "the broker did not answer")
        except RuntimeError:
            return "stops"
        assert self._process is not None
        if self._process.poll() is not None:
            return "stops"
        if ends or "Stopping serving" in self.said() or _FAILED in self.said():
            try:
                seconds = _END_S if ends else _GRACE_S
                until(lambda: self._process.poll() is not None, seconds, "it goes on")  # type: ignore[union-attr]
            except TimeoutError:
                pass
            else:
                return "stops"
        self.stop()
        return "stops" if _FAILED in self.said() else "loads"

    def said(self) -> str:
        """Return all that the broker printed since its last start."""
        return self._output()[self._heard :]

    def _output(self) -> str:
        file = self.work / "broker.out"
        return file.read_text(errors="replace") if file.exists() else ""

    def _ended_or_answers(self) -> bool:
        """Whether it ended, or answers an ApiVersions request: it is open before it can."""
        assert self._process is not None
        if self._process.poll() is not None:
            return True
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=1) as asked:
                asked.settimeout(1)
                asked.sendall(_API_VERSIONS)
                return len(asked.recv(4)) == 4
        except OSError:
            return False

    def _own(self) -> dict[str, object]:
        own = super()._own()
        own.pop("metadata.log.dir", None)
        own |= {"metadata.log.dir": self.metadata} if self.metadata else {}
        own["log.dirs"] = ",".join(map(str, self.roots))
        if self.release.zookeeper:
            own["zookeeper.session.timeout.ms"] = 40_000  # the most that this ZooKeeper grants
        return own | {
            "log.retention.ms": -1,
            "log.initial.task.delay.ms": 3_600_000,
            # 2.8 deletes the snapshot at the base of a deleted segment after this delay, even if it
            # was written again at the log end.
            "log.segment.delete.delay.ms": 3_600_000,
        }
