"""The example of each --help runs as it is printed, and no line is wider than 100 columns."""

from __future__ import annotations

import os
import shlex
import shutil
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from kafkats.cli.command import cli
from tests.builders.commands import run
from tests.golden import case

DATA = "/var/lib/kafka/data"
SCRIPT = """\
{"do": "broker", "broker": "1", "kafka": "4.3.1"}
{"do": "create", "broker": "1", "partition": "t-0"}
"""


def commands(command: click.Command, path: str = "") -> Iterator[tuple[str, click.Command]]:
    if isinstance(command, click.Group):
        for name, one in command.commands.items():
            yield from commands(one, f"{path} {name}".strip())
    else:
        yield path, command


COMMANDS = dict(commands(cli))


def example(command: click.Command) -> str:
    return (command.epilog or "").partition("kafkats ")[2]


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "data").mkdir()
    root = case("retention-4.3.1").unpack("before", tmp_path / "data")
    (root / "time-all-0").rename(root / "orders-0")
    (tmp_path / "policy.yaml").write_text('topics: {"*": {cleanup.policy: delete}}')
    (tmp_path / "committed.csv").write_text("orders,0,60\n")
    (tmp_path / "script.jsonl").write_text(SCRIPT)
    monkeypatch.chdir(tmp_path)
    return root


def test_examples_run(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Each plan is made, but only one is applied. The ledger has no canary to approve."""
    hour = ("--from", "2020-09-13T12:00:00Z", "--until", "2020-09-13T13:00:00Z")
    for table in ("first.table", "second.table"):
        assert run(capsys, "lookup", data, "--every", "1m", *hour, "-o", table)[0] == 0
    shutil.rmtree(data / "size-0")
    index = next(data.glob("orders-0/*.timeindex"))
    kept = index.read_bytes()
    index.write_bytes(b"")
    order = {"show": 1, "dump": 1, "apply": 2, "undo": 3, "purge": 4, "ledger show": 4}
    for name, command in sorted(COMMANDS.items(), key=lambda one: order.get(one[0], 0)):
        words = shlex.split(example(command).replace(DATA, str(data)))
        if name == "apply":
            words[-1] = "any"
        if name == "dump":
            words[-1] = str(index)
        code, _, err = run(capsys, *words)
        expected = {2, 3} if name == "ledger approve" else {0, 1}
        assert code in expected, (name, code, err)
    assert index.read_bytes() in (b"", kept)


@pytest.mark.parametrize("name", COMMANDS)
def test_help_fits_and_ends_with_the_example(
    name: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(os.environ, "COLUMNS", "120")
    code, out, _ = run(capsys, *name.split(), "--help")
    assert code == 0 and max(map(len, out.splitlines())) <= 100
    last = out.rstrip().splitlines()[-1].strip()
    assert last == f"kafkats {example(COMMANDS[name])}"
    assert last.startswith(f"kafkats {name} ")
