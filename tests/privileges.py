"""What only root can try: skipped for others, but a failure in CI, where it must not go untried unseen."""

from __future__ import annotations

import os
from typing import NoReturn

import pytest


def refuse_without(what: str) -> NoReturn:
    """Skip the running test that `what`, or fail it in CI."""
    refuse(
        f"{what}, which is not permitted here: CI runs it as root, in a container with CAP_SYS_ADMIN"
    )


def refuse(why: str) -> NoReturn:
    """Skip the running test, or fail it in CI."""
    if os.environ.get("CI", "").lower() in {"1", "true"}:
        pytest.fail(why)
    pytest.skip(why)
