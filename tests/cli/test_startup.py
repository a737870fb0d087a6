"""A process of the command line loads what its command needs, and prints what the library prints."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import click
import pytest

from kafkats.cli import cli, startup
from tests.golden import Unpacked

HEAVY = ("numpy", "numba", "llvmlite", "pyarrow", "pandas", "pyarrow.dataset")
PROGRAM = """
import atexit, sys
from kafkats.{entry} import main
atexit.register(
    lambda: print([name for name in {heavy!r} if name in sys.modules], file=sys.stderr)
)
sys.argv = ["kafkats", *sys.argv[1:]]
main()
"""


def process(words: Sequence[str | Path], entry: str = "__main__") -> tuple[int, str, str]:
    """Run a command in a process of its own: its code, its output, and the heavy modules it loaded."""
    program = PROGRAM.format(entry=entry, heavy=HEAVY)
    done = subprocess.run(
        [sys.executable, "-c", program, *map(str, words)],
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout, done.stderr.splitlines()[-1]


INTERRUPTED = """
import os, signal, sys
from kafkats.__main__ import main
class Press:
    @staticmethod
    def find_spec(name, path=None, target=None):
        if name == {module!r}:
            os.kill(os.getpid(), signal.SIGINT)
sys.meta_path.insert(0, Press)
signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored if the tests run in a script
sys.argv = ["kafkats", *sys.argv[1:]]
main()
"""


@pytest.mark.parametrize("module", ["kafkats.cli.startup", "kafkats.lookup.latency"])
def test_ctrl_c_is_one_line_and_130(module: str, golden: Unpacked) -> None:
    """While a process starts, and while its command runs."""
    root = golden("matrix-2.8.2-v1", "data")
    done = subprocess.run(
        [sys.executable, "-c", INTERRUPTED.format(module=module), "latency", str(root)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "\nkafkats: interrupted\n")


@pytest.mark.parametrize(
    "words", [["--version"], ["--help"], ["apply", "--help"], ["plan", "rebuild", "--help"]]
)
def test_help_loads_nothing_heavy(words: list[str]) -> None:
    code, out, loaded = process(words)
    assert (code, loaded) == (0, "[]")
    assert out


def test_commands_without_tables_load_no_pyarrow(golden: Unpacked, tmp_path: Path) -> None:
    ledger, root = tmp_path / "ledger", golden("matrix-2.8.2-v1", "data")
    begin = ["ledger", "begin", ledger, "--from-magic", "1", "--to-magic", "2", "--broker", "1"]
    for words in (begin, ["ledger", "show", ledger], ["release", root]):
        code, _, loaded = process(words)
        assert (code, loaded) == (0, "[]"), words


@pytest.mark.slow(2)
@pytest.mark.parametrize(
    ("case", "state"), [("matrix-2.8.2-v1", "data"), ("matrix-4.3.1-v2", "data")]
)
def test_a_directory_is_verified_without_numba(
    golden: Unpacked, tmp_path: Path, case: str, state: str
) -> None:
    root = golden(case, state)
    # The first process compiles the kernel if nobody has, and stores it for the other.
    slow, fast = (process(["verify", root, "--json"], entry) for entry in ("cli", "__main__"))
    assert fast[:2] == slow[:2]
    assert fast[2] == "['numpy', 'llvmlite', 'pyarrow']"


@pytest.mark.parametrize("word", ["--help", "--halp"])
def test_a_process_without_teardown_says_the_same(word: str) -> None:
    fast, slow = (process([word], entry) for entry in ("__main__", "cli"))
    assert fast == slow
    assert fast[0] == (0 if word == "--help" else 2)


@pytest.mark.parametrize("entry", ["__main__", "cli"])
def test_an_output_that_nobody_reads_is_an_error(entry: str) -> None:
    program = PROGRAM.format(entry=entry, heavy=HEAVY)
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-c", program, "--version"],
            stdout=full,
            stderr=subprocess.DEVNULL,
            check=False,
        )
    assert done.returncode != 0


def sentences_of(command: click.Command, name: str) -> Iterator[tuple[str, str]]:
    """(command, its sentence in the list of its group)"""
    yield name, command.get_short_help_str(limit=1000)
    for sub in command.commands.values() if isinstance(command, click.Group) else ():
        yield from sentences_of(sub, f"{name} {sub.name}".strip())


def test_the_list_of_commands_is_not_cut_in_80_columns() -> None:
    """click cuts the first sentence of a command with ... where it does not fit."""
    assert {name: text for name, text in sentences_of(cli, "") if len(text) > 63} == {}


def test_a_command_that_kafkats_becomes_gets_its_preloaded_libraries_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The self-contained program sets them aside (tools/start.c)."""
    monkeypatch.setattr(startup, "_before", {"A": "1", "KAFKATS_LD_PRELOAD": "/x.so"})
    assert startup.environment() == {"A": "1", "LD_PRELOAD": "/x.so"}


@pytest.mark.parametrize("given", [{}, {"LC_CTYPE": "C"}, {"LC_CTYPE": "C.UTF-8"}])
def test_a_command_that_kafkats_becomes_gets_the_locale_as_it_was(given: dict[str, str]) -> None:
    """In a C locale Python sets LC_CTYPE."""
    program = "from kafkats.cli import startup; print(startup.environment().get('LC_CTYPE'))"
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=True,
        env={"PATH": os.environ["PATH"], **given},
    )
    assert done.stdout == f"{given.get('LC_CTYPE')}\n"


def test_the_locale_stays_where_the_system_does_not_tell_what_a_process_got(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(startup, "_ENVIRON", tmp_path / "none")
    monkeypatch.setenv("LC_CTYPE", "C.UTF-8")
    assert startup.environment()["LC_CTYPE"] == "C.UTF-8"
