"""Compare preflight's predictions with Kafka's loaders and real brokers, on random damages.

    scripts/conformance preflight           200 loads of 4.3.1 and 2.8.2 by Kafka's own classes; one
                                            real start of each on 20 damaged partitions, 2 refusals
    scripts/conformance preflight --full    2000 loads; 300 partitions and 30 refusals, also of 3.9.1
                                            and 4.1.0

A real start is compared after its clean stop: the recovery points are the log ends then.
"""

from __future__ import annotations

import shutil
import socket
import struct
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any, Final

from conformance.damaged_partitions import Damaged, damaged
from conformance.judge import Judge
from conformance.soak import settings
from conformance.soaked import START_S, Broker, until
from conformance.tally import Tally
from kafkats import paths
from kafkats.evidence.claims import Claims
from kafkats.execution import LocalExecutor
from kafkats.logdir.checkpoints import encode_offsets, read_offsets
from kafkats.logdir.partition import scan_partition
from kafkats.paths import PartitionName
from kafkats.recovery.facts import PartitionStart
from kafkats.recovery.partition_start import predict
from kafkats.recovery.rules import start_rule
from kafkats.recovery.start import predict_start
from tests.golden import Unpacked

LOADED: Final = "a load of a damaged partition ends as predicted"
STARTED: Final = "a real broker starts, and its logs end as predicted"
REFUSED: Final = "a real broker does not start, as predicted"
_JUDGED: Final = ("4.3.1", "2.8.2")
_ALL: Final = ("4.3.1", "4.1.0", "3.9.1", "2.8.2")
_LOADS: Final = {False: 200, True: 2000}
_PARTITIONS: Final = {False: 20, True: 300}
_REFUSALS: Final = {False: 2, True: 30}
_AT_ONCE: Final = 30
"""Partitions of one start; the golden root knows 37 topics."""
_TRIES: Final = 3
_API_VERSIONS: Final = struct.pack(">ihhih", 10, 18, 0, 1, -1)
"""Size, key, version, correlation id, no client id."""
_KINDS: Final = (".log", ".index", ".timeindex", ".snapshot")


def conform(tally: Tally, work: Path) -> None:
    (work / "golden").mkdir()
    unpacked = Unpacked(work / "golden")
    for version in _JUDGED:
        _compare_loads(version, unpacked, tally, work / f"loads-{version}")
    for version in _ALL if settings.full else _JUDGED:
        folder = work / f"starts-{version}"
        folder.mkdir()
        for number, some in enumerate(_batches(version, unpacked, folder)):
            _compare_start(version, number, some, unpacked, tally, folder)
        _compare_refusals(version, unpacked, tally, folder)
        tally.expect(STARTED, version, _PARTITIONS[settings.full])
        tally.expect(REFUSED, version, _REFUSALS[settings.full])


def _compare_loads(version: str, unpacked: Unpacked, tally: Tally, work: Path) -> None:
    work.mkdir()
    with Judge(version, temporary=work, log=work / "judge.log") as ask:
        for number in range(_LOADS[settings.full]):
            one = damaged(version, number, unpacked, work / "one" / "p-0")
            clean = number % 2 == 0
            ours = _predicted(one, version, clean=clean)
            newest = max(f.stat().st_mtime_ns for f in one.directory.iterdir()) // 10**6
            answer = ask(
                "load", one.directory, "--clean", str(clean).lower(), "--now", newest,
                "--recovery-point", one.recovery_point, "--log-start", one.log_start,
                "--config", f"index.interval.bytes={one.interval}", "--out", work / "out",
            )  # fmt: skip
            what = f"{number}: {one}, {'clean' if clean else 'unclean'}"
            told = _told(ours, one.directory) if ours.outcome != "unknown" else _heard(answer)
            tally.same(LOADED, version, "random", what, told, _heard(answer))
            shutil.rmtree(work / "one")
            shutil.rmtree(work / "out", ignore_errors=True)
    tally.expect(LOADED, version, _LOADS[settings.full])


def _predicted(one: Damaged, version: str, *, clean: bool) -> PartitionStart:
    claims = Claims(
        recovery_point=one.recovery_point, log_start=one.log_start, rooted=True, clean=clean
    )
    partition = scan_partition(one.directory)
    rule = start_rule(version)
    return predict(
        partition, claims, rule, log_dir=str(one.directory.parent), interval=one.interval
    )


