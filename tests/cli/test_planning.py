"""The commands that plan, made from the registry of operations."""

from __future__ import annotations

from pathlib import Path

import pytest

from kafkats.cli.planning import plan
from kafkats.operations import OPERATIONS
from tests.builders.commands import run

COMMANDS = {
    "rebuild": (),
    "migrate": ("--to-magic", "2"),
    "split": ("--where", "rolled", "--segment-bytes", "1000"),
}


def test_every_operation_has_its_command() -> None:
    assert list(plan.commands) == list(OPERATIONS)
    assert {name: command.help for name, command in plan.commands.items()} == {
        name: operation.sentence for name, operation in OPERATIONS.items()
    }


@pytest.mark.parametrize("operation", COMMANDS)
def test_a_rule_that_would_mislead_a_broker_is_refused_before_anything_is_read(
    operation: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ("-o", tmp_path / "plan", *COMMANDS[operation], "--generation", "kip33")
    code, out, err = run(capsys, "plan", operation, tmp_path / "no such directory", *words)
    assert (code, out) == (3, "") and "kip33 would mislead a broker" in err
