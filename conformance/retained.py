"""Retention: what brokers deleted from golden directories, and what Kafka's own log deletes from generated ones.

Generated partitions are drawn, segment by segment, from a pool that Kafka's classes wrote: some empty, some without timestamps, some
from the future. Their facts are read from the files as plans read them; mtimes, limits, log start and high watermark are drawn anew
for each, often so that an age or a size is exactly the limit.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from typing import Any, Final, NamedTuple

from conformance.judge import Judge
from conformance.tally import Tally
from conformance.workers import Ask
from kafkats.generations import RETENTION_RULES
from kafkats.index.tail import read_tail
from kafkats.retention.rules import Decision, Limits, Segment, decide
from tests.golden import Case, Unpacked

DECIDED: Final = "retention: same segments deleted, same log start"
RECORDED: Final = "retention: what a broker deleted"
JUDGES: Final = {"3.0": "4.3.1", "0.11": "2.8.2", "0.10.1": "0.10.2.2", "0.8": "0.9.0.1"}
"""Rule -> the Kafka that judges it."""
MAGICS: Final = {"3.0": (0, 1, 2), "0.11": (0, 1, 2), "0.10.1": (0, 1), "0.8": (0,)}
NOW: Final = 1_600_000_000_000
PER_ROOT: Final = 50
"""Partitions that the LogManager of an old Kafka is given at once."""
_POOL: Final = 14
_BREACHES: Final = {
    "retention time": "time",
    "retention size": "size",
    "start offset": "start-offset",
}
Decide = Callable[..., Decision]


class Chunk(NamedTuple):
    """Some generated partitions, for one process; the same in every run."""

    rule: str
    seed: int
    count: int


class Question(NamedTuple):
    """A partition directory and what it is to be decided by."""

    directory: Path
    segments: tuple[Segment, ...]
    limits: Limits


def compare(chunk: Chunk, ask: Ask, tally: Tally, decider: Decide = decide) -> None:
    """Every partition of the chunk, by Kafka and by us."""
    random = Random(f"{chunk.rule} {chunk.seed}")
    work = Path.cwd() / f"retained-{chunk.rule}-{chunk.seed}-{os.getpid()}"
    pool = _write_pool(random, MAGICS[chunk.rule], work, ask("4.3.1"))
    judge = ask(JUDGES[chunk.rule])
    for begin in range(0, chunk.count, PER_ROOT):
        root = work / f"root-{begin}"
        numbers = range(begin, min(begin + PER_ROOT, chunk.count))
        questions = [_question(random, pool, root / f"t{number}-0") for number in numbers]
        told = _by_log if chunk.rule in {"3.0", "0.11"} else _by_log_manager
        answers = told(questions, root, judge)
        for question, answer in zip(questions, answers, strict=True):
            decision = decider(
                question.segments, question.limits, RETENTION_RULES[chunk.rule], now_ms=NOW
            )
            what = f"{question.limits} over {question.segments}"
            case = f"generated, rule {chunk.rule}"
            tally.same(
                DECIDED,
                judge.version,
                case,
                what,
                _told(decision, question.segments, answer),
                answer,
            )
        shutil.rmtree(root)
    shutil.rmtree(work)


def _told(decision: Decision, segments: Sequence[Segment], like: dict[str, Any]) -> dict[str, Any]:
    """Our decision in the words in which Kafka answered."""
    left = [verdict.base_offset for verdict in decision.verdicts if not verdict.deletes]
    told = {
        "remaining": left or [segments[-1].end_offset],
        "log_start_offset": decision.log_start_offset,
        "by": {verdict.base_offset: verdict.by for verdict in decision.verdicts if verdict.deletes},
    }
    return {word: told[word] for word in like}


def _by_log(questions: Sequence[Question], root: Path, judge: Judge) -> list[dict[str, Any]]:
    """2.8 and later: one Log for each."""
    answers = []
    for question in questions:
        limits = question.limits
        words = [
            "retention",
            question.directory,
            "--now",
            NOW,
            "--clean",
            "true",
            "--log-start",
            limits.log_start_offset,
        ]
        words += [
            "--retention-ms",
            limits.retention_ms,
            "--retention-bytes",
            limits.retention_bytes,
        ]
        words += ["--high-watermark", limits.high_watermark, "--config", "segment.index.bytes=240"]
        said = judge(*words)
        if "remaining" not in said:
            answers.append(said)
            continue
        answer = {word: said[word] for word in ("remaining", "log_start_offset")}
        if "reasons" in said:
            answer["by"] = _breaches(said["reasons"])
        answers.append(answer)
    return answers


def _breaches(lines: Sequence[str]) -> dict[int, str]:
    """Base offset -> pass, by the words in which Kafka says why it deletes; some lines tell of several segments."""
    found = {}
    for line in lines:
        by = next((by for words, by in _BREACHES.items() if f"due to log {words}" in line), "")
        found |= {int(base): by for base in re.findall(r"baseOffset=(\d+)", line) if by}
    return found


def _by_log_manager(
    questions: Sequence[Question], root: Path, judge: Judge
) -> list[dict[str, Any]]:
    """Up to 0.10.2: a LogManager over all of them."""
    (root / ".kafka_cleanshutdown").touch()
    topics = root.parent / "topics"
    topics.write_text(
        "".join(
            f"{q.directory.name[:-2]} segment.index.bytes=240 retention.ms={q.limits.retention_ms}"
            f" retention.bytes={q.limits.retention_bytes}\n"
            for q in questions
        )
    )
    said = judge("retention", root, topics, "--now", NOW)
    remaining = said.get("remaining", {})
    return [{"remaining": remaining.get(question.directory.name, said)} for question in questions]


def _write_pool(
    random: Random, magics: Sequence[int], work: Path, writer: Judge
) -> dict[str, bytes]:
    """Segments a hundred offsets apart, written and indexed by Kafka: name -> content of their files."""
    segments = []
    for number in range(_POOL):
        base = 100 * number
        first = random.choice((0, 0, 0, 7))  # compaction leaves such holes
        count = 0 if number in {4, 9, _POOL - 1} else random.randrange(1, 5)
        batches = [_batch(random, magics, base + first + 2 * n) for n in range(count)]
        segments.append({"base_offset": base, "batches": batches})
    settings = {
        "segment.index.bytes": "240",
        "index.interval.bytes": str(random.choice((0, 100, 4096))),
    }
    work.mkdir()
    spec = work / "pool.json"
    spec.write_text(json.dumps({"partition": "pool-0", "config": settings, "segments": segments}))
    made = Path(writer("write", spec, "--out", work)["dir"])
    return {path.name: path.read_bytes() for path in made.iterdir()}


def _batch(random: Random, magics: Sequence[int], offset: int) -> dict[str, Any]:
    odd = (-1, -1, 0, 2**62, 2**63 - 1)
    timestamp = random.choice(odd) if random.random() < 0.25 else NOW + random.randrange(-400, 100)
    record = {"offset": offset, "timestamp": timestamp, "value": "v" * random.randrange(150)}
    return {
        "base_offset": offset,
        "magic": random.choice(magics),
        "leader_epoch": 0,
        "records": [record],
    }


def _question(random: Random, pool: dict[str, bytes], directory: Path) -> Question:
    directory.mkdir(parents=True)
    numbers = sorted(random.sample(range(_POOL), random.randrange(1, 7)))
    segments: list[Segment] = []
    for at, number in enumerate(numbers):
        for kind in (".log", ".index", ".timeindex"):
            name = f"{100 * number:020}{kind}"
            (directory / name).write_bytes(pool[name])
        mtime_ms = NOW + random.randrange(-400, 100)
        log = directory / f"{100 * number:020}.log"
        os.utime(log, ns=(mtime_ms * 1_000_000, mtime_ms * 1_000_000))
        facts = read_tail(log, active=at == len(numbers) - 1).facts
        end = facts.next_offset if at == len(numbers) - 1 else 100 * numbers[at + 1]
        segments.append(Segment(100 * number, end, facts.log_bytes, facts.max_timestamp, mtime_ms))
    return Question(directory, tuple(segments), _limits(random, segments))


def _limits(random: Random, segments: Sequence[Segment]) -> Limits:
    first, end = segments[0].base_offset, segments[-1].end_offset
    one = random.choice(segments)
    age = NOW - (random.choice((one.largest_timestamp, one.mtime_ms)))
    near = max(age + random.choice((-1, 0, 1)), 0)
    ms = random.choice((-1, near, near, near, random.randrange(500), 2**63 - 1))
    behind = sum(segment.bytes for segment in segments[random.randrange(len(segments)) :])
    size = random.choice((-1, -1, max(behind + random.choice((-1, 0, 1)), 0), 0))
    start = random.choice((first, first, random.randrange(first, end + 1)))
    return Limits(ms, size, start, random.choice((end, end, random.randrange(0, end + 20))))


# Golden directories


def rule_of(case: Case) -> str:
    """The generation's rule."""
    version = tuple(int(part) for part in case.kafka.split(".")[:2])
    return (
        "3.0"
        if version >= (3, 0)
        else "0.11"
        if version >= (0, 11)
        else "0.10.1"
        if version >= (0, 10)
        else "0.8"
    )


