from __future__ import annotations

from pathlib import Path

import pytest

from kafkats import paths
from kafkats.logdir.partition import scan_partition
from kafkats.logdir.smallfiles import check_small_files, list_small_files, small_files_of
from kafkats.logdir.snapshot import encode_snapshot

BETWEEN = paths.segment_file(7, paths.SNAPSHOT)
AT_BASE = paths.segment_file(0, paths.SNAPSHOT)
SOUND = {
    paths.segment_file(0, paths.LOG): b"",
    paths.LEADER_EPOCH: b"0\n1\n0 0\n",
    paths.PARTITION_METADATA: b"version: 0\ntopic_id: ReDZO1yhTC-U2AUHaQiqug",
    AT_BASE: encode_snapshot([]),
    BETWEEN: encode_snapshot([]),
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, data in SOUND.items():
        (tmp_path / name).write_bytes(data)
    return tmp_path


def test_sound(folder: Path) -> None:
    assert check_small_files(folder, list_small_files(folder)) == ()


@pytest.mark.parametrize(
    ("name", "words"),
    [
        (paths.LEADER_EPOCH, "do not start"),
        (paths.PARTITION_METADATA, "whose directory"),
        (AT_BASE, "rebuilds producer state"),
        (BETWEEN, "rebuilds producer state"),
    ],
)
def test_cut_by_a_byte(folder: Path, name: str, words: str) -> None:
    (folder / name).write_bytes(SOUND[name][:-3])
    (found,) = check_small_files(folder, list_small_files(folder))
    assert (found.kind, found.file) == ("unreadable", name)
    assert found.position >= 0
    assert words in found.reason


def test_gone_meanwhile(folder: Path) -> None:
    seen = list_small_files(folder)
    (folder / BETWEEN).unlink()
    assert [(f.kind, f.file) for f in check_small_files(folder, seen)] == [("vanished", BETWEEN)]


def test_regular_files_of_segments_and_others_are_listed_in_order(folder: Path) -> None:
    later = paths.segment_file(9, paths.TXN_INDEX)
    for name in (
        paths.segment_file(9, paths.LOG),
        paths.segment_file(9, paths.SNAPSHOT),
        later,
        paths.segment_file(0, paths.TXN_INDEX),
        paths.segment_file(8, paths.TXN_INDEX),
        paths.segment_file(0, paths.OFFSET_INDEX),
        f"{paths.segment_file(0, paths.SNAPSHOT)}.deleted",
        "7.snapshot",
    ):
        (folder / name).touch()
    (folder / paths.segment_file(3, paths.SNAPSHOT)).symlink_to(BETWEEN)
    (folder / paths.segment_file(5, paths.SNAPSHOT)).mkdir()
    files = list_small_files(folder)
    last = paths.segment_file(9, paths.SNAPSHOT)
    assert files.names == (paths.LEADER_EPOCH, paths.PARTITION_METADATA, BETWEEN, AT_BASE, last)
    assert files.transactions == (paths.segment_file(0, paths.TXN_INDEX), later)
    assert small_files_of(scan_partition(folder)) == files
