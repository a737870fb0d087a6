"""The options and totals that plans store are those of tests/compat/plans.json.

A plan's digest is made of them, so an option that is stored for a plan which does not use it would
change the digest of every plan. A new option is stored only if it has a value
(kafkats.plans.missing.options_of), and the file never changes for it.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kafkats.cli import main

PLANS: dict[str, dict[str, object]] = json.loads(
    Path(__file__).with_name("plans.json").read_text(encoding="utf-8")
)


def planned(words: str, folder: Path) -> dict[str, object]:
    """Return what the plan of one empty segment stores besides its rows."""
    partition = folder / "data" / "t-0"
    partition.mkdir(parents=True)
    (partition / "00000000000000000000.log").touch()
    plan = folder / "PLAN"
    with pytest.raises(SystemExit) as ended:
        main(["plan", *words.split(), str(folder / "data"), "-o", str(plan)])
    assert ended.value.code == 0
    header = json.loads((plan / "plan.json").read_text(encoding="utf-8"))
    return {name: header[name] for name in ("format", "operation", "options", "totals")}


@pytest.mark.parametrize("words", PLANS)
def test_a_plan_stores_what_it_stored_before(words: str, tmp_path: Path) -> None:
    assert planned(words, tmp_path) == PLANS[words]
