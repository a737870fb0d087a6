"""A control plane with two nodes, for all tests of a file. Skipped where Kubernetes is not compiled."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.contained import lab_or_skip
from tools.kube.lab import Lab


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """The lab. Its files are in a folder whose path is short: containers' roots are below."""
    with lab_or_skip(tmp_path_factory.mktemp("lab"), nodes=2) as made:
        yield made
