"""Compare our broker's answers with those of Kafka's own classes, on random requests."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from conformance import appended, compacted, sequences, soak
from conformance.judge import Judge
from conformance.stage import stage
from conformance.tally import Tally

COUNT: Final = 200
FULL: Final = 10_000
CLEANINGS: Final = 30
CLEANINGS_FULL: Final = 2000


def conform(tally: Tally, work: Path) -> None:
    """Compare a leader's appends, compaction, and sequences of requests, with each version that has a judge."""
    cleanings = CLEANINGS_FULL if soak.settings.full else CLEANINGS
    count = FULL if soak.settings.full else COUNT
    total = len(appended.VERSIONS) + len(sequences.VERSIONS)
    with stage(tally.console, "message sets, compacted partitions, sequences", total) as advance:
        for version in appended.VERSIONS:
            folder = work / version
            folder.mkdir()
            with Judge(version, temporary=folder, log=folder / "judge.log") as judge:
                appended.compare(version, judge, folder, tally, count=count)
                sets = appended.compare_kip228(version, judge, folder, tally)
                compacted.compare(version, judge, folder, tally, count=cleanings)
            tally.expect(compacted.CHECK, version, cleanings)
            tally.expect(appended.CHECK, version, count)
            tally.expect(appended.KIP228_CHECK, version, sets)
            advance()
        for version in sequences.VERSIONS:
            folder = work / f"sequences-{version}"
            folder.mkdir()
            count = FULL if soak.settings.full else sequences.VERSIONS[version]
            with Judge(version, "sequence", temporary=folder, log=folder / "judge.log") as judge:
                sequences.compare(version, judge, folder, tally, count=count)
            tally.expect(sequences.CHECK, version, count)
            advance()
