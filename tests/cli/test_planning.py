"""The commands that plan, made from the registry of operations."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from kafkats.cli.planning import plan
from kafkats.operations import OPERATIONS
from tests.builders.commands import run
from tests.golden import case

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


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "disk" / "data"
    root.mkdir(parents=True)
    case("matrix-4.3.1-v2").unpack("data", root)
    return root


def test_a_plan_with_a_run_is_replaced_only_once_the_run_is_over(
    root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first, second = sorted(root.glob("*-ct-0/00000000000000000000.timeindex"))[:2]
    made, words = tmp_path / "plan", ("plan", "rebuild", root, "-o", tmp_path / "plan")
    first.write_bytes(b"x" * 24)
    assert run(capsys, *words)[0] == 0
    assert run(capsys, "apply", made, "--digest", "any")[0] == 0
    kept = (made / "plan.json").read_bytes()
    second.write_bytes(b"x" * 24)
    code, _, err = run(capsys, *words)
    assert (code, f"{made}.run: is the run of the plan that is here" in err) == (2, True)
    assert (
        f"another place than {made} with -o\n" in err and (made / "plan.json").read_bytes() == kept
    )
    assert run(capsys, "purge", f"{made}.run")[0] == 0
    assert run(capsys, *words)[0] == 0
    assert (made / "plan.json").read_bytes() != kept


def test_the_same_plan_may_be_made_again_beside_its_run(
    root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ("plan", "rebuild", root, "-o", tmp_path / "plan")
    assert run(capsys, *words)[0] == 0
    assert run(capsys, "apply", tmp_path / "plan", "--digest", "any")[0] == 0
    assert run(capsys, *words)[0] == 0


def test_a_plan_that_changes_nothing_says_what_helps_its_blocked_rows(
    root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = max(root.glob("none-ct-0/*.log"))
    os.truncate(log, log.stat().st_size - 5)
    (root / ".kafka_cleanshutdown").unlink()
    _, out, _ = run(capsys, "plan", "recover", root, "--topics", "none-ct", "-o", tmp_path / "plan")
    assert "0 files to change" in out
    assert "; restore it from a replica, or plan with --accept-loss offsets" in out
    assert out.splitlines()[-1].startswith("nothing to apply; next: restore the blocked partitions")


def test_a_plan_named_as_a_run_and_a_run_named_as_a_plan_are_told(
    root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made = tmp_path / "up"
    next(root.glob("*-ct-0/*.timeindex")).write_bytes(b"x" * 24)
    assert run(capsys, "plan", "rebuild", root, "-o", made)[0] == 0
    assert "; this is a plan that has no run" in run(capsys, "undo", made)[2]
    assert run(capsys, "apply", made, "--digest", "any")[0] == 0
    assert f"; this is a run: its plan is {made}" in run(capsys, "show", f"{made}.run")[2]
    for verb in ("undo", "purge"):
        assert f"; this is a plan; its run is {made}.run" in run(capsys, verb, made)[2]
