"""A killed broker's directory, recovered by the broker itself and by kafkats, must be the same log.

    scripts/conformance recover

A kill tears nothing, so a loss of power is imitated: the last bytes of every fifth log are cut,
zeroed or replaced, and some snapshots are emptied. Then one copy is started as it is. The other one
is recovered first; its broker must recover one empty segment of each partition, at the log end.
"""

from __future__ import annotations

import contextlib
import io
import os
import random
import re
import shutil
import time
from pathlib import Path
from typing import Final

from conformance.soaked import Broker, Writers
from conformance.tally import Tally
from kafkats import paths
from kafkats.cli.command import cli
from kafkats.errors import KafkatsError
from kafkats.logdir.checkpoints import read_epochs
from kafkats.logdir.partition import log_bases
from kafkats.logdir.snapshot import read_snapshot

VERSIONS: Final = ("4.3.1", "2.8.2")
SECONDS: Final = 20
LOGS: Final = "the recovered logs are those of the broker's own recovery, to the byte"
STATE: Final = "leader epochs and producers at the log end are those of the broker's own recovery"
ONCE: Final = "the broker recovers one segment of each partition: the empty one at the log end"
BACK: Final = "after the broker's start an undo is refused as a whole"
_RECOVERING: Final = re.compile(r"partition=(\S+), .*Recovering unflushed segment (\d+)")
_INTERNAL: Final = ("__consumer_offsets", "__transaction_state")
"""Coordinators write at a start."""


def conform(tally: Tally, work: Path) -> None:
    for version in VERSIONS:
        broker = Broker(version, work / version, level="info")
        try:
            _killed(broker)
            _compare(broker, tally)
        finally:
            broker.close()
            shutil.rmtree(broker.work, ignore_errors=True)


def _killed(broker: Broker) -> None:
    """Leave what a loss of power under load leaves."""
    broker.start()
    writers = Writers(broker)
    try:
        writers.wait_until_all_topics_are_there()
        time.sleep(SECONDS)
        broker.kill()
    finally:
        writers.end()
    dice = random.Random(5)
    for number, directory in enumerate(_partitions(broker.root)):
        log = directory / paths.segment_file(log_bases(directory)[-1], paths.LOG)
        if number % 5 == 0 and not directory.name.startswith("preallocated"):
            _tear(log, dice)
        for snapshot in [*directory.glob(f"*{paths.SNAPSHOT}")][number % 3 :: 3]:
            os.truncate(snapshot, 0)


def _tear(log: Path, dice: random.Random) -> None:
    size = log.stat().st_size
    lost = min(dice.randrange(1, 4097), size)
    with log.open("r+b") as file:
        file.seek(size - lost)
        file.write(dice.choice((b"", bytes(lost), dice.randbytes(lost))))
        if file.tell() < size:
            file.truncate()


def _compare(broker: Broker, tally: Tally) -> None:
    kept, theirs, plan = (broker.work / name for name in ("kept", "theirs", "plan"))
    shutil.copytree(broker.root, kept)
    _started(broker)
    shutil.copytree(broker.root, theirs)
    shutil.rmtree(broker.root)
    shutil.copytree(kept, broker.root)
    for words in (
        ("plan", "recover", broker.root, "-o", plan, "--accept-loss", "offsets"),
        ("apply", plan, "--digest", "any"),
    ):
        code = _kafkats(*words)
        tally.same(LOGS, broker.version, str(words[0]), f"exit code of {words[0]}", code, 0)
    ends = {path.name: log_bases(path)[-1] for path in _partitions(broker.root)}
    said = _started(broker)
    if said:  # from 4.0 on
        found = _RECOVERING.findall(said)
        ours = sorted((name, int(base)) for name, base in found if name in ends)
        tally.same(ONCE, broker.version, "log", "recovered", ours, sorted(ends.items()))
        tally.expect(ONCE, broker.version)
    for directory in _partitions(broker.root):
        if (
            directory.name.rpartition("-")[0] not in _INTERNAL
            and (theirs / directory.name).is_dir()
        ):
            _same(directory, theirs / directory.name, ends[directory.name], broker, tally)
    tally.expect(LOGS, broker.version, at_least=10)
    tally.expect(STATE, broker.version, at_least=20)
    code = _kafkats("undo", f"{plan}.run")
    tally.same(BACK, broker.version, "undo", "exit code of undo", code, 3)


def _kafkats(*words: object) -> int:
    """Run a command and return its exit code; what it prints is dropped."""
    with contextlib.redirect_stdout(io.StringIO()):
        try:
            code = cli.main(args=[*map(str, words)], prog_name="kafkats", standalone_mode=False)
        except KafkatsError as e:
            return e.exit_code
    return int(code or 0)


def _started(broker: Broker) -> str:
    """Start the broker at rest and stop it; returns what it said of its loading."""
    (broker.work / "broker.out").write_bytes(b"")
    broker.start(at_rest=True)
    broker.stop()
    said = (broker.work / "broker.out").read_text(errors="replace")
    return said if "UnifiedLog" in said else ""


def _same(ours: Path, theirs: Path, end: int, broker: Broker, tally: Tally) -> None:
    name, version = ours.name, broker.version
    tally.same(LOGS, version, "log", name, _log(ours) == _log(theirs), True)
    epochs = [
        [e for e in read_epochs(where / paths.LEADER_EPOCH) if e.start_offset < end]
        for where in (ours, theirs)
    ]
    tally.same(STATE, version, "epochs", name, *epochs)
    snapshot = paths.segment_file(end, paths.SNAPSHOT)
    producers = [{*read_snapshot(where / snapshot)} for where in (ours, theirs)]
    tally.same(STATE, version, "producers", name, *producers)


def _log(directory: Path) -> dict[int, bytes]:
    """The logs by base offset, without those that are empty."""
    logs = {b: directory / paths.segment_file(b, paths.LOG) for b in log_bases(directory)}
    return {base: data for base, log in logs.items() if (data := log.read_bytes())}


def _partitions(root: Path) -> list[Path]:
    """The partitions that a broker has, without the metadata log and topics being deleted."""
    return sorted(
        path
        for path in root.iterdir()
        if path.is_dir() and paths.parse_partition(path.name) and "." not in path.name
        if path.name != paths.CLUSTER_METADATA and log_bases(path)
    )
