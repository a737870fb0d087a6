"""Every other kind of file of a log directory, cut at every byte and flipped at every byte, through `dump` and a root scan.

Either rows come out, or an error of ours that names the file; and the error where the format lets one see the damage.
"""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kafkats.errors import BadInput, KafkatsError, StorageFailed, UsageError
from kafkats.inspect.dump import dump
from tests.builders.directories import scan_root
from tests.golden import Unpacked

ROOT_OF = ("root-4.3.1", "running")
FILES = {
    "recovery-point-offset-checkpoint": (
        "root-2.8.2",
        "running",
        "disk-a/recovery-point-offset-checkpoint",
    ),
    "replication-offset-checkpoint": ("matrix-4.1.0-v2", "data", "replication-offset-checkpoint"),
    "log-start-offset-checkpoint": ("retention-3.9.1", "after", "log-start-offset-checkpoint"),
    "cleaner-offset-checkpoint": ("compaction-2.8.2", "after", "cleaner-offset-checkpoint"),
    "meta.properties version 0": ("matrix-2.8.2-v2", "data", "meta.properties"),
    "meta.properties version 1": ("matrix-4.3.1-v2", "data", "meta.properties"),
    ".kafka_cleanshutdown": ("matrix-4.3.1-v2", "data", ".kafka_cleanshutdown"),
    "partition.metadata": ("matrix-4.3.1-v2", "data", "none-ct-0/partition.metadata"),
    "leader-epoch-checkpoint": (
        "upgrade-0.9-to-2.8",
        "data",
        "none-one-segment-0/leader-epoch-checkpoint",
    ),
}
BY_PATTERN = {
    "snapshot version 1": ("transactions-2.8.2", "data", "txn-0/*.snapshot"),
    "snapshot version 2": ("transactions-4.3.1", "data", "txn-0/*.snapshot"),
    "txnindex": ("transactions-2.8.2", "data", "txn-0/*.txnindex"),
}


@pytest.fixture(params=[*FILES, *BY_PATTERN])
def file(request: pytest.FixtureRequest, golden: Unpacked, tmp_path: Path) -> Path:
    """A private copy, under its own name."""
    case, state, name = (FILES | BY_PATTERN)[request.param]
    found = [p for p in sorted(golden(case, state).glob(name)) if p.stat().st_size]
    source = max(found, key=lambda p: p.stat().st_size)
    return Path(shutil.copy(source, tmp_path))


def rows(path: Path) -> list[dict[str, Any]] | KafkatsError:
    try:
        return list(dump(path))
    except KafkatsError as error:
        assert error.path == str(path), error
        assert isinstance(error, BadInput)
        assert error.position is None or 0 <= error.position <= path.stat().st_size, error
        return error


def test_the_undamaged_file_has_rows(file: Path) -> None:
    assert isinstance(rows(file), list)


def test_cut_at_every_byte(file: Path) -> None:
    content = file.read_bytes()
    whole = rows(file)
    for size in range(len(content) - 1, -1, -1):
        os.truncate(file, size)
        answer = rows(file)
        if isinstance(answer, list):
            assert cut_may_be_unseen(file, content, size), (size, content[:size])
            assert (
                answer != whole or content[size:].strip() == b"" or file.name == "meta.properties"
            ), size


def cut_may_be_unseen(file: Path, content: bytes, size: int) -> bool:
    """Whether what is left is a whole file: no format but the snapshot's has a checksum."""
    if file.suffix == ".snapshot":
        return False
    if file.suffix == ".txnindex":
        return size % 34 == 0
    if file.name.endswith("-checkpoint"):  # empty, or all lines there and the last number shorter
        return size == 0 or content[:size].count(b"\n") >= content.count(b"\n") - 1
    if file.name == "partition.metadata":  # the topic id has a length
        return size == len(content)
    return True  # properties may miss lines, the marker may be empty


@pytest.mark.parametrize("mask", [0x01, 0x80, 0xFF])
def test_every_byte_flipped(file: Path, mask: int) -> None:
    content = file.read_bytes()
    for at in range(len(content)):
        file.write_bytes(content[:at] + bytes([content[at] ^ mask]) + content[at + 1 :])
        answer = rows(file)
        if file.suffix == ".snapshot":
            assert isinstance(answer, BadInput), at
        elif mask == 0x80 and file.suffix != ".txnindex":
            assert isinstance(answer, BadInput), at  # a lone byte above 127 is no UTF-8


REPLACED: dict[str, Callable[[bytes], bytes]] = {
    "zeros": lambda b: bytes(len(b)),
    "zero tail": lambda b: b + bytes(4096),
    "text": lambda b: b"Lorem ipsum dolor sit amet\n" * 20,
    "binary": lambda b: bytes(range(256)) * 8,
    "one line without end": lambda b: b"1" * 100_000,
    "lines": lambda b: b"\n" * 10_000,
    "huge count": lambda b: b"0\n99999999999999999999\n",
    "twice": lambda b: b + b,
}


@pytest.mark.parametrize("how", REPLACED)
def test_other_content(file: Path, how: str) -> None:
    file.write_bytes(REPLACED[how](file.read_bytes()))
    answer = rows(file)
    if (
        how in ("text", "binary", "huge count")
        and file.suffix != ".txnindex"
        and file.name != "meta.properties"
    ):
        assert isinstance(answer, BadInput)


def test_a_root_whose_small_files_are_all_rubbish(golden: Unpacked, tmp_path: Path) -> None:
    """The scan goes on and names each of them."""
    root = tmp_path / "data"
    shutil.copytree(golden("matrix-4.3.1-v2", "data"), root)
    broken = [
        p
        for p in root.iterdir()
        if p.is_file() and p.name.endswith(("-checkpoint", "meta.properties"))
    ]
    for path in broken:
        path.write_bytes(b"\xff\x00rubbish\n" * 10)
    log_dir = scan_root(root)
    assert log_dir.partitions
    assert {f.file for f in log_dir.findings if f.kind == "unreadable"} == {p.name for p in broken}


def test_directories_in_place_of_small_files(golden: Unpacked, tmp_path: Path) -> None:
    root = tmp_path / "data"
    shutil.copytree(golden("matrix-4.3.1-v2", "data"), root)
    for path in [p for p in root.iterdir() if p.is_file()]:
        path.unlink()
        path.mkdir()
        with pytest.raises(UsageError):
            dump(path)
    log_dir = scan_root(root)
    assert log_dir.partitions
    assert {f.kind for f in log_dir.findings} == {"stops-the-broker"}


@pytest.mark.parametrize(
    "name",
    ["00000000000000000000.log", "00000000000000000000.index", "x.snapshot", "meta.properties"],
)
def test_what_is_no_regular_file_does_not_block(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    os.mkfifo(path)
    with pytest.raises((UsageError, BadInput)):
        list(dump(path))


def test_a_small_file_of_three_gib(tmp_path: Path) -> None:
    path = tmp_path / "meta.properties"
    path.touch()
    os.truncate(path, 3 << 30)
    with pytest.raises(BadInput, match="larger than"):
        list(dump(path))


def test_reading_fails_half_way(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A bad sector: opening succeeds, reading does not."""

    def fails(*_: object) -> bytes:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(os, "pread", fails)
    monkeypatch.setattr(os, "read", fails)
    with pytest.raises(StorageFailed) as caught:
        list(dump(file))
    assert caught.value.path == str(file)
