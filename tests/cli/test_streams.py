"""What a command does with standard streams that are closed, full, or read by nobody."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.builders.commands import in_shell
from tests.golden import Unpacked

FULL = "kafkats: writing the output: No space left on device\n"


@pytest.fixture
def root(golden: Unpacked) -> Path:
    return golden("matrix-4.3.1-v2", "data")


@pytest.mark.slow(1)
@pytest.mark.parametrize("words", ["inventory --json $ROOT", "verify $ROOT", "--help", "plan -h"])
def test_a_pipe_without_a_reader_ends_the_command_quietly(root: Path, words: str) -> None:
    closed = in_shell(root, f"{{ sleep 0.5; $KAFKATS {words}; }} | true; exit ${{PIPESTATUS[0]}}")
    assert (closed.returncode, closed.stderr) == (141, "")


@pytest.mark.parametrize("words", ["inventory $ROOT", "--help", "dump -h", "--version"])
def test_a_full_output_is_an_error(root: Path, words: str) -> None:
    full = in_shell(root, f"$KAFKATS {words} > /dev/full")
    assert (full.returncode, full.stderr) == (2, FULL)


@pytest.mark.slow(1)
@pytest.mark.parametrize("to", ["2>&-", "2> /dev/full"])
@pytest.mark.parametrize(
    ("words", "code"), [("inventory $ROOT", 0), ("inventory $ROOT/gone", 2), ("inventory", 2)]
)
def test_errors_that_nobody_can_be_told(root: Path, words: str, code: int, to: str) -> None:
    ended = in_shell(root, f"$KAFKATS {words} {to}")
    assert (ended.returncode, ended.stderr) == (code, "")
    assert bool(ended.stdout) == (code == 0)


@pytest.mark.slow(2)
def test_no_stream_at_all(root: Path, tmp_path: Path) -> None:
    assert in_shell(root, "$KAFKATS verify $ROOT <&- >&- 2>&-").returncode == 0
    plan = tmp_path / "plan"
    assert (
        in_shell(root, f"$KAFKATS plan rebuild $ROOT -o {plan} --all <&- >&- 2>&-").returncode == 0
    )
    asked = in_shell(root, f"$KAFKATS apply {plan} <&-")
    assert asked.returncode == 2
    assert re.fullmatch(r"kafkats: apply needs --digest: no terminal [^\n]*\n", asked.stderr)
