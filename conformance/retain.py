"""Retention and rolling: our decisions against what brokers did, and against Kafka's own logs over generated ones, per generation."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from rich.console import Console

from conformance import heads, retained, rolled
from conformance.stage import stage
from conformance.tally import Tally
from conformance.workers import Ask, workers
from kafkats.retention.rules import Decision, decide
from kafkats.rolling.replay import Rolled, simulate
from tests.golden import Unpacked, cases

CHECK: Final = "self-test: one wrong verdict is reported"
PER_RULE: Final = 10_000
"""Generated partitions, and streams of appends, of each generation's rule that there is a Kafka for."""
PER_CHUNK: Final = 250


def conform(tally: Tally, work: Path) -> None:
    compare_recorded(tally, work)
    partitions = [
        retained.Chunk(rule, seed, PER_CHUNK)
        for seed in range(PER_RULE // PER_CHUNK)
        for rule in retained.JUDGES
    ]
    streams = [
        rolled.Chunk(rule, versions[seed % len(versions)], seed, PER_CHUNK)
        for seed in range(PER_RULE // PER_CHUNK)
        for rule, versions in rolled.JUDGES.items()
    ]
    with (
        workers(work) as pool,
        stage(
            tally.console, "asking Kafka", 2 + len(heads.CASES) + len(partitions) + len(streams)
        ) as advance,
    ):
        pool.each(test_generated, ["retention", "rolling"], tally, advance)
        pool.each(heads.compare, list(heads.CASES), tally, advance)
        pool.each(retained.compare, partitions, tally, advance)
        pool.each(rolled.compare, streams, tally, advance)
    tally.expect_any(heads.LOADED, 20)
    for version in retained.JUDGES.values():
        tally.expect(retained.DECIDED, version, PER_RULE)
    for versions in rolled.JUDGES.values():
        for version in versions:
            tally.expect(rolled.STEPS, version, PER_RULE // len(versions))


def compare_recorded(tally: Tally, work: Path) -> None:
    golden = Unpacked(work)
    for case in cases("retention"):
        retained.compare_recorded(case, golden, tally)
        quiet = _quiet()
        retained.compare_recorded(case, golden, quiet, _one_too_few)
        tally.same(CHECK, case.kafka, case.name, "retention", bool(quiet.differences), True)
    for case in cases("rolling", "transactions"):
        rolled.compare_recorded(case, golden, tally)
        quiet = _quiet()
        rolled.compare_recorded(case, golden, quiet, _one_late)
        tally.same(CHECK, case.kafka, case.name, "rolling", bool(quiet.differences), True)
    tally.expect_any(retained.RECORDED, 70)
    tally.expect_any(rolled.RECORDED, 60)


def test_generated(what: str, ask: Ask, tally: Tally) -> None:
    """A few partitions and streams with one wrong verdict in each: every one of them must be reported."""
    for rule in retained.JUDGES if what == "retention" else ():
        quiet = _quiet()
        retained.compare(retained.Chunk(rule, -1, 40), ask, quiet, _one_too_few)
        _expect(quiet, tally, f"retention by {rule}", retained.JUDGES[rule])
    for rule, versions in rolled.JUDGES.items() if what == "rolling" else ():
        for version in versions:
            quiet = _quiet()
            rolled.compare(rolled.Chunk(rule, version, -1, 40), ask, quiet, _one_late)
            _expect(quiet, tally, f"rolling by {rule}", version)


def _expect(quiet: Tally, tally: Tally, what: str, version: str) -> None:
    compared = sum(counter.total() for counter in quiet.compared.values())
    tally.same(CHECK, version, "generated", what, len(quiet.differences), compared)


def _quiet() -> Tally:
    return Tally(Console(file=io.StringIO()))


def _one_too_few(segments: Sequence[Any], *words: Any, **settings: Any) -> Decision:
    """The last deleted segment is kept; where none is, the first has another offset."""
    decision = decide(segments, *words, **settings)
    verdicts = list(decision.verdicts)
    gone = sum(verdict.deletes for verdict in verdicts)
    if gone:
        verdicts[gone - 1] = verdicts[gone - 1]._replace(deletes=False)
    else:
        verdicts[0] = verdicts[0]._replace(base_offset=verdicts[0].base_offset + 1)
    return decision._replace(verdicts=tuple(verdicts))


def _one_late(*words: Any, **settings: Any) -> list[Rolled]:
    """The last segment begins one offset too late."""
    made = simulate(*words, **settings)
    return [*made[:-1], made[-1]._replace(base_offset=made[-1].base_offset + 1)]
