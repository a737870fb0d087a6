"""Log directories on which a broker does not start: as predicted, and in the words predicted."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable
from itertools import count
from pathlib import Path
from typing import IO, Final

from conformance.log_dirs import IN_PLACE, second_log_dir, set_property
from conformance.started import Release, Started, fill
from conformance.tally import Tally
from kafkats import paths
from kafkats.execution.local import LocalExecutor
from kafkats.recovery.meta_properties import Expected
from kafkats.recovery.start import predict_start
from tests.golden import Unpacked

REFUSED: Final = "a real broker does not start, as predicted, and says so in the predicted words"
_HOLD: Final = """import fcntl, sys
file = open(sys.argv[1], "wb+")
fcntl.lockf(file, fcntl.LOCK_SH)
print("held", flush=True)
sys.stdin.read()
"""
_LEAST: Final = 20
"""Characters of a message that are worth comparing."""


def compare_refusals(
    release: Release,
    wanted: int,
    stops: Callable[[int], bool],
    unpacked: Unpacked,
    tally: Tally,
    work: Path,
) -> None:
    """Start a broker on roots with one damage, then on partitions that are predicted to stop it.

    `stops` tells whether the partition of a number is.
    """
    left_out = [*_WITHOUT_LEADERS, *_ELSEWHERE] if release.zookeeper else []
    if release == Release("3.9.1", zookeeper=True):
        left_out.append("a directory for an index")  # only its leader reads that; 2.8.2 loads it
    every = [kind for kind in _WAYS if kind not in left_out]
    kinds = every if wanted > len(_WAYS) else every[: wanted // 2]
    folder = work / "refused"
    refused = sum(_compare_root(release, kind, unpacked, tally, folder) for kind in kinds)
    for number in count(20_000):
        if refused >= wanted:
            return
        if stops(number):
            refused += _compare_partition(release, number, unpacked, tally, folder)


def _compare_partition(
    release: Release, number: int, unpacked: Unpacked, tally: Tally, work: Path
) -> bool:
    with Started(release, work) as broker:
        ones = fill(broker.root, release, [number], unpacked, clean=True)
        what = f"number {number}: {next(iter(ones.values()))}"
        return _compare(broker, Expected(), "random", what, tally)


def _compare_root(
    release: Release, kind: str, unpacked: Unpacked, tally: Tally, work: Path
) -> bool:
    with Started(release, work) as broker:
        fill(broker.root, release, (), unpacked, clean=True)
        source = unpacked(f"clean-start-{release.version}", "before")
        shutil.copytree(source / "untouched-0", broker.root / "untouched-0")
        expected = Expected(node_id=1)
        if kind in ("cluster", "two clusters") and release.zookeeper:
            broker.outcome()  # the cluster gives itself an id
            expected = Expected(_property(broker.root, "cluster.id"), 1)
        held = _WAYS[kind](broker)
        try:
            return _compare(broker, expected, "roots", kind, tally)
        finally:
            if held is not None:
                held.close()


def _compare(broker: Started, expected: Expected, case: str, what: str, tally: Tally) -> bool:
    """Compare one start. Returns whether a refusal was predicted."""
    with LocalExecutor(1) as executor:
        asked = [*broker.roots, *broker.named]
        ours = predict_start(executor, asked, broker.version, expected=expected)
    words = [*ours.words]
    if ours.outcome == "offline":
        words += [w for root in ours.roots for w in root.words if root.outcome == "offline"]
    outcome = "stops" if ours.outcome == "stops" else "loads"
    happened = broker.outcome(ends=outcome == "stops")
    said = broker.said()
    missing = [word for word in words if not is_said(word, said)]
    shown = " / ".join(_errors(said)) if missing or outcome != happened else ""
    what = f"{what}: {'; '.join(ours.words)}"
    tally.same(REFUSED, str(broker.release), case, what, (outcome, []), (happened, missing))
    if shown:
        tally.console.print(f"  Kafka {broker.release} said: {shown[:1500]}", soft_wrap=True)
    return ours.outcome in ("stops", "offline")


def is_said(word: str, said: str) -> bool:
    """Whether the broker printed these words, whatever stands before them (such as a path)."""
    first, both, pair = word.partition(" are found in both ")
    if both:  # the threads that load the directories give the order
        return first in said and all(path in said for path in pair.rstrip(".").split(" and "))
    parts = word.split(": ")
    ends = [": ".join(parts[n:]) for n in range(len(parts))]
    return any(end in said for end in ends if len(end) > _LEAST or end == word)


def _errors(said: str) -> Iterable[str]:
    lines = said.splitlines()
    marks = ("ERROR", "FATAL", "Caused by", "WARN", "java.", "org.apache.", "kafka.")
    return [line for line in lines if line.startswith(marks)]


def _property(root: Path, key: str) -> str:
    lines = (root / paths.META_PROPERTIES).read_text().splitlines()
    return next(line.partition("=")[2] for line in lines if line.startswith(f"{key}="))


def _node(broker: Started) -> str:
    return "broker.id" if broker.release.zookeeper else "node.id"


def _cluster(broker: Started) -> None:
    if broker.release.zookeeper:
        set_property(broker.root, "cluster.id", "another-cluster-of-22-c")
    else:
        set_property(broker.root, "cluster.id", "another-cluster-of-22-c")
        second_log_dir(broker)
        set_property(broker.more[0], "cluster.id", "cluster-of-the-second-d")


def _two(key: str, value: str) -> Callable[[Started], None]:
    def differ(broker: Started) -> None:
        set_property(second_log_dir(broker), _node(broker) if key == "node" else key, value)

    return differ


def _without_properties(*, first: bool) -> Callable[[Started], None]:
    def remove(broker: Started) -> None:
        second = second_log_dir(broker)
        root = broker.root if first else second
        (root / paths.META_PROPERTIES).unlink()

    return remove


def _empty_second(broker: Started) -> None:
    for file in second_log_dir(broker).iterdir():
        file.unlink()


def _duplicate(broker: Started) -> None:
    shutil.copytree(broker.root / "untouched-0", second_log_dir(broker) / "untouched-0")


def _same_directory_id(broker: Started) -> None:
    second = second_log_dir(broker)
    for root in (broker.root, second):
        set_property(root, "directory.id", "dGhlLXNhbWUtZGlyZWN0bw")


_WITHOUT_LEADERS: Final = (
    "high watermarks of noise",
    "high watermarks with a letter",
    "high watermarks: a link to nothing",
)
"""A new ZooKeeper knows no topics, so no partition asks for its high watermark."""


def _write(name: str, text: str) -> Callable[[Started], None]:
    return lambda broker: (broker.root / name).write_text(text) and None


def _write_second(name: str, text: str) -> Callable[[Started], None]:
    return lambda broker: (second_log_dir(broker) / name).write_text(text) and None


def _topic_id(text: str) -> Callable[[Started], None]:
    """Write partition.metadata of a partition."""

    def write(broker: Started) -> None:
        (broker.root / "untouched-0" / paths.PARTITION_METADATA).write_text(text)

    return write


def _epochs(text: str, *, beside: bool) -> Callable[[Started], None]:
    """Write leader epochs of a partition, in the second directory if `beside`."""

    def write(broker: Started) -> None:
        second = second_log_dir(broker)
        if beside:
            (broker.root / "untouched-0").rename(second / "untouched-0")
        root = second if beside else broker.root
        (root / "untouched-0" / paths.LEADER_EPOCH).write_text(text)

    return write


def _made(name: str) -> Callable[[Started], None]:
    return lambda broker: (broker.root / name).mkdir()


def _renamed(ending: str) -> Callable[[Started], None]:
    def rename(broker: Started) -> None:
        (broker.root / "untouched-0").rename(broker.root / f"untouched-0.{'a' * 32}-{ending}")

    return rename


def _beside_its_future(*, other_id: str = "") -> Callable[[Started], None]:
    """Copy a partition as its own future replica, as one of another topic with `other_id`."""

    def copy(broker: Started) -> None:
        future = broker.root / f"untouched-0.{'a' * 32}-future"
        shutil.copytree(broker.root / "untouched-0", future)
        if other_id:
            (future / paths.PARTITION_METADATA).write_text(f"version: 0\ntopic_id: {other_id}")

    return copy


def _directory_for_the_only_log(broker: Started) -> None:
    first, *others = sorted((broker.root / "untouched-0").glob(f"*{paths.LOG}"))
    for log in others:
        for file in log.parent.glob(f"{log.stem}.*"):
            file.unlink()
    first.unlink()
    first.mkdir()


def _directory_for(kind: str) -> Callable[[Started], None]:
    """Put a directory in the place of the first file of a kind, or of the one that the first segment could have."""

    def put(broker: Started) -> None:
        directory = broker.root / "untouched-0"
        first = min(directory.glob(f"*{paths.LOG}")).with_suffix(kind)
        file = min(directory.glob(f"*{kind}"), default=first)
        file.unlink(missing_ok=True)
        file.mkdir()

    return put


def _elsewhere(
    damage: Callable[[Started, Path], IO[bytes] | None], *, named: bool = True
) -> Callable[[Started], IO[bytes] | None]:
    """Move the metadata log out of the two log directories, and damage something.

    `named`: the prediction is told of its directory.
    """

    def move(broker: Started) -> IO[bytes] | None:
        metadata = broker.metadata = broker.work / "metadata"
        metadata.mkdir()
        broker.named = [metadata] if named else []
        for name in (paths.CLUSTER_METADATA, "bootstrap.checkpoint"):
            if (broker.root / name).exists():
                (broker.root / name).rename(metadata / name)
        shutil.copy2(broker.root / paths.META_PROPERTIES, metadata)
        set_property(metadata, "directory.id", None)
        second_log_dir(broker)
        return damage(broker, metadata)

    return move


def _in_all(change: Callable[[Path], object]) -> Callable[[Started, Path], None]:
    """Return a damage of all log directories, not of the metadata log's."""

    def damage(broker: Started, _metadata: Path) -> None:
        for root in broker.roots:
            change(root)

    return damage


