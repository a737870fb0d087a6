"""What a segment without a usable index takes from the indexes beside it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kafkats.inspect.verify import interval_of_partition
from tests import golden


@pytest.mark.parametrize("state", [("matrix-0.9.0.1-v0", "data"), ("matrix-0.10.2.2-v1", "data")])
def test_the_interval_does_not_depend_on_the_order_in_which_files_are_listed(
    state: tuple[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    golden.case(state[0]).unpack(state[1], tmp_path)
    for index in tmp_path.rglob("*.index"):  # one size for all: none is the fullest
        os.truncate(index, min(8, index.stat().st_size))
    listed = Path.glob

    def of_all() -> dict[str, int | None]:
        interval_of_partition.cache_clear()
        return {
            directory.name: interval_of_partition(directory, 0)
            for directory in sorted(tmp_path.iterdir())
            if directory.is_dir()
        }

    def listing(order: Callable[[list[Path]], list[Path]]) -> Callable[..., Iterator[Path]]:
        return lambda path, glob: iter(order(sorted(listed(path, glob))))

    monkeypatch.setattr(Path, "glob", listing(lambda paths: paths))
    found = of_all()
    monkeypatch.setattr(Path, "glob", listing(lambda paths: paths[::-1]))
    assert of_all() == found
    interval_of_partition.cache_clear()
    assert any(found.values())
