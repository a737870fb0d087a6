"""The cache of compiled kernels: machine code of an earlier source is never run."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from kafkats.kernels import jit

SHARED = """
from kafkats.kernels.jit import kernel

@kernel
def limit():
    return {limit}
"""
USER = """
from kafkats.kernels.jit import kernel
from kafkats.kernels.{shared} import limit

@kernel
def twice():
    return 2 * limit()
"""
ASK = """
from kafkats.kernels.user import twice
from kafkats.kernels import user
print(twice(), sum(getattr(twice, 'compiled', twice).stats.cache_hits.values()))
"""
BY_NUMBA_ALONE = """
import numba
def kernel(function):
    return numba.njit(function, nogil=True, cache=True)
"""
"""How kernels were compiled before."""


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A copy of the package's top and of its kernels, with two more: `user` inlines what lies in `shared`."""
    kernels = tmp_path / "kafkats" / "kernels"
    kernels.mkdir(parents=True)
    here = Path(jit.__file__).parent
    for path in (*here.glob("*.py"), *here.parent.glob("*.py")):
        shutil.copy(path, tmp_path / path.relative_to(here.parents[1]))
    (kernels / "shared.py").write_text(SHARED.format(limit=21))
    (kernels / "user.py").write_text(USER.format(shared="shared"))
    return tmp_path


def ask(tree: Path) -> tuple[int, int]:
    """What `twice` answers in a process of its own, and how often it was found in the cache."""
    env = os.environ | {"PYTHONPATH": str(tree), "NUMBA_CACHE_DIR": str(tree / "cache")}
    done = subprocess.run(
        [sys.executable, "-c", ASK],
        env=env,
        cwd=tree,
        capture_output=True,
        text=True,
        check=True,
    )
    answer, hits = map(int, done.stdout.split())
    return answer, hits


def change(tree: Path) -> None:
    """A fix in the shared file; the file of the kernel that inlines it is as before."""
    (tree / "kafkats" / "kernels" / "shared.py").write_text(SHARED.format(limit=50))


@pytest.mark.slow(3)
def test_a_change_in_a_shared_file_reaches_a_warm_cache(tree: Path) -> None:
    assert ask(tree) == (42, 0)
    assert ask(tree) == (42, 1), "the cache is not used"
    change(tree)
    assert ask(tree) == (100, 0)
    assert ask(tree) == (100, 1)


@pytest.mark.slow(2)
def test_numba_alone_runs_the_machine_code_of_the_earlier_source(tree: Path) -> None:
    """Why the cache's names have a digest: with numba's own check of one file the change is lost."""
    (tree / "kafkats" / "kernels" / "jit.py").write_text(BY_NUMBA_ALONE)
    assert ask(tree) == (42, 0)
    change(tree)
    assert ask(tree) == (42, 1)


def test_a_kernel_keeps_its_name() -> None:
    def some_loop() -> int:
        return 1

    compiled = jit.kernel(some_loop)
    assert compiled() == 1
    assert compiled.__qualname__.endswith("some_loop")
    assert some_loop.__qualname__.endswith("some_loop")