def _metadata_twice(broker: Started) -> None:
    shutil.copytree(
        broker.root / paths.CLUSTER_METADATA, second_log_dir(broker) / paths.CLUSTER_METADATA
    )


def _metadata_in_the_second(broker: Started) -> None:
    (broker.root / paths.CLUSTER_METADATA).rename(second_log_dir(broker) / paths.CLUSTER_METADATA)
    broker.metadata = broker.more[0]


def _unformat(root: Path) -> None:
    (root / paths.META_PROPERTIES).unlink()


def _newer_properties(root: Path) -> None:
    set_property(root, "version", "7")


def _cut_points(root: Path) -> None:
    (root / paths.RECOVERY_POINT).write_text("0\n5\na 0 1\n")


def _locked(broker: Started) -> IO[bytes]:
    return _lock(broker.root)


def _lock(folder: Path) -> IO[bytes]:
    """Hold a read lock in another process, until what is returned is closed.

    A broker that wants to write takes no log directory from it. A process does not see its own
    lock, and loses it when it closes the file once.
    """
    held = subprocess.Popen(
        [sys.executable, "-c", _HOLD, str(folder / paths.LOCK)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert held.stdin is not None and held.stdout is not None
    with held.stdout as said:
        said.readline()
    return held.stdin


_ELSEWHERE: Final[dict[str, Callable[[Started], IO[bytes] | None]]] = {
    "the metadata log elsewhere": _elsewhere(lambda *_: None),
    "the metadata log elsewhere, which is not named": _elsewhere(lambda *_: None, named=False),
    "the metadata log elsewhere: no meta.properties": _elsewhere(lambda _, m: _unformat(m)),
    "the metadata log elsewhere: meta.properties of version 7": _elsewhere(
        lambda _, m: _newer_properties(m)
    ),
    "the metadata log elsewhere: another cluster": _elsewhere(
        lambda _, m: set_property(m, "cluster.id", "another-cluster-of-22-c")
    ),
    "the metadata log elsewhere: another node": _elsewhere(
        lambda _, m: set_property(m, "node.id", "77")
    ),
    "the metadata log elsewhere: a directory id alike": _elsewhere(
        lambda b, m: (
            [set_property(d, "directory.id", "dGhlLXNhbWUtZGlyZWN0bw") for d in (b.root, m)]
            and None
        )
    ),
    "the metadata log elsewhere: a foreign directory": _elsewhere(
        lambda _, m: (m / "lost+found").mkdir()
    ),
    "the metadata log elsewhere: locked": _elsewhere(lambda _, m: _lock(m)),
    "the metadata log elsewhere: another in a log directory": _elsewhere(
        lambda b, m: (
            shutil.copytree(m / paths.CLUSTER_METADATA, b.root / paths.CLUSTER_METADATA) and None
        )
    ),
    "the metadata log elsewhere: no meta.properties in the first log directory": _elsewhere(
        lambda b, _: _unformat(b.root)
    ),
    "the metadata log elsewhere: no meta.properties in log directories": _elsewhere(
        _in_all(_unformat)
    ),
    "the metadata log elsewhere: version 7 in log directories": _elsewhere(
        _in_all(_newer_properties)
    ),
    "the metadata log elsewhere: recovery points cut off": _elsewhere(
        lambda b, _: _cut_points(b.root)
    ),
    "the metadata log elsewhere: all recovery points cut off": _elsewhere(_in_all(_cut_points)),
    "two metadata logs": _metadata_twice,
    "the metadata log in the second directory": _metadata_in_the_second,
}
_WAYS: Final[dict[str, Callable[[Started], IO[bytes] | None]]] = {
    "foreign directory": _made("backup"),
    "lost+found": _made("lost+found"),
    "a partition without a number": _made("topic-x"),
    "a name that begins with a dash": _made("-0"),
    "a second dash": _made("topic--1"),
    "deleted": _renamed("delete"),
    "future": _renamed("future"),
    "stray": _renamed("stray"),
    "a future replica beside its own": _beside_its_future(),
    "a future replica of another topic": _beside_its_future(other_id="AAAAAAAAAAAAAAAAAAAAAw"),
    "a directory for the only log": _directory_for_the_only_log,
    "a directory for the first log": _directory_for(paths.LOG),
    "a directory for an index": _directory_for(paths.OFFSET_INDEX),
    "a directory for an index of transactions": _directory_for(paths.TXN_INDEX),
    "a directory for a snapshot": _directory_for(paths.SNAPSHOT),
    "cluster": _cluster,
    "node": lambda broker: set_property(broker.root, _node(broker), "77"),
    "two clusters": _two("cluster.id", "another-cluster-of-22-c"),
    "two nodes": _two("node", "77"),
    "two directory ids alike": _same_directory_id,
    "a reserved directory id": lambda broker: set_property(
        broker.root, "directory.id", "AAAAAAAAAAAAAAAAAAAAAQ"
    ),
    "a partition twice": _duplicate,
    "meta.properties without version": lambda broker: set_property(broker.root, "version", None),
    "meta.properties of version 7": lambda broker: set_property(broker.root, "version", "7"),
    "meta.properties with a node that is no number": lambda b: set_property(b.root, _node(b), "one"),
    "no meta.properties": lambda broker: (broker.root / paths.META_PROPERTIES).unlink(),
    "no meta.properties in the first directory": _without_properties(first=True),
    "no meta.properties in the second directory": _without_properties(first=False),
    "an empty second directory": _empty_second,
    "locked": _locked,
    "recovery points cut off": _write(paths.RECOVERY_POINT, "0\n5\na 0 1\n"),
    "recovery points of version 9": _write(paths.RECOVERY_POINT, "9\n0\n"),
    "recovery points of noise": _write(paths.RECOVERY_POINT, "0\n1\na b c d\n"),
    "log starts cut off": _write(paths.LOG_START, "0\n5\na 0 1\n"),
    "high watermarks of noise": _write(paths.HIGH_WATERMARK, "0\n1\na 0\n"),
    "recovery points with a letter": _write(paths.RECOVERY_POINT, "0\n1\na 0 x\n"),
    "log starts with a letter": _write(paths.LOG_START, "0\n1\na 0 x\n"),
    "high watermarks with a letter": _write(paths.HIGH_WATERMARK, "0\n1\na 0 x\n"),
    "recovery points of one directory": _write_second(paths.RECOVERY_POINT, "0\n1\na 0\n"),
    "leader epochs with a letter": _epochs("0\n1\nx 0\n", beside=True),
    "leader epochs cut off": _epochs("0\n2\n0 0\n", beside=True),
    "an empty topic id": _topic_id(""),
    "a topic id of zeros": _topic_id("\0" * 44),
    "a topic id cut off": _topic_id("version: 0\ntopic_id: cTgsDqA2Toqwdh3N"),
    "a topic id of version 9": _topic_id("version: 9\ntopic_id: cTgsDqA2Toqwdh3Nb7RKmg"),
    "leader epochs cut off in the first directory": _epochs("0\n2\n0 0\n", beside=False),
    **IN_PLACE,
    **_ELSEWHERE,
}  # fmt: skip
"""Damages of a root, by name. What they return is held open until the end of the start."""
