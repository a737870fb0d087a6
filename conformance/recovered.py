"""A killed broker's directory, recovered by the broker itself and by kafkats, must be the same log.

    scripts/conformance recover           4.3.1 and 2.8.2
    scripts/conformance recover --full    also 4.1.0 and 3.9.1

A kill tears nothing, so a loss of power is imitated: the last bytes of every fifth log are cut, zeroed or replaced,
and some snapshots and indexes are emptied. Then one copy is recovered by kafkats before its broker starts: that broker
must recover one empty segment of each partition, at the log end, and load the producers from the snapshot there. The
other copy is started as it is. Both brokers get the same requests of producers that wrote before the kill.

Before that the newest of them is stopped cleanly, and a log is torn beside its marker (`marked`).
"""

from __future__ import annotations

import asyncio
import contextlib
import io
import os
import random
import re
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

from conformance import marked, page_cache, producer_state
from conformance.producer_state import Known, Told
from conformance.soak import settings
from conformance.soaked import START_S, STARTED, Broker, Writers, until
from conformance.tally import Tally
from kafkats import paths
from kafkats.cli.command import cli
from kafkats.errors import KafkatsError
from kafkats.formats import dispatch
from kafkats.logdir.checkpoints import read_epochs
from kafkats.logdir.partition import log_bases
from kafkats.logdir.snapshot import read_snapshot

VERSIONS: Final = {False: ("4.3.1", "2.8.2"), True: ("4.3.1", "4.1.0", "3.9.1", "2.8.2")}
SECONDS: Final = 10
LOGS: Final = "the recovered logs are those of the broker's own recovery, to the byte"
STATE: Final = "leader epochs and producers at the log end are those of the broker's own recovery"
ONCE: Final = "the broker recovers one segment of each partition: the empty one at the log end"
LOADED: Final = "the broker loads producers from the snapshot at the log end"
READ: Final = "a broker that starts after kafkats has read at most 1 % of the logs"
ANSWERED: Final = "both brokers give the same answers to the producers from before the kill"
BACK: Final = "after the broker's start an undo is refused as a whole"
_RECOVERING: Final = re.compile(r"partition=([^],]+).*Recovering unflushed segment (\d+)")
_LOADING: Final = re.compile(
    r"partition=([^],]+).*Loading producer state from snapshot file.*?(\d{20})\.snapshot"
)
_INTERNAL: Final = ("__consumer_offsets", "__transaction_state")
"""Coordinators write at a start."""
_PASSING: Final = "coming-"
"""Topics that may be on their way out when the broker is killed."""


class Served(NamedTuple):
    """One start of a copy."""

    root: Path
    """A copy of the partitions, made when the broker had started."""
    said: str
    read: float
    """The part of the logs that the broker has read, of 1, without those of compacted topics."""
    read_compacted: float
    """The same part of the logs of compacted topics: brokers read one of these segments sometimes."""
    told: Sequence[Told | int]
    aborted: Sequence[bool]
    """Of each producer with an open transaction: whether the abort is in the log."""


def conform(tally: Tally, work: Path) -> None:
    del work  # may lie in memory, where every file is in the page cache
    on_disk = Path(tempfile.mkdtemp(prefix="kafkats-recovered-", dir="/var/tmp"))
    try:
        _marked(on_disk / "marked", tally)
        for version in VERSIONS[settings.full]:
            broker = Broker(version, on_disk / version, level="info")
            try:
                _killed(broker)
                _compare(broker, tally)
            finally:
                broker.close()
                shutil.rmtree(broker.work, ignore_errors=True)
    finally:
        shutil.rmtree(on_disk, ignore_errors=True)


def _marked(work: Path, tally: Tally) -> None:
    broker = Broker(VERSIONS[False][0], work, level="info")
    try:
        marked.conform(broker, _start, run_command, tally)
    finally:
        broker.close()
        shutil.rmtree(work, ignore_errors=True)


def _killed(broker: Broker) -> None:
    """Leave what a loss of power under load leaves."""
    broker.start()
    writers = Writers(broker)
    try:
        writers.wait_until_all_topics_are_there()
        asyncio.run(producer_state.leave(broker.port))
        time.sleep(SECONDS)
        broker.kill()
    finally:
        writers.end()
    lose_power(broker.root, random.Random(5))


def lose_power(root: Path, dice: random.Random) -> None:
    """Damage a killed broker's directory as a loss of power does: ends of logs, snapshots, indexes."""
    for number, directory in enumerate(partitions(root)):
        log = directory / paths.segment_file(log_bases(directory)[-1], paths.LOG)
        if number % 5 == 0 and not directory.name.startswith("preallocated"):
            _tear(log, dice)
        small = [*directory.glob(f"*{paths.SNAPSHOT}"), *directory.glob(f"*{paths.OFFSET_INDEX}")]
        for file in sorted(small)[number % 3 :: 3]:
            os.truncate(file, 0)


