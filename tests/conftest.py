"""What all tests share: the golden log directories, unpacked once per session."""

from __future__ import annotations

import pytest

from tests.golden import Unpacked


@pytest.fixture(scope="session")
def golden(tmp_path_factory: pytest.TempPathFactory) -> Unpacked:
    """`golden("crash-4.3.1", "before")` is that state's unpacked root. Shared by all tests: read only."""
    return Unpacked(tmp_path_factory.mktemp("golden"))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The quick tests first, so that most mistakes show within a minute."""
    items.sort(key=lambda item: item.get_closest_marker("slow") is not None)
