"""Results that are kept: which ones, how many bytes of them, and when they are made again."""

from __future__ import annotations

import errno
import gc
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from kafkats_airflow.reading import files
from kafkats_airflow.reading.files import Unreadable

from tests.ui.folders import DAY_MS, ended, volume


@pytest.fixture(autouse=True)
def nothing_kept() -> Iterator[None]:
    """Each test begins with no result."""

    def forget() -> None:
        files._parsed.clear()
        files._bytes[0] = files._frozen[0] = 0

    forget()
    yield
    forget()


def test_a_read_error_is_not_kept(tmp_path: Path) -> None:
    errors = [OSError(errno.EIO, "Input/output error"), OSError(errno.ESTALE, "Stale file handle")]

    def read(path: Path) -> str:
        if errors:
            raise errors.pop()
        return path.read_text()

    (tmp_path / "file").write_text("text")
    found = [files.cached(tmp_path / "file", read) for _ in range(3)]
    whys = [one.why if isinstance(one, Unreadable) else one for one in found]
    assert whys == ["stale file handle", "input/output error", "text"]


def test_the_last_results_of_a_function_are_kept_except_a_failure(tmp_path: Path) -> None:
    answers: list[Any] = [Unreadable(tmp_path, "it is busy"), None, "new"]

    @files.lately(2)
    def read(state: int) -> Any:
        return answers.pop(0)

    assert isinstance(read(1), Unreadable)
    assert [read(1), read(1), read(2)] == [None, None, "new"]


def test_what_may_not_last_is_made_once_and_not_kept(tmp_path: Path) -> None:
    made: list[int] = []

    def make() -> int:
        made.append(1)
        return len(made)

    for _ in range(3):
        files.remembered(tmp_path, "name", 1, make, lasts=lambda number: number > 1)
    assert len(made) == 2


def test_the_reports_of_all_runs_are_kept_within_a_number_of_bytes(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from kafkats_airflow.reading import runs, volumes

    made = [ended(folder, 1_800_000_000_000 - n, volume("/a")) for n in range(10)]
    size = sum((one / "overview.json").stat().st_size for one in made) // 10
    monkeypatch.setattr(files, "KEPT_BYTES", 4 * size + size // 2)
    found = runs.runs_in(folder, ["rebuild_time_indexes"])
    board = volumes.board(found, {}, time.time_ns() // 1_000_000 + DAY_MS)
    assert len(board.rows) == 1 and not board.unreadable
    kept = [key for key, one in files._parsed.items() if one.size]
    assert {name for _, name in kept} == {"volumes, of rebuild_time_indexes"}, "each report once"
    assert len(kept) == 4


def test_a_folder_that_is_too_large_is_read_again_in_part(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[int] = []
    now = 0.0
    monkeypatch.setattr(files, "KEPT_BYTES", 30)
    monkeypatch.setattr(time, "monotonic", lambda: now)

    def look() -> list[int]:
        made.clear()
        for n in range(5):
            files.remembered(tmp_path, str(n), 0, partial(made.append, n), lambda _: 10)
        return list(made)

    assert (look(), look()) == ([0, 1, 2, 3, 4], [3, 4])
    now = files._UNUSED_S
    files.remembered(tmp_path, "1", 0, object, lambda _: 10)
    files.remembered(tmp_path, "9", 0, object, lambda _: 10)
    assert [name for _, name in files._parsed] == ["2", "1", "9"], "0 was not used for long"


def test_the_collector_leaves_new_results_alone_and_no_replaced_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    frozen: list[int] = []
    monkeypatch.setattr(files, "_FROZEN_AT", 5)
    monkeypatch.setattr(gc, "freeze", lambda: frozen.append(1))
    for state in range(10):
        for n in range(5):
            files.remembered(tmp_path, str(n), state, object)
    assert len(frozen) == 1, "more results than ever before, once"
    for n in range(5, 15):
        files.remembered(tmp_path, str(n), 0, object)
    assert len(frozen) == 3