def run_at(case: Case) -> int:
    """When the broker ran retention, by its log: the limits are so near that seconds matter."""
    lines = [line for partition in case.info["retention"].values() for line in partition["why"]]
    last = datetime.strptime(max(lines)[1:24], "%Y-%m-%d %H:%M:%S,%f").replace(tzinfo=UTC)
    assert 0 < last.timestamp() * 1000 - case.info["limits_set_at_ms"] < 60_000
    return round(last.timestamp() * 1000)


def golden_question(case: Case, partition: str, golden: Unpacked) -> Question:
    """The partition before retention ran, with the limits that it then had."""
    told = case.info["partitions"][partition]["records-before"]
    given = case.info["retention"][partition]["limits"]
    given = given if isinstance(given, dict) else {}
    directory = golden(case, "before") / partition
    mtimes = {path: mtime for path, (_, mtime, _) in case.files("before").items()}
    logs = sorted(directory.glob("*.log"))
    bases = [int(log.stem) for log in logs]
    facts = [read_tail(log, active=log == logs[-1]).facts for log in logs]
    segments = tuple(
        Segment(base, end, fact.log_bytes, fact.max_timestamp, mtimes[f"{partition}/{log.name}"])
        for base, end, fact, log in zip(
            bases, [*bases[1:], told["log_end_offset"]], facts, logs, strict=True
        )
    )
    limits = Limits(
        given.get("retention.ms", -1),
        given.get("retention.bytes", -1),
        (_checkpoint(directory, "log-start-offset-checkpoint") or 0)
        if given
        else 47,  # deleteRecords, after the start
        _checkpoint(directory, "replication-offset-checkpoint"),
    )
    return Question(directory, segments, limits)


def golden_answer(case: Case, partition: str) -> dict[str, Any]:
    """What the broker left."""
    start = case.info["partitions"][partition]["records"]["log_start_offset"]
    return {
        "remaining": case.info["retention"][partition]["segments_after"],
        "log_start_offset": start,
    }


def compare_recorded(case: Case, golden: Unpacked, tally: Tally, decider: Decide = decide) -> None:
    """Every partition of a golden pair."""
    for partition in case.info["retention"]:
        question, answer = golden_question(case, partition, golden), golden_answer(case, partition)
        decision = decider(
            question.segments, question.limits, RETENTION_RULES[rule_of(case)], now_ms=run_at(case)
        )
        tally.same(
            RECORDED,
            case.kafka,
            case.name,
            partition,
            _told(decision, question.segments, answer),
            answer,
        )


def _checkpoint(directory: Path, name: str) -> int | None:
    path = directory.parent / name
    topic, _, number = directory.name.rpartition("-")
    lines = path.read_text().splitlines()[2:] if path.exists() else []
    return next(
        (int(line.split()[2]) for line in lines if line.split()[:2] == [topic, number]), None
    )
