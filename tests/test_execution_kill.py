"""kill -9 while two worker processes apply a plan: one of them, or the command itself. Applying again finishes it, undo takes it back."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.builders.commands import run
from tests.golden import case, tree

ROOT = Path(__file__).parents[1]
GOLDEN = case("matrix-4.3.1-v2")
BROKEN = {
    "none-ct-0/00000000000000000043.timeindex": None,
    "zstd-lat-0/00000000000000000000.timeindex": None,
    "lz4-ct-0/00000000000000000000.timeindex": b"",
}

PROGRAM = """
import os, signal, sys, time
from pathlib import Path
from kafkats.execution import local
from kafkats.cli import main
from kafkats.logdir.disk import DISK
from tests.crash.watched import WatchedDisk

local.SMALL_BYTES, local._CHUNK_BYTES = 0, (0, 0)  # a worker for each of a few small partitions
parent, left = os.getppid(), [int(sys.argv[2])]

def count_down(*_):
    left[0] -= 1
    if left[0] < 0:
        until = time.monotonic() + 60  # the other worker has begun, too
        while len(os.listdir(sys.argv[3])) < 2 and time.monotonic() < until:
            time.sleep(0.01)
        os.kill(parent if sys.argv[1] == "parent" else os.getpid(), signal.SIGKILL)
        time.sleep(600)

if __name__ == "__mp_main__":
    Path(sys.argv[3], str(os.getpid())).touch()
    DISK.before_effect, DISK.__class__ = count_down, WatchedDisk

if __name__ == "__main__":
    main(sys.argv[4:])
"""


@pytest.fixture
def volume(tmp_path: Path) -> Path:
    root = tmp_path / "broker" / "data"
    root.mkdir(parents=True)
    GOLDEN.unpack("data", root)
    for name, data in BROKEN.items():
        (root / name).unlink()
        if data is not None:
            (root / name).write_bytes(data)
    return root


def kafkats(folder: Path, whom: str, at: int, *words: object) -> tuple[int, str, list[int]]:
    """Exit code, what was printed, and the ids of the workers; `whom` is killed before a worker's effect number `at`."""
    program, pids = folder / "program.py", folder / "pids"
    program.write_text(PROGRAM)
    pids.mkdir(exist_ok=True)
    ran = subprocess.run(
        [sys.executable, str(program), whom, str(at), str(pids), *map(str, words)],
        capture_output=True, text=True, check=False, env=os.environ | {"PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    workers = [int(path.name) for path in pids.iterdir()]
    for path in pids.iterdir():
        path.unlink()
    return ran.returncode, ran.stdout + ran.stderr, workers


def files_of(root: Path) -> dict[str, tuple[int, int, int, int]]:
    """Of all files, not of directories, whose times a rename changes, and not of the lock that apply makes."""
    return {
        name: seen for name, seen in tree(root).items() if stat.S_ISREG(seen[2]) and name != ".lock"
    }


@pytest.mark.examples(1)
@pytest.mark.parametrize("whom", ["worker", "parent"])
@pytest.mark.parametrize("at", [0, 9])
def test_killed(
    volume: Path, tmp_path: Path, whom: str, at: int, capsys: pytest.CaptureFixture[str]
) -> None:
    plan, before = tmp_path / "plan", files_of(volume)
    never = 10**9
    assert run(capsys, "plan", "rebuild", volume, "-o", plan)[0] == 0
    code, said, workers = kafkats(tmp_path, whom, at, "apply", plan, "--digest", "any", "--jobs", 2)
    assert len(workers) == 2, said
    if whom == "worker":
        assert (
            code == 2
            and "the worker process was killed by SIGKILL" in said
            and "Traceback" not in said
        )
        assert any(f"{volume / name.partition('/')[0]}: " in said for name in BROKEN), (
            "the error names the partition"
        )
    else:
        assert code == -9
    while any(Path(f"/proc/{pid}").exists() for pid in workers):
        time.sleep(0.05)
    whole = GOLDEN.files("data")
    for name in BROKEN:
        now = (volume / name).read_bytes() if (volume / name).exists() else None
        assert now == BROKEN[name] or len(now or b"") == whole[name][0], (
            f"{name} is neither old nor new"
        )
    code, said, workers = kafkats(
        tmp_path, whom, never, "apply", plan, "--digest", "any", "--jobs", 2
    )
    assert code == 0, said
    assert len(workers) == 2
    assert {name: (volume / name).stat().st_size for name in BROKEN} == {
        name: whole[name][0] for name in BROKEN
    }
    assert run(capsys, "undo", f"{plan}.run")[0] == 0
    assert files_of(volume) == before
