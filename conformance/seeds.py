"""Compare our broker's answers with those of Kafka's own classes, on random requests."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from conformance import appended, soak
from conformance.judge import Judge
from conformance.stage import stage
from conformance.tally import Tally

COUNT: Final = 300
FULL: Final = 10_000


def conform(tally: Tally, work: Path) -> None:
    """The appends of a leader, of each version that has a judge."""
    count = FULL if soak.settings.full else COUNT
    with stage(tally.console, "message sets", len(appended.VERSIONS)) as advance:
        for version in appended.VERSIONS:
            folder = work / version
            folder.mkdir()
            with Judge(version, temporary=folder, log=folder / "judge.log") as judge:
                appended.compare(version, judge, folder, tally, count=count)
            tally.expect(appended.CHECK, version, count)
            advance()
