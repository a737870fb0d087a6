"""The operation as a command: what it looks at before it plans, and what it proves."""

from __future__ import annotations

from pathlib import Path

import pytest

from kafkats.plans.facts import read_table
from kafkats.rolling.simulate import SIMULATED
from tests.builders.commands import objects, run
from tests.builders.directories import last_log, unpacked


def test_a_segment_whose_log_is_corrupt_is_blocked_and_the_others_are_rolled(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The damage lies before the end, where only the whole log shows it."""
    root, plan = unpacked("matrix-4.3.1-v2", tmp_path), tmp_path / "plan"
    log = last_log(root / "gzip-ct-0")
    content = bytearray(log.read_bytes())
    content[100] ^= 1
    log.write_bytes(content)
    words = ("plan", "roll", root, "-o", plan, "--config", "segment.ms=1", "--json")
    code, out, err = run(capsys, *words)
    *rows, last = objects(out)
    assert (code, last["summary"]["blocked"]) == (1, 1), err
    (blocked,) = (row for row in rows if row["action"] == "blocked")
    assert (blocked["partition_dir"], blocked["file"]) == ("gzip-ct-0", log.name)
    assert blocked["reason"].startswith("the log is corrupt at byte 0 (bad-crc)")
    assert last["summary"]["files"] > 0
    code, out, err = run(capsys, "apply", plan, "--digest", last["summary"]["digest"], "--json")
    proof = objects(out)[-1]["summary"]["proof"]
    assert (code, proof["equal"], proof["not_equal"]) == (0, last["summary"]["files"], []), err


def test_a_plan_that_simulates_is_the_same_plan_and_has_the_rows_of_simulate_roll(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    root, plan = unpacked("rolling-4.3.1", tmp_path), tmp_path / "plan"
    words = ("roll", root, "--config", "segment.bytes=3000", "--now", 1_795_335_828_000, "--json")
    digests = []
    for more in ([], ["--simulate"]):
        code, out, err = run(capsys, "plan", *words, "-o", plan, *more)
        assert code in {0, 1}, err
        digests.append(objects(out)[-1]["summary"]["digest"])
        assert (plan / "simulated.parquet").exists() == bool(more)
        if not more:
            plan.rename(tmp_path / "plan-before")
    assert digests[0] == digests[1], "what is simulated is no part of the plan"
    *rows, _ = objects(run(capsys, "simulate", *words)[1])
    assert sum(row.pop("early_rolls") for row in rows) == 1
    assert read_table(plan / "simulated.parquet", SIMULATED).to_pylist() == rows
    assert sum(row["simulated"] for row in rows) != sum(row["segments"] for row in rows)