def _told(start: PartitionStart, directory: Path) -> tuple[object, ...]:
    if start.outcome != "loads":
        return ("throws",)
    names = names_after({f.name for f in directory.iterdir()}, start)
    return start.log_start_offset, start.log_end_offset, sorted(_segment_files(names))


def _heard(answer: dict[str, Any]) -> tuple[object, ...]:
    if "error" in answer:
        return ("throws",)
    files = sorted(_segment_files(answer["files"]))
    return answer["log_start_offset"], answer["log_end_offset"], files


def names_after(names: set[str], start: PartitionStart) -> set[str]:
    """Return the names in a partition directory after its predicted start."""
    names = names - set(start.removed) | set(start.created)
    names = names - set(start.renamed) | {f.removesuffix(".swap") for f in start.renamed}
    deleted = {f"{base:020d}" for base in start.deleted}
    kept = {f for f in names if f[:20] not in deleted or f in start.created}
    kept = {f for f in kept if not f.endswith(".snapshot")}
    return kept | {paths.segment_file(offset, paths.SNAPSHOT) for offset in start.snapshots}


def _segment_files(names: Any) -> Iterator[str]:
    return (name for name in names if name[20:21] == "." and name.endswith(_KINDS))


def _batches(version: str, unpacked: Unpacked, work: Path) -> Iterator[list[int]]:
    """Yield the numbers of damages that are predicted to load, so many per start."""
    left = _PARTITIONS[settings.full]
    found: list[int] = []
    for number in count(10_000):
        if left <= 0:
            return
        one = damaged(version, number, unpacked, work / "tried" / "p-0")
        both = [_predicted(one, version, clean=clean).outcome for clean in (True, False)]
        shutil.rmtree(work / "tried")
        if both == ["loads", "loads"]:
            found.append(number)
        if len(found) == min(_AT_ONCE, left):
            yield found
            left -= len(found)
            found = []


def _compare_start(
    version: str, turn: int, numbers: list[int], unpacked: Unpacked, tally: Tally, work: Path
) -> None:
    """Start a broker on damaged partitions, stop it, and compare log ends, logs and sizes."""
    for _ in range(_TRIES):
        with _Started(version, work / "start") as broker:
            ones = _fill(broker.root, version, numbers, unpacked, clean=turn % 2 == 0)
            with LocalExecutor(1) as executor:
                start = predict_start(executor, [broker.root], version)
            predicted = {
                p.partition_dir: _in_numbers(p, broker.root / p.partition_dir)
                for p in start.partitions
            }
            if broker.outcome() != "loads":
                tally.same(STARTED, version, f"start {turn}", f"{numbers}", "starts", broker.said())
                return
            # Only a stop after a whole start writes the marker and the log ends.
            if (broker.root / paths.CLEAN_SHUTDOWN).exists():
                _compare_ends(broker, turn, ones, predicted, tally)
                return
    tally.differs(f"{STARTED}, Kafka {version}: no clean stop in {_TRIES} tries")


def _compare_ends(
    broker: _Started,
    turn: int,
    ones: dict[str, Damaged],
    predicted: dict[str, tuple[int, list[str], dict[str, int]]],
    tally: Tally,
) -> None:
    ends = read_offsets(broker.root / paths.RECOVERY_POINT)
    for name, one in ones.items():
        ours = predicted[name]
        theirs = _on_disk(broker.root / name, ends, ours[2])
        tally.same(STARTED, broker.version, f"start {turn}", f"{name}: {one}", ours, theirs)


def _in_numbers(start: PartitionStart, directory: Path) -> tuple[int, list[str], dict[str, int]]:
    """Return the log end, the logs after the start, and the sizes of recovered logs."""
    names = names_after({f.name for f in directory.iterdir()}, start)
    sizes = {paths.segment_file(r.base_offset, paths.LOG): r.cut_to for r in start.recovered}
    for base in start.deleted:
        sizes.pop(paths.segment_file(base, paths.LOG), None)
    logs = sorted(name for name in _segment_files(names) if name.endswith(paths.LOG))
    return start.log_end_offset, logs, sizes


