"""Compare recoveries by kafkats with those of Kafka's own loaders, on directories with random damages.

scripts/conformance losses           40 damaged partitions for each version
scripts/conformance losses --full    1000 for each, beginning at a number that nobody chose

A recovery that is not blocked must end as Kafka's own one: log start, log end, and every byte of the
logs. So nothing is lost without a word that a broker would keep. What Kafka's own load loses of the
undamaged partition, preflight and the plan must name, if any file knows of it.
"""

from __future__ import annotations

import secrets
import shutil
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from conformance.damaged_partitions import Damaged, damaged
from conformance.judge import Judge
from conformance.soak import settings
from conformance.tally import Tally
from kafkats import paths
from kafkats.config.policy import Policy
from kafkats.execution.local import LocalExecutor
from kafkats.flow.looking import LogStages
from kafkats.logdir.checkpoints import encode_offsets, read_offsets
from kafkats.logdir.partition import log_bases
from kafkats.paths import PartitionName
from kafkats.plans.operation import Planned
from kafkats.plans.units import list_units
from kafkats.recovery.look import RecoverOptions
from kafkats.recovery.plan import look_and_plan
from kafkats.recovery.start import predict_start
from tests.builders.operations import applied_rows
from tests.golden import Unpacked

ENDS: Final = "a recovery that is not blocked ends as the broker's own"
AGAIN: Final = "after a recovery there is nothing left to plan"
SILENT: Final = "what a broker's load loses is named before it"
_JUDGED: Final = {"4.3.1": (), "3.9.1": ("load",), "2.8.2": ()}
"""The versions, and the words by which the judge serves them."""
_LOADS: Final = {False: 40, True: 1000}
_BLOCKED: Final = 0.8
"""If more are blocked, the comparison says little."""
_P: Final = PartitionName("p", 0, "")


def conform(tally: Tally, work: Path) -> None:
    (work / "golden").mkdir()
    unpacked = Unpacked(work / "golden")
    begin = secrets.randbelow(10**9) if settings.full else 0
    for version in _JUDGED:
        if not settings.versions or version in settings.versions:
            tally.console.print(f"  {version}: damages from number {begin} on")
            _compare(version, range(begin, begin + _LOADS[settings.full]), unpacked, tally, work)


def _compare(version: str, numbers: range, unpacked: Unpacked, tally: Tally, work: Path) -> None:
    blocked = {False: 0, True: 0}
    log = work / f"judge-{version}.log"
    with Judge(version, *_JUDGED[version], temporary=work, log=log) as ask:
        for number in numbers:
            for like_kafka in (False, True):
                try:
                    done = _compare_one(version, number, unpacked, tally, work, ask, like_kafka)
                except Exception as e:
                    tally.differs(f"{ENDS}, Kafka {version}, {number}, {like_kafka}: {e!r}")
                    done = True
                blocked[like_kafka] += not done
                shutil.rmtree(work / "one")
                for left in (work / "theirs", work / "ours"):
                    shutil.rmtree(left, ignore_errors=True)
    for like_kafka, count in blocked.items():
        words = "with --like-kafka and --accept-loss" if like_kafka else "without options"
        tally.console.print(f"  {version}: {count} of {len(numbers)} blocked {words}")
    tally.expect(ENDS, version, int(len(numbers) * 2 * (1 - _BLOCKED)))


def _compare_one(
    version: str, number: int, unpacked: Unpacked, tally: Tally, work: Path, ask: Judge,
    like_kafka: bool,
) -> bool:  # fmt: skip
    """Return False for a blocked recovery."""
    root = work / "one" / "data"
    one = damaged(version, number, unpacked, root / "p-0")
    point, start = max(one.recovery_point, 0), max(one.log_start, 0)
    (root / paths.META_PROPERTIES).write_text("version=0\nbroker.id=1\n")
    (root / paths.RECOVERY_POINT).write_bytes(encode_offsets({_P: point}))
    (root / paths.LOG_START).write_bytes(encode_offsets({_P: start} if start else {}))
    newest = max(f.stat().st_mtime_ns for f in one.directory.iterdir()) // 10**6
    swaps = len(list(one.directory.glob("*.log.swap")))
    theirs = _loaded(ask, one, point, newest, work / "theirs")
    plan = _plan(root, one, like_kafka=like_kafka)
    if plan.plan.blocked:
        return False
    if theirs is not None and not like_kafka:
        lost = lost_batches(one.source, theirs)
        if lost:
            named = _names_a_loss(root, one, plan) or not knows_of(one.directory, theirs[1])
            tally.same(SILENT, version, "random", f"{number}: {one}, lost {lost}", named, True)
    outcomes = set(applied_rows(plan.plan)["outcome"].to_pylist())
    point = read_offsets(root / paths.RECOVERY_POINT).get(_P, 0)
    ours = _loaded(ask, one, point, newest, work / "ours")
    if swaps > 1 and ours and theirs:  # a broker deletes what lies between two replacements
        ours = (*ours[:2], {base: ours[2].get(base, b"") for base in theirs[2]})
    what = f"{number}{' like Kafka' if like_kafka else ''}: {one}"
    if theirs is not None:  # otherwise a broker does not load it, and may after the recovery
        tally.same(ENDS, version, "random", what, ours, theirs)
    else:
        tally.same(ENDS, version, "refused before", what, ours is not None, True)
    if outcomes <= {"done", "nothing"}:
        left = _plan(root, one, like_kafka=like_kafka).plan.items["file"].to_pylist()
        tally.same(AGAIN, version, "random", what, left, [])
    else:
        tally.differs(f"{AGAIN}, Kafka {version}, {what}: {outcomes}")
    return True


