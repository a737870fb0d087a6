"""A log directory that lost an index file, a plan that rebuilds it, and requests for it."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from kafkats.execution.local import LocalExecutor
from kafkats.flow import run
from kafkats.request import Request
from kafkats.result import Result
from tests.builders.commands import run as command
from tests.golden import case

LOST = "none-ct-0/00000000000000000043.timeindex"


class Scene:
    """A log directory and a plan for it."""

    def __init__(self, root: Path, folder: Path, digest: str) -> None:
        self.root, self.plan, self.digest = root, folder, digest
        self.ran = folder.with_name("plan.run")

    @property
    def lost(self) -> Path:
        """The file that the plan writes."""
        return self.root / LOST

    def ask(self, verb: str, **fields: Any) -> Result:
        """Run a request, as it comes out of its JSON."""
        asked = Request.model_validate({"verb": verb, "made_ms": 2_000_000_000_000, **fields})
        read = Request.model_validate_json(asked.model_dump_json(exclude_defaults=True))
        assert read == asked
        return run(read, LocalExecutor(1))

    def apply(self, **fields: Any) -> Result:
        plan = {"folder": self.plan, "digest": self.digest}
        return self.ask("apply", **({"plan": plan, "by": "ada"} | fields))

    def change_run(self, **fields: object) -> None:
        """Write other fields into `run.json`."""
        file = self.ran / "run.json"
        file.write_text(json.dumps(json.loads(file.read_text()) | fields))

    def lose_journals(self) -> None:
        """Remove what the run kept in its default work area."""
        for runs in (self.root.parent / ".kafkats" / "data").glob("*/runs"):
            shutil.rmtree(runs)

    def lose_report(self) -> None:
        """Remove what a killed run has not written."""
        for report in self.ran.glob("report.*"):
            report.unlink()


@pytest.fixture
def scene(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Scene:
    root = tmp_path / "disk" / "data"
    root.mkdir(parents=True)
    case("matrix-4.3.1-v2").unpack("data", root)
    (root / LOST).unlink()
    code, _, err = command(capsys, "plan", "rebuild", root, "-o", tmp_path / "plan")
    assert code == 0, err
    from kafkats.plans.plan import read_plan

    return Scene(root, tmp_path / "plan", read_plan(tmp_path / "plan").digest)
