"""The clock in epoch milliseconds, and what is done every few seconds."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Final

DAY_MS: Final = 86_400_000


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