def lost_batches(source: Path, theirs: tuple[int, int, dict[int, bytes]]) -> list[int]:
    """Return the last offsets of the batches of a sound partition that a broker's load lost."""
    start, _, logs = theirs
    left = {offset for data in logs.values() for offset in _last_offsets(data)}
    sound = [offset for log in source.glob("*.log") for offset in _last_offsets(log.read_bytes())]
    return sorted(offset for offset in sound if offset >= start and offset not in left)


def _last_offsets(data: bytes) -> Iterator[int]:
    position = 0
    while position + 27 <= len(data):
        offset, size = struct.unpack_from(">qi", data, position)
        if size <= 0:
            return  # zeros of a preallocated file
        newer = data[position + 16] >= 2
        yield offset + (struct.unpack_from(">i", data, position + 23)[0] if newer else 0)
        position += 12 + size


def knows_of(directory: Path, log_end: int) -> bool:
    """Return whether a file names an offset at or above `log_end`: a snapshot, or the last log's index."""
    if any(int(snapshot.stem) > log_end for snapshot in directory.glob("[0-9]*.snapshot")):
        return True
    last = max(log_bases(directory), default=0)
    index = directory / paths.segment_file(last, paths.OFFSET_INDEX)
    data = index.read_bytes() if index.exists() else b""
    relative = (
        struct.unpack_from(">i", data, len(data) - 8)[0] if len(data) % 8 == 0 < len(data) else -1
    )
    return relative > 0 and log_end <= last + relative < log_end + 1000


def _names_a_loss(root: Path, one: Damaged, plan: Planned) -> bool:
    """Return whether both name it: an end that moves back, or bytes that are cut or deleted."""
    [start] = predict_start(LocalExecutor(1), [root], "4.3", interval=one.interval).partitions
    rows = plan.beside["recovery"].to_pylist()
    named = [bool(row["lost"] or row["cut_bytes"] or row["dropped_segments"]) for row in rows]
    return any(named) and (start.loses or start.cut_bytes > 0)


def _plan(root: Path, one: Damaged, *, like_kafka: bool) -> Planned:
    accept = ("offsets",) if like_kafka else ()
    options = RecoverOptions(like_kafka=like_kafka, accept_loss=accept)
    policy = Policy.model_validate({"defaults": {"index.interval.bytes": one.interval}})
    return look_and_plan(LogStages(LocalExecutor(1)), list(list_units([root])), policy, options)


def _loaded(
    ask: Judge, one: Damaged, point: int, now: int, out: Path
) -> tuple[int, int, dict[int, bytes]] | None:
    """Return log start, log end and the logs with bytes after a load by Kafka; None for an error."""
    answer: dict[str, Any] = ask(
        "load", one.directory, "--clean", "false", "--now", now, "--recovery-point", point,
        "--log-start", one.log_start, "--config", f"index.interval.bytes={one.interval}",
        "--out", out,
    )  # fmt: skip
    found = None
    if "error" not in answer:
        [directory] = [p for p in (out, *out.iterdir()) if p.is_dir() and any(p.glob("*.log"))][:1]
        logs = {
            base: directory / paths.segment_file(base, paths.LOG) for base in log_bases(directory)
        }
        bytes_of = {base: data for base, log in logs.items() if (data := log.read_bytes())}
        found = answer["log_start_offset"], answer["log_end_offset"], bytes_of
    shutil.rmtree(out, ignore_errors=True)
    return found
