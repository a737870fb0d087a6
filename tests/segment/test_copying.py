"""A copied range of a log: by the kernel, without it, and where it cannot be had."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from kafkats.errors import StorageFailed
from kafkats.segment import copying
from kafkats.segment.copying import copy_range


@pytest.mark.parametrize("refused", [None, errno.EXDEV, errno.EINVAL])
def test_a_copied_range(
    refused: int | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = os.urandom(3 * 1024 * 1024 + 17)
    log = tmp_path / "log"
    log.write_bytes(data)
    if refused:

        def no(*_: object) -> int:
            raise OSError(refused, "not here")

        monkeypatch.setattr(copying.os, "copy_file_range", no)
    for n, (start, end) in enumerate([
        (0, len(data)),
        (0, 100),
        (5, 5),
        (1_000_001, len(data)),
        (17, 2_500_000),
    ]):
        copy_range(log, start, end, tmp_path / f"copy-{n}")
        assert (tmp_path / f"copy-{n}").read_bytes() == data[start:end]
    with pytest.raises(StorageFailed, match=f"ends at byte {len(data)}"):
        copy_range(log, 5, len(data) + 1, tmp_path / "short")
    with pytest.raises(StorageFailed):
        copy_range(log, 0, 1, tmp_path / "copy-0")


def test_a_full_disk_is_no_reason_to_copy_otherwise(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "log").write_bytes(b"x" * 100)

    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(copying.os, "copy_file_range", full)
    with pytest.raises(StorageFailed, match="No space"):
        copy_range(tmp_path / "log", 0, 100, tmp_path / "copy")