def _on_disk(
    directory: Path, ends: dict[PartitionName, int], asked: dict[str, int]
) -> tuple[int, list[str], dict[str, int]]:
    name = paths.parse_partition(directory.name)
    assert name is not None
    logs = {f.name: f.stat().st_size for f in directory.iterdir() if f.suffix == paths.LOG}
    return ends.get(name, -1), sorted(logs), {log: logs.get(log, -1) for log in asked}


def _compare_refusals(version: str, unpacked: Unpacked, tally: Tally, work: Path) -> None:
    """Start a broker on single damages that are predicted to stop it."""
    left = _REFUSALS[settings.full]
    for number in count(20_000):
        if not left:
            return
        one = damaged(version, number, unpacked, work / "tried" / "p-0")
        outcome = _predicted(one, version, clean=True).outcome
        shutil.rmtree(work / "tried")
        if outcome in ("stops", "offline"):
            left -= 1
            _compare_refusal(version, number, unpacked, tally, work / "refused")


def _compare_refusal(
    version: str, number: int, unpacked: Unpacked, tally: Tally, work: Path
) -> None:
    with _Started(version, work) as broker:
        ones = _fill(broker.root, version, [number], unpacked, clean=True)
        with LocalExecutor(1) as executor:
            ours = predict_start(executor, [broker.root], version)
        what = f"number {number}: {next(iter(ones.values()))}; {'; '.join(ours.words)}"
        tally.same(REFUSED, version, "random", what, ours.outcome, broker.outcome())


def _fill(
    root: Path, version: str, numbers: list[int], unpacked: Unpacked, *, clean: bool
) -> dict[str, Damaged]:
    """Make `root` the golden one with the damaged partitions in the place of its topics."""
    source = unpacked(f"clean-start-{version}", "before")
    topics = [p.name for p in sorted(source.iterdir()) if p.is_dir() and p.name[:2] != "__"]
    shutil.copytree(source, root, ignore=shutil.ignore_patterns(*topics, "log-start-*", ".lock"))
    if not clean:
        (root / paths.CLEAN_SHUTDOWN).unlink()
    if version == "2.8.2":  # the cluster's id is the new ZooKeeper's
        meta = (root / paths.META_PROPERTIES).read_text().splitlines()
        kept = [line for line in meta if not line.startswith("cluster.id")]
        (root / paths.META_PROPERTIES).write_text("\n".join(kept) + "\n")
    ones = {}
    for name, number in zip(topics, numbers, strict=False):
        to = root / name
        ones[name] = damaged(version, number, unpacked, to, keep=(paths.PARTITION_METADATA,))
        known = source / name / paths.PARTITION_METADATA
        if known.exists():
            shutil.copy2(known, to)
    _write_checkpoints(root, ones)
    return ones


def _write_checkpoints(root: Path, ones: dict[str, Damaged]) -> None:
    names = {name: paths.parse_partition(name) for name in ones}
    points = {names[n]: one.recovery_point for n, one in ones.items()}
    starts = {names[n]: one.log_start for n, one in ones.items() if one.log_start}
    for file, offsets in ((paths.RECOVERY_POINT, points), (paths.LOG_START, starts)):
        known = {name: offset for name, offset in offsets.items() if name is not None}
        (root / file).write_bytes(encode_offsets(known))
    (root / paths.HIGH_WATERMARK).unlink(missing_ok=True)
    (root / paths.CLEANER).unlink(missing_ok=True)


class _Started(Broker):
    """A broker on a golden root of its version, with the metadata log in it, ended at the end."""

    def __init__(self, version: str, work: Path) -> None:
        shutil.rmtree(work, ignore_errors=True)
        super().__init__(version, work)

    def __enter__(self) -> _Started:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()
        shutil.rmtree(self.work, ignore_errors=True)

    @property
    def kraft(self) -> bool:
        return self.version != "2.8.2"

    def outcome(self) -> str:
        """Start it, and stop it. Returns `loads`, or `stops` if it ended by itself."""
        try:
            self.start(at_rest=True)
            until(self._ended_or_answers, START_S, "the broker did not answer")
        except RuntimeError:
            return "stops"
        if self._process is not None and self._process.poll() is not None:
            return "stops"
        self.stop()
        return "loads"

    def said(self) -> str:
        return self._said("broker")

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
        return own | {"log.retention.ms": -1}
