"""What the tests of migrations share."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.builders.certificates import log_of, message


@pytest.fixture
def volume(tmp_path: Path) -> Path:
    """Two partitions of magic 2, one with two segments, of a broker that was stopped cleanly."""
    root = tmp_path / "volume"
    for partition, bases in {"a-0": [0, 10], "b-0": [0]}.items():
        (root / partition).mkdir(parents=True)
        for base in bases:
            data = b"".join(message(2, base + n) for n in range(10))
            log_of(root, partition, base).write_bytes(data)
    (root / ".kafka_cleanshutdown").touch()
    (root / "recovery-point-offset-checkpoint").write_text("0\n0\n")
    return root
