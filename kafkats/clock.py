"""The clock in epoch milliseconds."""

from __future__ import annotations

import time
from typing import Final

DAY_MS: Final = 86_400_000


def now_ms() -> int:
    """Return the time of this machine's clock in epoch milliseconds."""
    return time.time_ns() // 1_000_000
