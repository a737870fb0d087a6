"""Files that the kernel reads before they are looked at: all of them, and no more than there is room for."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from conformance import page_cache
from kafkats.execution import processors
from kafkats.execution.read_ahead import reading_ahead
from tools.kube.lab import until

MIB = 1024**2


@pytest.fixture
def files(tmp_path: Path) -> list[Path]:
    """Two files of 8 MiB that are on the disk alone."""
    made = [tmp_path / "one", tmp_path / "two"]
    for path in made:
        path.write_bytes(os.urandom(8 * MIB))
    page_cache.drop(made)
    if page_cache.cached(made):
        pytest.skip("this file system is in memory")
    return made


def test_all_files_are_read_and_others_passed(files: list[Path], tmp_path: Path) -> None:
    with reading_ahead([files[0], tmp_path / "gone", tmp_path, files[1]], 32 * MIB):
        until(lambda: page_cache.cached(files) == 16 * MIB)


def test_no_more_is_read_than_there_is_room_for(files: list[Path]) -> None:
    with reading_ahead(files, 1) as ahead:
        until(lambda: page_cache.cached(files[:1]) >= 2 * MIB)
        assert not page_cache.cached(files[1:])
        ahead.used(32 * MIB)
        until(lambda: page_cache.cached(files) == 16 * MIB)


def test_the_room_is_a_part_of_the_free_memory() -> None:
    assert 0 < processors.free_bytes() < os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
