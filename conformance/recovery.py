"""Our rebuilt indexes against LogSegment.recover of real Kafka, for every segment of every golden state."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

from conformance.judge import Judge
from conformance.tally import Tally
from kafkats.errors import KafkatsError
from kafkats.generations import RULES
from kafkats.index.build import Built
from kafkats.segment.reader import open_segment
from tests.builders.logs import build
from tests.golden import Segment

KINDS = ("index", "timeindex")
CHECK = "rebuild against LogSegment.recover"


class Version(NamedTuple):
    """A Kafka whose recovery is asked, the rule that it follows, and the newest magic that it knows."""

    kafka: str
    rule: str
    magic: int
    serve: tuple[str, ...] = ()


VERSIONS = (
    Version("4.3.1", "last-offset", 2),
    Version("2.8.2", "last-offset", 2, ("recover",)),
    Version("1.1.1", "first-offset", 2),
    Version("0.10.2.2", "first-offset", 1),
)


class Subject(NamedTuple):
    """One distinct question: a log's bytes with base offset and settings, and the segments that it stands for."""

    log: Path
    base_offset: int
    interval: int
    index_bytes: int
    sha256: str
    segments: tuple[Segment, ...]

    @property
    def name(self) -> str:
        return f"{self.segments[0]!r} (interval {self.interval}, index bytes {self.index_bytes})"


def subjects(segments: Iterable[Segment]) -> list[Subject]:
    """The segments, each distinct (bytes, base offset, settings) once."""
    found: dict[tuple[int, int, int, str], list[Segment]] = {}
    for segment in segments:
        digest = hashlib.sha256(segment.log.read_bytes()).hexdigest()
        found.setdefault(
            (segment.base_offset, segment.interval, segment.index_bytes, digest), []
        ).append(segment)
    return [Subject(same[0].log, *key, tuple(same)) for key, same in found.items()]


def densest(one: Subject) -> Subject:
    """The same log with an entry for every batch: what no broker's default shows."""
    return one._replace(interval=0, index_bytes=1 << 20)


def tightest(one: Subject) -> Subject:
    """The same with indexes so small that recovery itself may fail for want of room."""
    return one._replace(interval=0, index_bytes=48)


def rebuilt(one: Subject, rule: str) -> Built:
    with open_segment(one.log) as log:
        return build(
            log,
            one.base_offset,
            rule=RULES[rule],
            index_interval_bytes=one.interval,
            segment_index_bytes=one.index_bytes,
        )


Builder = Callable[[Subject, str], Built]
Recovered = dict[tuple[str, ...], dict[str, str]]
"""(sha256 of the log, base offset, interval, index bytes, rule) -> sha256 of Kafka's .index and .timeindex."""


def compare(
    asked: list[Subject],
    version: Version,
    tally: Tally,
    work: Path,
    advance: Callable[[], None] = lambda: None,
    builder: Builder = rebuilt,
) -> Recovered:
    """Ask that Kafka to recover each subject, and hold our files and facts against its own."""
    recovered: Recovered = {}
    with Judge(
        version.kafka, *version.serve, temporary=work, log=work / f"judge-{version.kafka}.log"
    ) as judge:
        for one in asked:
            advance()
            try:
                ours = builder(one, version.rule)
            except KafkatsError as error:
                ours = error
            if isinstance(ours, Built) and ours.facts.magics[2] and version.magic < 2:
                continue
            out = work / f"recovered-{version.kafka}"
            answer = judge("recover", one.log, "--out", out, *_settings(one))
            shutil.rmtree(out, ignore_errors=True)
            _compare(one, version, ours, answer, tally)
            key = (
                one.sha256,
                str(one.base_offset),
                str(one.interval),
                str(one.index_bytes),
                version.rule,
            )
            files = answer.get("files", {})
            recovered[key] = {
                kind: files.get(f"{one.base_offset:020d}.{kind}", {}).get("sha256", "")
                for kind in KINDS
            }
    return recovered


def _compare(
    one: Subject, version: Version, ours: Built | KafkatsError, answer: dict, tally: Tally
) -> None:
    pairs = dict(_theirs(one, answer))
    mine = dict(_ours(one, ours))
    for case in {segment.case.name for segment in one.segments}:
        for what, theirs in pairs.items():
            tally.same(
                CHECK, version.kafka, case, f"{what} of {one.name}", mine.get(what, mine), theirs
            )


def _ours(one: Subject, ours: Built | KafkatsError) -> Iterator[tuple[str, object]]:
    if isinstance(ours, KafkatsError) or ours.blocked:
        yield "refusal", True
        return
    yield "index", _described(ours.offset_index)
    yield "timeindex", _described(ours.time_index)
    yield "valid bytes", ours.facts.valid_bytes
    yield "next offset", ours.facts.next_offset
    yield "largest timestamp", ours.facts.max_timestamp


def _theirs(one: Subject, answer: dict) -> Iterator[tuple[str, object]]:
    if "error" in answer:
        yield "refusal", True
        return
    for kind in KINDS:
        found = answer["files"][f"{one.base_offset:020d}.{kind}"]
        yield kind, (found["size"], found["sha256"])
    yield "valid bytes", answer["size"]
    if "next_offset" in answer:
        yield "next offset", answer["next_offset"]
        yield "largest timestamp", answer["largest_timestamp"]


def _described(content: bytes) -> tuple[int, str]:
    return len(content), hashlib.sha256(content).hexdigest()


def _settings(one: Subject) -> tuple[str, ...]:
    return (
        "--index-interval",
        str(one.interval),
        "--segment-index-bytes",
        str(one.index_bytes),
        "--base-offset",
        str(one.base_offset),
    )


def compare_all(
    asked: list[Subject], tally: Tally, work: Path, advance: Callable[[], None]
) -> Recovered:
    """Every version, at most two JVMs at once."""
    recovered: Recovered = {}
    with ThreadPoolExecutor(2) as pool:
        running = [
            pool.submit(compare, asked, version, tally, work, advance) for version in VERSIONS
        ]
        for done in running:
            recovered = done.result() | recovered
    for version in VERSIONS:
        tally.expect(CHECK, version.kafka, 1000)
    return recovered
