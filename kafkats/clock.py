"""The clock in epoch milliseconds, times as text, and work that is done every few seconds."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import Final

MINUTE_MS: Final = 60_000
HOUR_MS: Final = 60 * MINUTE_MS
DAY_MS: Final = 24 * HOUR_MS
_EPOCH: Final = datetime(1970, 1, 1)  # noqa: DTZ001 - its text has no offset


def now_ms() -> int:
    """Return the time of this machine's clock in epoch milliseconds."""
    return time.time_ns() // 1_000_000


@contextmanager
def every(seconds: float, do: Callable[[], object], name: str) -> Generator[None]:
    """Call `do` so many seconds apart, in a thread of this name, until the body ends."""
    over = threading.Event()

    def loop() -> None:
        while not over.wait(seconds):
            do()

    thread = threading.Thread(target=loop, daemon=True, name=name)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def utc_text(ms: int) -> str:
    """Return any int64 of epoch milliseconds as text, such as 2026-01-31T10:00:00Z."""
    try:
        text = (_EPOCH + timedelta(milliseconds=ms)).isoformat()
    except OverflowError:  # a year beyond 9999 or before 1
        import numpy as np

        return f"{np.datetime64(ms, 'ms')}".removesuffix(".000") + "Z"
    return text.removesuffix("000").removesuffix(".000") + "Z"