def _tear(log: Path, dice: random.Random) -> None:
    size = log.stat().st_size
    lost = min(dice.randrange(1, 4097), size)
    with log.open("r+b") as file:
        file.seek(size - lost)
        file.write(dice.choice((b"", bytes(lost), dice.randbytes(lost))))
        if file.tell() < size:
            file.truncate()


def _compare(broker: Broker, tally: Tally) -> None:
    """Compare a recovery by kafkats with one by the broker.

    For the newest release the work area lies on another file system, as beside a mount: the broker
    starts with the kept files beside the live ones.
    """
    memory = Path("/dev/shm")
    apart = broker.version.startswith("4.3") and memory.is_dir()
    if not apart:
        _compare_with(broker, tally, ())
        return
    with tempfile.TemporaryDirectory(prefix="kafkats-work-", dir=memory) as area:
        _compare_with(broker, tally, ("--work-area", area))


def _compare_with(broker: Broker, tally: Tally, area: Sequence[str]) -> None:
    kept, plan = broker.work / "kept", broker.work / "plan"
    shutil.copytree(broker.root, kept)
    ends = _recover(broker, plan, tally, area)
    producers = producer_state.known(broker.root, ends)
    snapshots = {
        name: end for name, end in ends.items() if (_snapshot(broker.root / name, end)).exists()
    }
    ours = _served(broker, broker.work / "ours", ends, producers)
    code = run_command("undo", f"{plan}.run")
    tally.same(BACK, broker.version, "undo", "exit code of undo", code, 3)
    shutil.rmtree(broker.root)
    shutil.move(kept, broker.root)
    theirs = _served(broker, broker.work / "theirs", ends, producers)
    _compare_words(broker.version, ours.said, ends, snapshots, tally)
    _compare_reads(broker.version, ours, theirs, tally)
    _compare_answers(broker.version, ends, producers, ours, theirs, tally)
    for name in _comparable(ends):
        _same(ours.root / name, theirs.root / name, ends[name], broker, tally)
    tally.expect(LOGS, broker.version, at_least=30)
    tally.expect(STATE, broker.version, at_least=40)


def _recover(broker: Broker, plan: Path, tally: Tally, area: Sequence[str]) -> dict[str, int]:
    """Recover the directory. Return the log ends by partition directory."""
    for words in (
        ("plan", "recover", broker.root, "-o", plan, "--accept-loss", "offsets"),
        ("apply", plan, "--digest", "any", *area),
    ):
        code = run_command(*words)
        tally.same(LOGS, broker.version, str(words[0]), f"exit code of {words[0]}", code, 0)
    return {path.name: log_bases(path)[-1] for path in partitions(broker.root)}


def _comparable(ends: dict[str, int]) -> list[str]:
    return [
        name
        for name in ends
        if name.rpartition("-")[0] not in _INTERNAL and not name.startswith(_PASSING)
    ]


def _served(broker: Broker, to: Path, ends: dict[str, int], producers: Sequence[Known]) -> Served:
    """Start the broker at rest, copy what it has, ask it for its producers, and stop it."""
    said = broker.work / "broker.out"
    said.write_bytes(b"")
    logs = [log for name in _comparable(ends) for log in (broker.root / name).glob("*.log")]
    page_cache.drop(logs)
    if page_cache.cached(logs):
        raise RuntimeError(f"the kernel keeps the pages of {broker.root}: READ cannot be compared")
    _start(broker, said)
    read, read_compacted = (
        _read([log for log in logs if ("compacted" in log.parent.name) == compacted])
        for compacted in (False, True)
    )
    for name in _comparable(ends):
        _copy(broker.root / name, to / name, ends[name])
    told = [producer_state.ask(broker.port, one) for one in producers]
    broker.stop()
    aborted = [
        producer_state.aborted(broker.root / f"{one.topic}-{one.partition}", one.producer)
        for one in producers
        if one.is_open
    ]
    return Served(to, said.read_text(errors="replace"), read, read_compacted, told, aborted)


def _start(broker: Broker, said: Path) -> None:
    """Start the broker and wait for its word."""

    def started() -> bool:
        return STARTED.search(said.read_text(errors="replace")) is not None

    broker.start(at_rest=True)
    until(lambda: started() or broker.ended, START_S, f"the broker did not start: see {said}")
    if not started():
        raise RuntimeError("the broker ended:\n" + said.read_text(errors="replace")[-2000:])


def _read(logs: Sequence[Path]) -> float:
    """Return the part of these logs that is in the page cache. Some are deleted by now."""
    left = [log for log in logs if log.exists()]
    return page_cache.cached(left) / sum(log.stat().st_size for log in left)


