"""verify --of-plan and --of-run hold indexes to the plan's own rule and settings, without being told them again."""

from __future__ import annotations

from pathlib import Path

import pytest

from kafkats.cli import main
from kafkats.plans.plan import read_plan
from tests.golden import Unpacked
from tests.recovery.crashed import some_of

CASE = "crash-4.3.1"


def ended(*words: object) -> int:
    with pytest.raises(SystemExit) as info:
        main([*map(str, words)])
    return int(info.value.code or 0)


@pytest.mark.parametrize(
    "options", [["--generation", "first-offset"], ["--config", "index.interval.bytes=300"]]
)
def test_a_correct_apply_is_proved(golden: Unpacked, tmp_path: Path, options: list[str]) -> None:
    root = some_of(golden, CASE, ("untouched-0",), tmp_path / "data")
    (root / ".lock").touch()
    for file in (root / "untouched-0").glob("*index"):
        file.unlink()
    plan, run = tmp_path / "plan", tmp_path / "plan.run"
    ended("plan", "rebuild", root, *options, "-o", plan)
    assert read_plan(plan).items.num_rows
    assert ended("apply", plan, "--digest", "any") == 0
    assert ended("verify", root, "--of-plan", plan) == 0
    assert ended("verify", root, "--of-run", run) == 0
    index = max((root / "untouched-0").glob("*.timeindex"))
    index.write_bytes(index.read_bytes()[:-12])
    assert ended("verify", root, "--of-plan", plan) == 1
    assert ended("verify", root, "--of-run", run) == 1
