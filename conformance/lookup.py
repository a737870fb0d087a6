"""Searches by time: our answers for two generations against the broker classes of 4.3.1 and 2.8.2, and the exact ones against the records that 4.3.1 reads.

Subjects are the partitions of the golden directories as they are and with other file times and damaged time indexes, and made ones: formats,
codecs and timestamp types mixed, times that fall, are missing, lie in the future, holes, log starts anywhere, indexes of any rule or none.
Each is asked for times that are in it, their neighbours, times of its files, and the words for latest, earliest and largest.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any, Final, NamedTuple

import numpy as np

from conformance import exported
from conformance.alarms import quiet_tally
from conformance.damage import WAYS
from conformance.judge import Judge
from conformance.repair import circumstances
from conformance.stage import stage
from conformance.tally import Tally
from conformance.workers import Ask, chunks, workers
from kafkats import search
from kafkats.errors import CorruptBatch, KafkatsError
from kafkats.formats import dispatch, v0, v1, v2
from kafkats.formats.model import NO_TIMESTAMP, Codec, Record, TimestampType
from kafkats.generations import RULES
from tests.builders.logs import build
from tests.golden import Case, cases, is_segment, partitions

ANSWERED = "searches as this broker answers them"
DAMAGED = "searches with damaged time indexes"
EXACT = "exact answers by the records that 4.3.1 reads"
CHECK = "self-test: a wrong answer is reported"
RULE_OF: Final = {"4.3.1": "3.8", "2.8.2": "0.11"}
MADE: Final = 180
EVERY: Final = {"crash": 12, "clean-start": 12}
"""Of cases with dozens of partitions alike, one in so many."""
LEAST: Final = {ANSWERED: 10_000, DAMAGED: 5000}
"""Per generation."""
INTERVAL: Final = 200
_EPOCH: Final = 1_600_000_000_000
_WORDS: Final = (search.Word.LATEST.value, search.Word.EARLIEST.value)
"""Their epochs are not compared: a load forgets the one that begins at the end, and a recovered segment brings its own back."""
_BY_NUMBER: Final = {word.value: word for word in search.Word}
"""Kafka is asked by numbers."""
Find = Callable[[search.Partition, "int | search.Word", str], search.Answer]


class Subject(NamedTuple):
    """A partition directory, the judge's words about it, the same for us, and the times to ask for."""

    case: str
    path: Path
    words: list[object]
    settings: dict[str, Any]
    targets: list[int]
    damaged: bool
    corrupt: bool
    """A batch's checksum is wrong: Kafka's search does not look at it, ours ends there."""


class Job(NamedTuple):
    """For one process: a case to unpack, or the numbers of partitions to make."""

    case: Case | None
    numbers: list[int]
    work: Path


def conform(tally: Tally, work: Path) -> None:
    asked = [one for one in cases() if one.kind != "torn-append"]
    jobs = [Job(None, numbers, work / f"made-{numbers[0]}") for numbers in chunks(range(MADE), 12)]
    jobs += [Job(one, [], work / one.name) for one in asked]
    exported.conform(tally, work / "exported")
    with (
        workers(work) as pool,
        stage(tally.console, "asking two Kafkas which offset it was", len(jobs)) as advance,
    ):
        pool.each(_compare, jobs, tally, advance)
    for version in RULE_OF:
        for check, least in LEAST.items():
            tally.expect(check, version, least)
        tally.expect(CHECK, version, 20)
    tally.expect(EXACT, "4.3.1", 10_000)


def _compare(job: Job, ask: Ask, tally: Tally) -> None:
    job.work.mkdir()
    judges = [ask(version) for version in RULE_OF]
    for number, subject in enumerate(_subjects(job)):
        for judge in judges:
            compare_answers(subject, judge, tally)
            if job.case is None and number == 0:
                test_comparison(subject, judge, tally)
        if subject.damaged:
            compare_exact(subject, judges[0], tally)
    shutil.rmtree(job.work)


# ---------------------------------------------------------------- comparisons


def compare_answers(subject: Subject, judge: Judge, tally: Tally, find: Find = search.find) -> None:
    """Offset, timestamp and leader epoch of every answer; an error where Kafka has one."""
    out = subject.path.parent / "asked"
    told = judge("offset-for-time", subject.path, *subject.targets, "--out", out, *subject.words)
    shutil.rmtree(out, ignore_errors=True)
    check = DAMAGED if subject.damaged else ANSWERED
    with search.Partition(subject.path, clean=True, **subject.settings) as partition:
        for theirs in told.get("found", []):
            target = theirs["target"]
            ours = _said(partition, target, RULE_OF[judge.version], find)
            if subject.corrupt and ours == "error":
                continue
            what = f"{target} in {subject.path}"
            tally.same(check, judge.version, subject.case, what, ours, _meant(theirs))


def _said(partition: search.Partition, target: int, rule: str, find: Find) -> Any:
    try:
        ours = find(partition, _BY_NUMBER.get(target, target), rule)
    except KafkatsError:
        return "error"
    epoch = ours.leader_epoch if target not in _WORDS else -1
    return (ours.offset, ours.timestamp, epoch) if ours.offset >= 0 else None


