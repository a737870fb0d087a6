"""A host, and a log directory without one of its time indexes."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.detached.asking import Host
from tests.golden import case


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Host:
    (runs := tmp_path / "runs").mkdir()
    monkeypatch.setenv("KAFKATS_FOLDER", str(runs))
    return Host(runs)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (root := tmp_path / "disk" / "data").mkdir(parents=True)
    case("matrix-4.3.1-v2").unpack("data", root)
    (root / "lz4-ct-0" / "00000000000000000000.timeindex").unlink()
    return root
