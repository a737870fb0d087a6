"""Conversions between the message formats: bytes against Kafka's own converters, directories against its log, a broker at the end."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from conformance import alarms, broker, conversion, migrated
from conformance.conversion import Subject
from conformance.dump_log import dump_log
from conformance.migrated import Goal
from conformance.mixture import Mixture
from conformance.stage import stage
from conformance.tally import Tally
from conformance.workers import Ask, Workers, chunks, workers
from kafkats.formats import dispatch
from tests.golden import Case, Unpacked, cases

DUMPED = "kafka-dump-log finds nothing in a migrated directory"
MISMATCH = "Found timestamp mismatch"

BATCHES_LEAST = {
    conversion.CLEANED: 3000,
    conversion.FETCHED: 8000,
    conversion.STORED_DOWN: 6000,
    conversion.STORED: 10_000,
    conversion.PRODUCED: 25_000,
}


DIRECTORIES_LEAST = {
    migrated.WRITTEN: 1500,
    migrated.LEFT: 500,
    migrated.RECORDS: 500,
    migrated.CONSUMED: 300,
    migrated.CLEAN: 8000,
    migrated.CRASHED: 8000,
    migrated.RECOVERED: 700,
    migrated.TIMES: 5000,
    migrated.ANSWERED: 20_000,
    migrated.PRODUCERS: 1000,
    broker.SERVED: 26,
    broker.ANSWERED: 100,
    broker.UNTOUCHED: 200,
    DUMPED: 1000,
}
ALL_GOALS = (
    Goal(2),
    Goal(1),
    Goal(0),
    Goal(2, "none"),
    Goal(2, "zstd"),
    Goal(1, "gzip"),
    Goal(0, "lz4"),
)
SELF_TESTED = ("upgrade-0.9-to-2.8", "transactions-2.8.2")


class Job(NamedTuple):
    """One state and what becomes of it, for one process."""

    case: Case
    state: str
    work: Path


def conform(tally: Tally, work: Path) -> None:
    with workers(work) as pool:
        compare_batches(tally, work, pool)
        compare_directories(tally, work, pool)


def compare_batches(tally: Tally, work: Path, pool: Workers) -> None:
    golden = Unpacked(work)
    with stage(
        tally.console, "unpacking the golden states", sum(len(one.states) for one in cases())
    ) as advance:
        segments = []
        for one in cases():
            for state in one.states:
                segments += golden.segments_in(one, state)
                advance()
        asked = conversion.subjects(segments, work)
    requests = [one for one in asked if one.sendable]
    tally.console.print(
        f"{len(asked):,} logs and batches, {len(requests):,} of them as a client may send them"
    )
    logs, sets = chunks(asked, 50), chunks(requests, 10)
    with stage(
        tally.console, "converting batches, by Kafka and by us", 1 + len(logs) + len(sets)
    ) as advance:
        pool.each(
            alarms.test_conversion,
            [[one for one in asked if one.name in alarms.SUBJECTS]],
            tally,
            advance,
        )
        pool.each(_compare_requests, sets, tally, advance)
        pool.each(_compare_logs, logs, tally, advance)
    for version in ("4.3.1", "2.8.2"):
        tally.expect(alarms.CHECK, version, 10)
    for check, least in BATCHES_LEAST.items():
        tally.expect_any(check, least)


def compare_directories(tally: Tally, work: Path, pool: Workers) -> None:
    jobs: list[Job | Path] = [
        Job(one, state, work / "migrated" / one.name / state)
        for one, state in chosen_states(work / "mixture")
    ]
    jobs.insert(0, work / "broker")  # it waits most of the time
    with stage(
        tally.console, "migrating directories, and what Kafka says of them", len(jobs)
    ) as advance:
        indexes = [
            path for some in pool.each(_migrate_or_serve, jobs, tally, advance) for path in some
        ]
    with stage(tally.console, "kafka-dump-log over their indexes", 1):
        said = dump_log(indexes, work)
    for path, words in said.complaints.items():
        if not (
            path.suffix == ".timeindex" and words[0].startswith(MISMATCH) and _has_empty_batch(path)
        ):
            tally.differs(f"{DUMPED}, {path}: {words[:3]}")
    for path in indexes:
        entry = 8 if path.suffix == ".index" else 12
        told = max(said.entries.get(path, -1), 0)
        case = path.relative_to(work / "migrated").parts[0]
        tally.same(
            DUMPED, "4.3.1", case, f"entries printed of {path}", told, path.stat().st_size // entry
        )
    tally.expect(alarms.CHECK, "4.3.1", 26)
    for check, least in DIRECTORIES_LEAST.items():
        tally.expect_any(check, least)


def _has_empty_batch(index: Path) -> bool:
    """The tool takes an empty batch, which the cleaner keeps for its producer, for one without a timestamp, in Kafka's own files too."""
    return any(
        batch.count == 0
        for batch in dispatch.batches(index.with_suffix(".log").read_bytes(), verify=False)
    )


def chosen_states(made: Path) -> Iterator[tuple[Case, str]]:
    """Every state of the rolling upgrade, the largest first; directories of all formats, codecs and kinds of records."""
    yield Mixture(made), "data"
    for one in cases("upgrade"):
        yield from ((one, state) for state in reversed(one.states))
    for one in cases("adopt"):
        yield one, "before"
    for one in cases("compaction", "transactions", "timestamps", "matrix"):
        yield one, one.states[-1]


def _migrate_or_serve(job: Job | Path, ask: Ask, tally: Tally) -> list[Path]:
    if isinstance(job, Job):
        return _migrate(job, ask, tally)
    broker.serve(job, tally)
    return []


def _migrate(job: Job, ask: Ask, tally: Tally) -> list[Path]:
    """One state to all its goals; the index files that were written."""
    newest, old = judges = ask("4.3.1"), ask("2.8.2")
    if isinstance(job.case, Mixture):
        job.case.make(newest)
    before = migrated.look(job.case, job.state, job.work, judges)
    indexes = []
    for goal in _goals(before):
        after = migrated.migrate(before, goal, job.work, tally)
        migrated.compare_written(after, tally)
        migrated.compare_records(after, newest, tally)
        for judge in (newest, old):
            migrated.compare_loads(after, judge, tally)
            migrated.compare_recorded_times(after, judge, tally)
        if goal.magic < 2:
            migrated.compare_old_recovery(after, ask("0.10.2.2"), tally)
        if goal == Goal(2) and job.case.name in SELF_TESTED and job.state == job.case.states[-1]:
            alarms.test_directory(after, newest, tally)
        indexes += after.indexes()
    return indexes


def _goals(old: migrated.Old) -> tuple[Goal, ...]:
    """All of them where everything is mixed. zstd has no place below magic 2, so there it becomes something else, once it may not."""
    if old.case.kind in ("upgrade", "made") and old.state == old.case.states[-1]:
        return ALL_GOALS
    if old.has("zstd"):
        return (Goal(2), Goal(1), Goal(1, "gzip"), Goal(0, "lz4"))
    return (Goal(2), Goal(1), Goal(0))


def _compare_logs(asked: list[Subject], ask: Ask, tally: Tally) -> None:
    conversion.compare_cleaned(asked, ask("4.3.1"), tally, conversion.OURS)
    conversion.compare_fetched(asked, ask("2.8.2"), tally, conversion.OURS)


def _compare_requests(asked: list[Subject], ask: Ask, tally: Tally) -> None:
    for judge in (ask("4.3.1"), ask("2.8.2")):
        conversion.compare_produced(asked, judge, tally, conversion.OURS)
        conversion.compare_stored(asked, judge, tally, conversion.OURS)
