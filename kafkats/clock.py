"""The clock in epoch milliseconds, and times as text."""

from __future__ import annotations

import time
from datetime import datetime, timedelta
from typing import Final

DAY_MS: Final = 86_400_000
_EPOCH: Final = datetime(1970, 1, 1)  # noqa: DTZ001 - its text has no offset


def now_ms() -> int:
    """Return the time of this machine's clock in epoch milliseconds."""
    return time.time_ns() // 1_000_000


def utc_text(ms: int) -> str:
    """Return any int64 of epoch milliseconds as text, such as 2026-01-31T10:00:00Z."""
    try:
        text = (_EPOCH + timedelta(milliseconds=ms)).isoformat()
    except OverflowError:  # a year beyond 9999 or before 1
        import numpy as np

        return f"{np.datetime64(ms, 'ms')}".removesuffix(".000") + "Z"
    return text.removesuffix("000").removesuffix(".000") + "Z"
