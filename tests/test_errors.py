"""Questions to a disk that fails are answered with an error of ours."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

import pytest

from kafkats.errors import (
    DiskFull,
    Holder,
    Reserved,
    StorageFailed,
    exists,
    is_file,
    is_out_of_memory,
)


def test_the_fields_cross_a_process_border_and_are_json() -> None:
    holders = [Holder("/a", "ada@host plan", 5), Holder("/b", "airflow x y", 6)]
    held = pickle.loads(pickle.dumps(Reserved("reserved", path="/a", holders=holders)))
    assert held.holders == tuple(holders) and held.as_fields() == {
        "error": "/a: reserved",
        "kind": "Reserved",
        "retryable": False,
        "path": "/a",
        "holders": [asdict(one) for one in holders],
    }
    full = DiskFull("no", position=0, base_offset=7, numbers={"needed_bytes": 2, "free_bytes": 0})
    assert pickle.loads(pickle.dumps(full)).as_fields() == {
        "error": "at byte 0: no",
        "kind": "DiskFull",
        "retryable": True,
        "position": 0,
        "base_offset": 7,
        "numbers": {"needed_bytes": 2, "free_bytes": 0},
    }
    assert list(StorageFailed("no").as_fields()) == ["error", "kind", "retryable"]


def test_what_is_there(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    assert exists(file, "looking") and is_file(file, "looking")
    assert exists(tmp_path, "looking") and not is_file(tmp_path, "looking")
    assert not exists(tmp_path / "none", "looking") and not is_file(tmp_path / "none", "looking")


@pytest.mark.parametrize("ask", [exists, is_file])
def test_a_place_that_cannot_be_looked_at(tmp_path: Path, ask: Callable[[Path, str], bool]) -> None:
    with pytest.raises(StorageFailed, match="looking for it: "):
        ask(tmp_path / ("x" * 300), "looking for it")


@pytest.mark.parametrize(
    ("error", "ended"),
    [
        (MemoryError(), True),
        (ImportError("libarrow.so: failed to map segment from shared object"), True),
        (OSError(12, "Cannot allocate memory"), True),
        (RuntimeError("can't start new thread"), True),
        (SystemError("error return without exception set"), True),
        (ImportError("No module named 'numba'"), False),
        (OSError(28, "No space left on device"), False),
    ],
)
def test_memory_ended(error: Exception, ended: bool) -> None:
    assert is_out_of_memory(error) == ended
    try:
        try:
            raise error
        except Exception as e:
            raise OSError("Could not find a library") from e
    except OSError as e:
        assert is_out_of_memory(e) == ended, "a library's own error hides the loader's"
