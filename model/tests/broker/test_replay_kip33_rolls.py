"""Rolling by KIP-33's interface section, by command on what `kafkats replay` leaves."""

from __future__ import annotations

from pathlib import Path

import pytest

from model.tests.builders.played import HOUR, Played, T, begin, send
from tests.builders.commands import objects, run

MINUTE = 60_000


@pytest.mark.parametrize(("generation", "segments"), [("largest", 2), ("0.10.1", 3)])
def test_rolls_after_the_largest_timestamp(
    generation: str, segments: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """`largest`: a segment rolls when log.roll.ms has elapsed since the largest timestamp in it, not since the first."""
    play = Played(tmp_path, capsys)
    times = (0, 50 * MINUTE, 100 * MINUTE, 161 * MINUTE)
    play(*begin("2.8.2"), *(send(time, at=time) for time in times))
    words = ("--generation", generation, "--config", f"segment.ms={HOUR}", "--now", T + 10 * HOUR)
    code, out, err = run(capsys, "simulate", "roll", play.root, *words, "--json")
    assert code == 0, err
    row, _ = objects(out)
    assert row["simulated"] == segments