def _meant(theirs: dict[str, Any]) -> object:
    if "error" in theirs:
        return "error"
    if "offset" not in theirs:
        return None
    epoch = theirs.get("leader_epoch")
    epoch = -1 if epoch is None or theirs["target"] in _WORDS else epoch
    return theirs["offset"], theirs["timestamp"], epoch


def compare_exact(subject: Subject, judge: Judge, tally: Tally) -> None:
    """At depth full, whatever the indexes are, by the first record that 4.3.1 reads at or above the log start."""
    records = [
        (record["offset"], record["timestamp"])
        for log in sorted(filter(is_segment, subject.path.glob("*.log")))
        for batch in judge("dump", log, "--deep")["batches"]
        for record in batch.get("records", [])
    ]
    start = subject.settings["log_start_offset"]
    with search.Partition(subject.path, clean=True, **subject.settings) as partition:
        for target in subject.targets:
            if target < 0:
                continue
            theirs = next(
                (one for one in records if one[1] >= target and one[0] >= start), (-1, -1)
            )
            try:
                ours = search.find_exact(partition, target)[1:3]
            except CorruptBatch:
                continue  # what lies behind a corrupt batch is not known
            tally.same(
                EXACT, judge.version, subject.case, f"{target} in {subject.path}", ours, theirs
            )


def test_comparison(subject: Subject, judge: Judge, tally: Tally) -> None:
    """The comparison must be able to say no: wrong offsets, times and epochs are reported, and answers that were not given, each of them."""

    def wrong(**field: int) -> Find:
        def find(partition: search.Partition, target: int, rule: str) -> search.Answer:
            answer = search.find(partition, target, rule)
            if answer.offset < 0:
                return answer._replace(offset=0)
            return answer._replace(**{
                name: getattr(answer, name) + more for name, more in field.items()
            })

        return find

    for field in (
        {"offset": 1},
        {"timestamp": 1},
        {"leader_epoch": 1, "timestamp": -1},
        {"offset": -(2**62)},
    ):
        quiet = quiet_tally()
        compare_answers(subject, judge, quiet, wrong(**field))
        compared = sum(counter.total() for counter in quiet.compared.values())
        if compared:
            what = f"{field} in {subject.path}"
            tally.same(CHECK, judge.version, subject.case, what, len(quiet.differences), compared)


# ---------------------------------------------------------------- subjects


def _subjects(job: Job) -> Iterator[Subject]:
    if job.case is None:
        for number in job.numbers:
            yield from _made(number, job.work)
    else:
        yield from _golden(job.case, job.work)


def _golden(case: Case, work: Path) -> Iterator[Subject]:
    state = case.states[-1]
    root = work / "data"
    root.mkdir()
    case.unpack(state, root)
    if not any(root.rglob(".kafka_cleanshutdown")):
        return
    for partition in _served(root)[:: EVERY.get(case.kind, 1)]:
        random = Random(f"{case} {partition.name}")
        words = circumstances(case, partition)
        start = int(str(words[words.index("--log-start") + 1]))
        settings = {
            "log_start_offset": start,
            "index_interval_bytes": case.interval(partition.name),
        }
        times, corrupt = _times(partition)
        yield Subject(
            case.name,
            partition,
            words,
            settings,
            _targets(random, partition, times),
            False,
            corrupt,
        )
        _change(random, partition, times)
        yield Subject(
            case.name, partition, words, settings, _targets(random, partition, times), True, corrupt
        )


def _served(root: Path) -> list[Path]:
    found = (p for p in partitions(root) if not p.name.startswith("__cluster_metadata"))
    return [p for p in found if not p.name.endswith(("-delete", "-stray", "-future"))]


def _times(partition: Path) -> tuple[list[int], bool]:
    """Return the timestamps of all readable records, and whether a batch is corrupt."""
    times, corrupt = set(), False
    for log in filter(is_segment, partition.glob("*.log")):
        data = log.read_bytes()
        try:
            for batch in dispatch.batches(data):
                times |= {record.timestamp for record in dispatch.records(data, batch)}
        except CorruptBatch:
            corrupt = True
    return sorted(times - {NO_TIMESTAMP}), corrupt


def _targets(random: Random, partition: Path, times: list[int]) -> list[int]:
    mtimes = [
        log.stat().st_mtime_ns // 1_000_000 for log in filter(is_segment, partition.glob("*.log"))
    ]
    known = times + mtimes
    found = {random.choice(known) + random.choice((-1, 0, 1)) for _ in range(30)}
    found |= {random.randint(min(known) - 1000, max(known) + 1000) for _ in range(5)}
    return [*sorted(t for t in found | {0, 2**62, *times[-1:]} if t >= 0), -1, -2, -3, -7]


