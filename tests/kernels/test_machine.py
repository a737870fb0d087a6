"""Machine code of kernels: it does what numba's dispatchers do, and only whole code of these sources is run."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kafkats.errors import UsageError
from kafkats.kernels import machine
from kafkats.kernels import walk_state as k
from kafkats.kernels.cells import pick
from kafkats.kernels.crc import crc_addresses
from kafkats.kernels.jit import Entry
from kafkats.kernels.records import judge
from kafkats.kernels.walk import walk
from kafkats.kernels.zstd import is_window_allowed
from tests.golden import Unpacked

CASES = ("crash-0.8.2.2", "crash-0.10.2.2", "crash-4.3.1")  # magic 0, 1, 2
LOADED = """
import sys
from kafkats.segment.reader import open_source
from kafkats.segment.walk import walk
with open_source(sys.argv[1]) as source:
    print(walk(source, 0).facts.valid_bytes, *[name in sys.modules for name in ("numba", "llvmlite")])
"""
WITHOUT_COMPILER = "import sys; sys.modules['numba'] = sys.modules['llvmlite'] = None" + LOADED


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The only folder for machine code, and no library."""
    monkeypatch.setattr(machine, "_folders", lambda: iter([tmp_path]))
    monkeypatch.setattr(machine, "library", lambda: None)
    return tmp_path


@pytest.fixture(scope="module")
def content() -> bytes:
    """The object file of the smallest kernel."""
    return machine.compiled_object(is_window_allowed)