def _copy(directory: Path, to: Path, end: int) -> None:
    """Copy the files that are compared. The broker writes and removes others meanwhile."""
    to.mkdir(parents=True)
    small = (_snapshot(directory, end), directory / paths.LEADER_EPOCH)
    for file in (*directory.glob(f"*{paths.LOG}"), *(file for file in small if file.exists())):
        shutil.copy2(file, to)


def _compare_words(
    version: str, said: str, ends: dict[str, int], snapshots: dict[str, int], tally: Tally
) -> None:
    found = [(name, int(base)) for name, base in _RECOVERING.findall(said) if name in ends]
    tally.same(ONCE, version, "start", "recovered", sorted(found), sorted(ends.items()))
    loaded = {name: int(offset) for name, offset in _LOADING.findall(said) if name in ends}
    tally.same(LOADED, version, "start", "loaded", loaded, snapshots)
    tally.expect(LOADED, version)


def _compare_reads(version: str, ours: Served, theirs: Served, tally: Tally) -> None:
    """The broker that recovers by itself reads much more: so the measure can say no."""
    tally.console.print(
        f"  {version}: of the logs were in the page cache when the broker had started:"
        f" {ours.read:.2%} after kafkats, {theirs.read:.0%} without it; of compacted topics"
        f" {ours.read_compacted:.0%} and {theirs.read_compacted:.0%}"
    )
    tally.same(READ, version, "start", "at most 1 %", ours.read <= 0.01, True)
    tally.same(READ, version, "start", "without kafkats more than 5 %", theirs.read > 0.05, True)


def _compare_answers(
    version: str,
    ends: dict[str, int],
    producers: Sequence[Known],
    ours: Served,
    theirs: Served,
    tally: Tally,
) -> None:
    before: Counter[str] = Counter()
    for one, mine, his in zip(producers, ours.told, theirs.told, strict=True):
        name = f"{one.topic}-{one.partition}"
        case = "abort" if one.is_open else "batches"
        wanted = producer_state.must_be(one, mine, ends[name] + before[name])
        before[name] += 1
        tally.same(ANSWERED, version, case, f"{name}: {one.producer}", mine, his)
        found = producer_state.as_success(mine)
        tally.same(ANSWERED, version, case, f"{name}: rules", found, wanted)
    for root in (ours, theirs):
        tally.same(ANSWERED, version, "abort", "the marker", set(root.aborted), {True})
    tally.expect(ANSWERED, version, at_least=12)


def run_command(*words: object) -> int:
    """Run a command and return its exit code. What it prints is dropped; an error is printed on stderr."""
    with contextlib.redirect_stdout(io.StringIO()):
        try:
            code = cli.main(args=[*map(str, words)], prog_name="kafkats", standalone_mode=False)
        except KafkatsError as e:
            print(f"kafkats {words[0]}: {e}", file=sys.stderr)
            return e.exit_code
    return int(code or 0)


def _same(ours: Path, theirs: Path, end: int, broker: Broker, tally: Tally) -> None:
    name, version = ours.name, broker.version
    below, new = _log(theirs, end)
    new += _log(ours, end)[1]
    tally.same(LOGS, version, "log", name, below == _log(ours, end)[0], True)
    markers = all(batch.control for batch in dispatch.batches(new))
    tally.same(LOGS, version, "log", f"{name}: only markers from its end on", markers, True)
    epochs = [
        [e for e in read_epochs(where / paths.LEADER_EPOCH) if e.start_offset < end]
        for where in (ours, theirs)
    ]
    tally.same(STATE, version, "epochs", name, *epochs)
    producers = [{*read_snapshot(_snapshot(where, end))} for where in (ours, theirs)]
    tally.same(STATE, version, "producers", name, *producers)


def _log(directory: Path, end: int) -> tuple[dict[int, bytes], bytes]:
    """Return the logs by base offset up to a log end, without empty ones, and the bytes from there on.

    A coordinator that starts may write the marker of a transaction that was about to end.
    """
    below: dict[int, bytes] = {}
    above = b""
    for base in log_bases(directory):
        data = (directory / paths.segment_file(base, paths.LOG)).read_bytes()
        at = next((b.position for b in dispatch.batches(data) if b.last_offset >= end), len(data))
        if at:
            below[base] = data[:at]
        above += data[at:]
    return below, above


def _snapshot(directory: Path, end: int) -> Path:
    return directory / paths.segment_file(end, paths.SNAPSHOT)


def partitions(root: Path) -> list[Path]:
    """The partitions that a broker has, without the metadata log and topics being deleted."""
    return sorted(
        path
        for path in root.iterdir()
        if path.is_dir() and paths.parse_partition(path.name) and "." not in path.name
        if path.name != paths.CLUSTER_METADATA and log_bases(path)
    )
