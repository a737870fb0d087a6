"""Conversions between the message formats: bytes against Kafka's own converters, directories against its log, a broker at the end."""

from __future__ import annotations

from pathlib import Path

from tests.conformance import alarms, conversion
from tests.conformance.conversion import Subject
from tests.conformance.stage import stage
from tests.conformance.tally import Tally
from tests.conformance.workers import Ask, Workers, chunks, workers
from tests.golden import Unpacked, cases

BATCHES_LEAST = {
    conversion.CLEANED: 3000,
    conversion.FETCHED: 8000,
    conversion.STORED_DOWN: 6000,
    conversion.STORED: 10_000,
    conversion.PRODUCED: 25_000,
}


def conform(tally: Tally, work: Path) -> None:
    with workers(work) as pool:
        compare_batches(tally, work, pool)


def compare_batches(tally: Tally, work: Path, pool: Workers) -> None:
    golden = Unpacked(work)
    with stage(tally.console, "unpacking the golden states", sum(len(one.states) for one in cases())) as advance:
        segments = []
        for one in cases():
            for state in one.states:
                segments += golden.segments_in(one, state)
                advance()
        asked = conversion.subjects(segments, work)
    requests = [one for one in asked if one.sendable]
    tally.console.print(f"{len(asked):,} logs and batches, {len(requests):,} of them as a client may send them")
    logs, sets = chunks(asked, 50), chunks(requests, 10)
    with stage(tally.console, "converting batches, by Kafka and by us", 1 + len(logs) + len(sets)) as advance:
        pool.each(alarms.test_conversion, [[one for one in asked if one.name in alarms.SUBJECTS]], tally, advance)
        pool.each(_compare_requests, sets, tally, advance)
        pool.each(_compare_logs, logs, tally, advance)
    for version in ("4.3.1", "2.8.2"):
        tally.expect(alarms.CHECK, version, 10)
    for check, least in BATCHES_LEAST.items():
        tally.expect_any(check, least)


def _compare_logs(asked: list[Subject], ask: Ask, tally: Tally) -> None:
    conversion.compare_cleaned(asked, ask("4.3.1"), tally, conversion.OURS)
    conversion.compare_fetched(asked, ask("2.8.2"), tally, conversion.OURS)


def _compare_requests(asked: list[Subject], ask: Ask, tally: Tally) -> None:
    for judge in (ask("4.3.1"), ask("2.8.2")):
        conversion.compare_produced(asked, judge, tally, conversion.OURS)
        conversion.compare_stored(asked, judge, tally, conversion.OURS)
