"""Compare recoveries by kafkats with those of Kafka's own loaders, on directories with random damages.

scripts/conformance losses           60 damaged partitions for each version
scripts/conformance losses --full    1000 for each, beginning at a number that nobody chose

A recovery that is not blocked must end as Kafka's own one: log start, log end, and every byte of the
logs. So nothing is lost without a word that a broker would keep.
"""

from __future__ import annotations

import secrets
import shutil
from pathlib import Path
from typing import Any, Final

from conformance.damaged_partitions import Damaged, damaged
from conformance.judge import Judge
from conformance.soak import settings
from conformance.tally import Tally
from kafkats import paths
from kafkats.config import Policy
from kafkats.execution import LocalExecutor
from kafkats.flow.looking import LogStages
from kafkats.logdir.checkpoints import encode_offsets, read_offsets
from kafkats.logdir.partition import log_bases
from kafkats.paths import PartitionName
from kafkats.plans.operation import Planned
from kafkats.plans.units import list_units
from kafkats.recovery.look import RecoverOptions
from kafkats.recovery.plan import look_and_plan
from tests.builders.operations import applied_rows
from tests.golden import Unpacked

ENDS: Final = "a recovery that is not blocked ends as the broker's own"
AGAIN: Final = "after a recovery there is nothing left to plan"
_JUDGED: Final = ("4.3.1", "2.8.2")
_LOADS: Final = {False: 60, True: 1000}
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
    with Judge(version, temporary=work, log=work / f"judge-{version}.log") as ask:
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


def _plan(root: Path, one: Damaged, *, like_kafka: bool) -> Planned:
    accept = ("offsets",) if like_kafka else ()
    options = RecoverOptions("last-offset", "*", like_kafka, accept)
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