def _change(random: Random, partition: Path, times: list[int]) -> None:
    """Other times for the files, and what can happen to time indexes; a missing .index makes a start build both."""
    for log in filter(is_segment, partition.glob("*.log")):
        mtime_ms = max(0, random.choice(times or [_EPOCH]) + random.choice((-1, 0, 1)))
        os.utime(log, ns=(mtime_ms * 10**6, mtime_ms * 10**6))
        index, offset_index = log.with_suffix(".timeindex"), log.with_suffix(".index")
        if index.exists() and random.random() < 0.8:
            way = random.choice([*WAYS.values(), _late, _early, _of_another_time])
            way(index)
        if offset_index.exists() and random.random() < 0.1:
            offset_index.unlink()


def _entries(path: Path) -> np.ndarray:
    data = path.read_bytes()
    return np.frombuffer(data, [("time", ">i8"), ("offset", ">i4")], len(data) // 12).copy()


def _late(path: Path) -> None:
    """Every entry's offset is the last one's: searches begin too late."""
    entries = _entries(path)
    if len(entries):
        entries["offset"] = entries["offset"][-1]
        path.write_bytes(entries.tobytes())


def _early(path: Path) -> None:
    """Times too low: the segment seems to end earlier than it does."""
    entries = _entries(path)
    entries["time"] -= 20_000
    path.write_bytes(entries.tobytes())


def _of_another_time(path: Path) -> None:
    """Times too high: the segment promises what it has not."""
    entries = _entries(path)
    entries["time"] += 20_000
    path.write_bytes(entries.tobytes())


# ---------------------------------------------------------------- made partitions

_FORMATS: Final[Any] = (v0, v1, v2)


def _made(number: int, work: Path) -> Iterator[Subject]:
    random = Random(f"made {number}")
    partition = work / f"made-{number}"
    partition.mkdir()
    base = random.choice((0, 1000, 1 << 33))
    end = base
    gap = 0
    rule = random.choice((RULES["last-offset"], RULES["last-offset"], RULES["first-offset"]))
    for _ in range(random.randint(1, 5)):
        log = partition / f"{end + gap:020d}.log"
        data, end = _log(random, end + gap)
        log.write_bytes(data)
        built = build(
            np.frombuffer(data, np.uint8), int(log.stem), rule=rule, index_interval_bytes=INTERVAL
        )
        log.with_suffix(".index").write_bytes(built.offset_index)
        log.with_suffix(".timeindex").write_bytes(built.time_index)
        gap = random.choice((0, 0, 4))
    times, corrupt = _times(partition)
    for log in partition.glob("*.log"):
        old = random.choice((1, 1, random.choice(times or [_EPOCH]) + random.choice((-1, 0, 1))))
        os.utime(log, ns=(max(old, 0) * 10**6,) * 2)
    start = random.choice((base, base, random.randint(base, end)))
    words = [
        "--clean",
        "true",
        "--log-start",
        start,
        "--now",
        _EPOCH,
        "--config",
        f"index.interval.bytes={INTERVAL}",
    ]
    settings = {"log_start_offset": start, "index_interval_bytes": INTERVAL}
    yield Subject(
        "made", partition, words, settings, _targets(random, partition, times), False, corrupt
    )
    _change(random, partition, times)
    yield Subject(
        "made", partition, words, settings, _targets(random, partition, times), True, corrupt
    )


def _log(random: Random, offset: int) -> tuple[bytes, int]:
    parts = []
    first = offset
    shape = random.choice(("rising", "rising", "falling", "shuffled", "equal", "none", "some"))
    magics = random.choice(((2,), (2,), (1,), (0,), (0, 1), (1, 2), (0, 1, 2)))
    for _ in range(random.randint(1, 14)):
        magic = random.choice(magics)
        codec = random.choice([Codec.NONE, *(list(Codec) if magic == 2 else list(Codec)[:4])])
        count = 1 if magic < 2 and codec == Codec.NONE else random.randint(1, 6)
        records = []
        for _ in range(count):
            records.append(
                _record(random, magic, offset, _EPOCH + _time(random, shape, offset - first))
            )
            offset += random.choice((1, 1, 1, 3))
        more: dict[str, Any] = {}
        if magic and random.random() < 0.15:
            more["log_append_time"] = _EPOCH + _time(random, "rising", offset - first)
        if magic == 2:
            more["leader_epoch"] = random.choice((-1, 0, 7))
        parts.append(_FORMATS[magic].encode_batch(records, codec=codec, **more))
    return b"".join(parts), offset


def _record(random: Random, magic: int, offset: int, timestamp: int) -> Record:
    value = random.randbytes(random.choice((0, 5, 40, 150)))
    if magic == 0 or timestamp < _EPOCH - 10**9:
        kind = TimestampType.NONE if magic == 0 else TimestampType.CREATE_TIME
        return Record(offset, NO_TIMESTAMP, kind, None, value)
    return Record(offset, timestamp, TimestampType.CREATE_TIME, b"k", value)


def _time(random: Random, shape: str, number: int) -> int:
    if shape == "none" or (shape == "some" and random.random() < 0.4):
        return -_EPOCH
    if random.random() < 0.02:
        return 10**7
    return {"rising": 100 * number, "falling": -100 * number, "equal": 0}.get(
        shape, random.randint(0, 3000)
    )