def windows(log: bytes, *, broken: int) -> Iterator[list[int]]:
    """The five numbers of the windows of a third of a log."""
    data = np.frombuffer(log, np.uint8).copy()
    if broken >= 0:
        data[broken % len(data)] ^= 1
    for part in (1, 2, 3):
        yield [data.ctypes.data, 0, len(log), len(log) * part // 3, len(log)]


def state_after(kernel: Callable[..., int], log: bytes, *, broken: int) -> list[object]:
    """Walk over a log in windows of a third, with few points at once. Return all that it wrote."""
    state, table = k.new_state(), k.new_table()
    points, seen = np.zeros((3, k.POINT_COLUMNS), np.int64), []
    state[k.INTERVAL] = 64
    state[k.CRC32], state[k.CRC32C] = crc_addresses()
    for window in windows(log, broken=broken):
        state[:5] = window
        while (why := kernel(state, table, points)) == k.POINTS_FULL:
            seen.append(points.tolist())
            state[k.POINTS] = 0
        seen.append([why, *state[5:].tolist()])
    return [seen, points.tolist(), table.tolist()]


def logs(root: Path) -> Iterator[bytes]:
    """The smaller logs of a case: with small windows Python's part takes long."""
    for path in sorted(root.rglob("*.log")):
        if 0 < path.stat().st_size < 200_000:
            yield path.read_bytes()


@pytest.mark.slow(6)
@pytest.mark.parametrize("name", CASES)
def test_it_writes_what_numbas_dispatcher_writes(golden: Unpacked, name: str) -> None:
    seen = 0
    for log in logs(golden(name, "before")):
        for broken in (-1, len(log) // 2, 16, len(log) - 1):
            ours = state_after(walk, log, broken=broken)
            assert ours == state_after(walk.compiled, log, broken=broken)
            seen += 1
    assert seen > 4


def test_a_damaged_file_is_not_run(content: bytes) -> None:
    name = machine.symbol(is_window_allowed)
    assert machine.load(name, content)
    for damaged in (b"", content[:-1], content[:70], content + b"\0", b"x" + content):
        assert machine.load(name, damaged) == 0
    assert machine.load("another_name", content) == 0


def test_a_damaged_file_is_replaced_and_a_whole_one_is_not_compiled_again(
    folder: Path, content: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = folder / machine._file_name(is_window_allowed)
    path.write_bytes(content[:100])
    with monkeypatch.context() as patch:
        patch.setattr(machine, "compiled_object", lambda kernel: content)
        assert machine.native(is_window_allowed).address
    assert path.read_bytes() == content
    assert list(folder.iterdir()) == [path]
    monkeypatch.delattr(machine, "compiled_object")
    assert machine.native(is_window_allowed).address


def test_another_processor_source_and_setting_have_files_of_their_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from llvmlite import binding as llvm

    names = {machine._file_name(walk)}
    with monkeypatch.context() as patch:
        patch.setattr(llvm, "get_host_cpu_name", lambda: "another")
        names.add(machine._file_name(walk))
    with monkeypatch.context() as patch:
        patch.setenv("NUMBA_BOUNDSCHECK", "1")
        names.add(machine._file_name(walk))
    (tmp_path / "walk.py").write_text("another")
    monkeypatch.setattr(machine, "_HERE", tmp_path)
    names.add(machine._file_name(walk))
    assert len(names) == 4


def test_arrays_of_another_kind_are_refused() -> None:
    state, table, points = k.new_state(), k.new_table(), np.zeros((1, k.POINT_COLUMNS), np.int64)
    for wrong in (state.astype(np.int32), np.zeros(2 * len(state), np.int64)[::2], table):
        with pytest.raises(TypeError, match=r"not|gaps"):
            walk(wrong, table, points)
    with pytest.raises(ValueError, match="zip"):
        walk(state, table)  # type: ignore[call-arg]


def test_arrays_may_be_empty_or_read_only() -> None:
    none, rows = np.empty(0, np.int64), np.zeros((1, 4), np.int64)
    rows.flags.writeable = False
    epochs, reasons = np.empty(1, np.int32), np.empty(1, np.int8)
    words, numbers = np.arange(4), np.empty((3, 1), np.int64)
    pick(rows, none, none, words, numbers, epochs, reasons)
    pick(rows, np.zeros(1, np.int64), np.zeros(1, np.int64), words, numbers, epochs, reasons)
    assert (numbers[:, 0].tolist(), epochs.tolist(), reasons.tolist()) == ([0, 0, 0], [0], [0])


def test_results_are_of_their_types() -> None:
    assert is_window_allowed(0, 5) is False
    state = np.zeros(100, np.int64)
    assert judge.function.__annotations__["return"] == "None"
    judge(state, 7, False)
    assert type(walk(k.new_state(), k.new_table(), np.zeros((1, 5), np.int64))) is int


def test_every_parameter_is_a_number_or_an_array_that_is_known() -> None:
    from kafkats.kernels import emit

    for kernel in emit.entries():
        *given, result = machine.kinds(kernel)
        assert result in {"int", "bool", "None"}
        assert set(given) <= {"int", "bool", *machine.ARRAYS}, machine.symbol(kernel)


def test_without_machine_code_and_compiler_one_sentence_says_what_to_install(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("llvmlite", "numba"):
        monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.delitem(sys.modules, "kafkats.kernels.emit", raising=False)
    fresh: Entry[Any, int] = Entry(walk.function)
    with pytest.raises(UsageError, match=r"kafkats\[compile\]"):
        fresh(k.new_state(), k.new_table(), np.zeros((1, 5), np.int64))


def test_a_library_of_another_source_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in (f"kernels-{'0' * 12}.so", machine.library_name()):
        (tmp_path / name).write_bytes(b"no library")
        monkeypatch.setenv("KAFKATS_KERNELS", str(tmp_path / name))
        with pytest.raises(UsageError, match="no kernels of this source"):
            machine.library.__wrapped__()
    monkeypatch.delenv("KAFKATS_KERNELS")
    monkeypatch.setattr(machine, "_HERE", tmp_path)
    assert machine.library.__wrapped__() is None


def read_log(golden: Unpacked, tmp_path: Path, script: str, **env: str) -> list[str]:
    """Walk over a log in a process of its own."""
    log = tmp_path / "00000000000000000000.log"
    log.write_bytes(next(logs(golden("clean-start-4.3.1", "before"))))
    done = subprocess.run(
        [sys.executable, "-c", script, str(log)],
        env=os.environ | env, capture_output=True, text=True, check=True,
    )  # fmt: skip
    size, *loaded = done.stdout.split()
    assert int(size) == log.stat().st_size
    return loaded


def test_what_was_compiled_here_runs_without_numba(golden: Unpacked, tmp_path: Path) -> None:
    assert walk.address  # stores it
    assert read_log(golden, tmp_path, LOADED) == ["False", "True"]


@pytest.mark.full(40)
def test_a_library_does_without_numba_what_the_reference_does(
    golden: Unpacked, tmp_path: Path
) -> None:
    """All kernels, over extreme numbers, by the library that is built ahead."""
    built = subprocess.run(
        [sys.executable, "-m", "tools.kernels_library", str(tmp_path)],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    library = {"KAFKATS_KERNELS": built.stdout.strip()}
    assert read_log(golden, tmp_path, WITHOUT_COMPILER, **library) == ["True", "True"], "None both"
    done = subprocess.run(
        [sys.executable, "-m", "tests.kernels.extremes", str(tmp_path / "case")],
        env=os.environ | library, capture_output=True, text=True, timeout=3600, check=False,
        cwd=Path(__file__).parents[2],
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-4000:]
