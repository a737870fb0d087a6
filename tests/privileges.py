"""What only root can try: skipped for others, but a failure in CI, where it must not go untried unseen."""

from __future__ import annotations

import os
from typing import NoReturn

import pytest


def refuse_without(what: str) -> NoReturn:
    """Skip the running test that `what`, or fail it in CI."""
    if os.environ.get("CI", "").lower() in {"1", "true"}:
        pytest.fail(
            f"{what}, which is not permitted here: CI runs it as root, in a container with CAP_SYS_ADMIN"
        )
    pytest.skip(f"{what}, which is not permitted here")
