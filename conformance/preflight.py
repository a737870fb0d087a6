"""Compare preflight's predictions with Kafka's loaders and real brokers, on random damages.

scripts/conformance preflight           200 loads of 4.3.1 and 2.8.2 by Kafka's own classes; one
                                        real start of each on 20 damaged partitions, 2 refusals
scripts/conformance preflight --full    2000 loads; 300 partitions and 80 refusals, also of 3.9.1
                                        (with KRaft, with ZooKeeper) and 4.1.0
scripts/conformance preflight --full 4.1.0     of these versions only
scripts/conformance preflight --full --refusals 3.9.1    only its starts that are meant to be refused
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any, Final

from conformance.damaged_partitions import Damaged, damaged
from conformance.judge import Judge
from conformance.refused import REFUSED, compare_refusals, is_said
from conformance.soak import settings
from conformance.started import (
    RELEASES,
    STARTED,
    Release,
    compare_start,
    names_after,
    segment_files,
)
from conformance.tally import Tally
from kafkats.evidence.claims import Claims
from kafkats.logdir.partition import scan_partition
from kafkats.recovery.facts import PartitionStart
from kafkats.recovery.partition_start import predict
from kafkats.recovery.rules import start_rule
from tests.golden import Unpacked

LOADED: Final = "a load of a damaged partition ends as predicted"
_JUDGED: Final = ("4.3.1", "2.8.2")
_LOADS: Final = {False: 200, True: 2000}
_PARTITIONS: Final = {False: 20, True: 300}
_REFUSALS: Final = {False: 2, True: 80}
_AT_ONCE: Final = 30
"""Partitions of one start; the golden root knows 37 topics."""


def conform(tally: Tally, work: Path) -> None:
    (work / "golden").mkdir()
    unpacked = Unpacked(work / "golden")
    for version in () if settings.refusals else filter(_wanted, _JUDGED):
        _compare_loads(version, unpacked, tally, work / f"loads-{version}")
    for release in RELEASES:
        if _wanted(release.version) and (settings.full or release.version in _JUDGED):
            folder = work / "starts"
            folder.mkdir()
            _compare_broker(release, unpacked, tally, folder)
            shutil.rmtree(folder)


def _wanted(version: str) -> bool:
    return not settings.versions or version in settings.versions


def _compare_broker(release: Release, unpacked: Unpacked, tally: Tally, folder: Path) -> None:
    version, wanted = release.version, _REFUSALS[settings.full]
    if not settings.refusals:
        for number, some in enumerate(_batches(version, unpacked, folder)):
            compare_start(release, number, some, unpacked, tally, folder)
        tally.expect(STARTED, str(release), _PARTITIONS[settings.full])

    def stops(number: int) -> bool:
        one = damaged(version, number, unpacked, folder / "tried" / "p-0")
        outcome = _predicted(one, version, clean=True).outcome
        shutil.rmtree(folder / "tried")
        return outcome in ("stops", "offline")

    compare_refusals(release, wanted, stops, unpacked, tally, folder)
    tally.expect(REFUSED, str(release), wanted)


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
            heard = _heard(answer, version, _of_copy(ours.words, work))
            told = _told(ours, one.directory, work) if ours.outcome != "unknown" else heard
            tally.same(LOADED, version, "random", what, told, heard)
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


def _of_copy(words: str, work: Path) -> str:
    """Return words about the damaged partition as words about its copy, which is loaded."""
    return words.replace(f"{work}/one/", f"{work}/out/")


def _told(start: PartitionStart, directory: Path, work: Path) -> tuple[object, ...]:
    if start.outcome != "loads":
        return start.outcome, _of_copy(start.words, work)
    names = names_after({f.name for f in directory.iterdir()}, start)
    return start.log_start_offset, start.log_end_offset, sorted(segment_files(names))


def _heard(answer: dict[str, Any], version: str, words: str) -> tuple[object, ...]:
    """Return the result of a load; `words` are the predicted ones, which an error should have.

    LogManager takes a log directory offline for an IOException, from 3.7 on also for one that is
    the cause of another error, and stops for any other.
    """
    if "error" in answer:
        cause = str(answer.get("cause", ""))
        errors = [answer["error"], *([cause] if start_rule(version).epochs == "offline" else [])]
        outcome = "offline" if any(_is_io(error) for error in errors) else "stops"
        message = f"{answer['error']}: {answer['message']}: {cause}"
        return outcome, words if is_said(words, message) else message
    files = sorted(segment_files(answer["files"]))
    return answer["log_start_offset"], answer["log_end_offset"], files


def _is_io(error: str) -> bool:
    return error.partition(":")[0] in ("java.io.IOException", "java.io.FileNotFoundException")


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
