"""The stored walk kernel: it does what numba's does, and only whole files of this machine are run."""

from __future__ import annotations

import hashlib
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from llvmlite import binding as llvm

from kafkats.kernels import walk_state as k
from kafkats.kernels.walk import walk
from kafkats.segment import stored_walk
from kafkats.segment.stored_walk import (
    Walk,
    checksum_addresses,
    compiled_object,
    load,
    walk_kernel,
)
from tests.golden import Unpacked

CASES = ("crash-0.8.2.2", "crash-0.10.2.2", "crash-4.3.1")  # magic 0, 1, 2
WITHOUT_NUMBA = """
import sys
sys.modules["numba"] = None
from kafkats.segment.reader import open_source
from kafkats.segment.walk import walk
with open_source(sys.argv[1]) as source:
    print(walk(source, 0).facts.valid_bytes)
"""


@pytest.fixture(scope="module")
def content() -> bytes:
    walk_kernel()  # stores it, where a folder can be written
    files = [folder / stored_walk._file_name() for folder in stored_walk._folders()]
    return next((file.read_bytes() for file in files if file.exists()), None) or compiled_object()


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The only folder for machine code."""
    monkeypatch.setattr(stored_walk, "_folders", lambda: iter([tmp_path]))
    return tmp_path


def state_after(kernel: Walk, log: bytes, *, broken: int = -1) -> list[object]:
    """Walk over a log in windows of a third, with few points at once. Return all that it wrote."""
    data = np.frombuffer(log, np.uint8).copy()
    if broken >= 0:
        data[broken % len(data)] ^= 1
    state, table = k.new_state(), k.new_table()
    points, seen = np.zeros((3, k.POINT_COLUMNS), np.int64), []
    state[k.INTERVAL] = 64
    state[k.CRC32], state[k.CRC32C] = checksum_addresses()
    for part in (1, 2, 3):
        limit = len(log) * part // 3
        state[:5] = data.ctypes.data, 0, len(log), limit, len(log)
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


@pytest.mark.parametrize("name", CASES)
def test_it_writes_what_numbas_kernel_writes(golden: Unpacked, content: bytes, name: str) -> None:
    stored, seen = load(content), 0
    assert stored is not None
    for log in logs(golden(name, "before")):
        for broken in (-1, len(log) // 2, 16, len(log) - 1):
            assert state_after(stored, log, broken=broken) == state_after(walk, log, broken=broken)
            seen += 1
    assert seen > 4


def test_a_damaged_file_is_not_run(content: bytes) -> None:
    for damaged in (b"", content[:-1], content[:70], content + b"\0", b"x" + content):
        assert load(damaged) is None


def test_a_file_without_the_kernel_is_not_run(content: bytes) -> None:
    _, _, code = content.split(b"\n", 2)
    other = b"another_name\n" + code
    digest = hashlib.sha256(other).hexdigest().encode()
    assert load(digest + b"\n" + other) is None


def test_a_kernel_that_answers_wrongly_is_not_run() -> None:
    def says_nothing(state: object, table: object, points: object) -> int:
        return 0

    assert stored_walk._answers(walk)
    assert not stored_walk._answers(says_nothing)


def test_a_damaged_file_is_replaced(
    folder: Path, content: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = folder / stored_walk._file_name()
    path.write_bytes(content[:100])
    monkeypatch.setattr(stored_walk, "compiled_object", lambda: content)
    assert stored_walk._stored() is not None
    assert path.read_bytes() == content
    assert list(folder.iterdir()) == [path]


def test_a_whole_file_is_not_compiled_again(
    folder: Path, content: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / stored_walk._file_name()).write_bytes(content)
    monkeypatch.delattr(stored_walk, "compiled_object")
    assert stored_walk._stored() is not None


def test_without_a_folder_numba_loads_the_kernel(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setattr(stored_walk, "_folders", lambda: iter([tmp_path / "file" / "folder"]))
    assert stored_walk._stored() is None
    assert stored_walk._compiled() is walk


def test_other_settings_of_numba_are_numbas(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NUMBA_BOUNDSCHECK", "1")
    assert stored_walk._stored() is None


def test_another_processor_and_another_source_have_files_of_their_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = {stored_walk._file_name()}
    with monkeypatch.context() as patch:
        patch.setattr(llvm, "get_host_cpu_name", lambda: "another")
        names.add(stored_walk._file_name())
    (tmp_path / "walk.py").write_text("another")
    monkeypatch.setattr(stored_walk, "_KERNELS", tmp_path)
    names.add(stored_walk._file_name())
    assert len(names) == 3


def test_an_array_of_another_kind_is_refused(content: bytes) -> None:
    stored = load(content)
    assert stored is not None
    state, table, points = k.new_state(), k.new_table(), np.zeros((1, k.POINT_COLUMNS), np.int64)
    for wrong in (state.astype(np.int32), np.zeros(2 * len(state), np.int64)[::2]):
        with pytest.raises(TypeError, match="does not take"):
            stored(wrong, table, points)


def test_a_log_is_read_without_numba(golden: Unpacked, tmp_path: Path) -> None:
    walk_kernel()  # stores it
    log = tmp_path / "00000000000000000000.log"
    log.write_bytes(next(logs(golden("clean-start-4.3.1", "before"))))
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_NUMBA, str(log)],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert int(done.stdout) == log.stat().st_size
