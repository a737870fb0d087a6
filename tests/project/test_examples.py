"""The examples that people copy work on real log directories; fragments of the change log make a change log."""

from __future__ import annotations

import csv
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from kafkats.cli.command import run
from kafkats.cli.session import Session
from kafkats.config.reading import read_policy
from tests.golden import Unpacked
from tests.recovery.crashed import some_of

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"
POLICIES = sorted((EXAMPLES / "policies").glob("*.yaml"))
FRAGMENTS = sorted(path for path in (ROOT / "changes").iterdir() if path.name != "README.md")
KILLED = ("untouched-0", "torn-0")


def ended(script: str, *words: object, code: int) -> str:
    """The output of an example script, which ends with this code; kafkats is the one that is tested."""
    bin_dir = Path(sys.executable).parent
    env = os.environ | {"PATH": f"{bin_dir}:{os.environ['PATH']}", "PYTHONPATH": str(ROOT)}
    command = ["bash", EXAMPLES / "scripts" / script, *map(str, words)]
    done = subprocess.run(
        command, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True
    )
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout


def test_every_example_is_in_the_list() -> None:
    listed = set(
        re.findall(
            r"\]\(((?:policies|scripts|notebooks)/[^)]+)\)", (EXAMPLES / "README.md").read_text()
        )
    )
    files = {str(path.relative_to(EXAMPLES)) for path in EXAMPLES.glob("*/*")}
    assert listed == files and len(files) >= 7


@pytest.mark.parametrize("path", POLICIES, ids=lambda path: path.stem)
def test_a_policy_is_read_and_plans(path: Path, golden: Unpacked, tmp_path: Path) -> None:
    policy = read_policy(path)
    assert policy.settings(
        "clicks-eu" if path.stem != "cluster" else "metrics-eu"
    ).cleanup_policy == ("delete",)
    root = some_of(golden, "crash-4.3.1", ("untouched-0",), tmp_path / "data")
    words = [
        "plan",
        "retain",
        str(root),
        "--policy",
        str(path),
        "-o",
        str(tmp_path / "plan"),
    ]
    assert run(words, Session()) in (0, 1)
    assert json.loads((tmp_path / "plan" / "plan.json").read_text())["totals"]["write_bytes"] == 0


@pytest.mark.slow(6)
def test_after_a_kill(golden: Unpacked, tmp_path: Path) -> None:
    root = some_of(golden, "crash-4.3.1", ("untouched-0",), tmp_path / "data")
    out = ended("after-a-kill.sh", "4.3", tmp_path / "plan", root, code=0)
    assert "recovers 1 segment, 0 B" in out.rpartition("proved:")[2]
    torn = some_of(golden, "crash-4.3.1", KILLED, tmp_path / "torn")
    out = ended("after-a-kill.sh", "4.3", tmp_path / "second", torn, code=1)
    assert "torn-0: the log ends at 97, below its high watermark 100" in out


@pytest.mark.slow(3)
def test_check_every_night(golden: Unpacked, tmp_path: Path) -> None:
    root = some_of(golden, "crash-4.3.1", ("untouched-0",), tmp_path / "data")
    ended("check-every-night.sh", tmp_path / "report", root, code=0)
    (root / "untouched-0" / "00000000000000000042.timeindex").unlink()
    ended("check-every-night.sh", tmp_path / "second", root, code=1)
    rows = [json.loads(line) for line in (tmp_path / "second.json").read_text().splitlines()]
    assert "missing-index" in [row.get("kind") for row in rows]


def test_replay_from(golden: Unpacked, tmp_path: Path) -> None:
    root = some_of(golden, "crash-4.3.1", KILLED, tmp_path / "data")
    ended(
        "replay-from.sh", "2020-01-01T00:00:00Z", "billing", tmp_path / "offsets.csv", root, code=0
    )
    with (tmp_path / "offsets.csv").open() as file:
        assert list(csv.reader(file)) == [
            ["billing", "torn", "0", "0"],
            ["billing", "untouched", "0", "0"],
        ]


@pytest.mark.slow(8)
def test_the_notebook_runs(golden: Unpacked, tmp_path: Path) -> None:
    root = some_of(golden, "crash-4.3.1", ("untouched-0",), tmp_path / "data")
    [notebook] = (EXAMPLES / "notebooks").glob("*.ipynb")
    cells = json.loads(notebook.read_text())["cells"]
    code = "\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "code")
    env = os.environ | {"LOG_DIR": str(root), "AT": "2020-01-01T00:00:00Z", "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-c", code], env=env, cwd=tmp_path, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    # of 100 offsets one is of a transaction marker
    assert re.search(r"untouched +0 +0 +99\b", done.stdout), done.stdout
    assert all(not cell.get("outputs") for cell in cells)


@pytest.mark.parametrize("path", FRAGMENTS, ids=lambda path: path.name)
def test_a_fragment_is_a_paragraph_of_a_known_type(path: Path) -> None:
    assert re.fullmatch(r"[a-z0-9-]+\.(added|changed|fixed|removed|security)\.md", path.name)
    text = path.read_text()
    assert text.endswith(".\n") and text.count("\n") == 1


def test_the_fragments_make_a_change_log() -> None:
    draft = subprocess.run(
        [sys.executable, "-m", "towncrier", "build", "--draft", "--version", "9.9.9"],
        cwd=ROOT, capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    assert "## 9.9.9" in draft and "### Fixed" in draft
    for path in FRAGMENTS:
        assert path.read_text().split()[0] in draft
