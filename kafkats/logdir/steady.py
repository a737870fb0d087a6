"""Repeat a look at a partition directory while a running broker changes its files."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from kafkats.logdir.partition import PAUSES

T = TypeVar("T")


def steady(
    directory: Path,
    look: Callable[[], T],
    failed: Callable[[T], bool],
    *,
    live: bool,
    any_change: bool = False,
) -> T | None:
    """Return the result of `look`, repeated while it fails because a broker changes the directory.

    Only a `live` directory is looked at again. A failed look counts when two looks in a row fail
    and no name came or went in between. `any_change` also repeats a good look during which names
    changed. After a fixed number of tries the last result is returned. Returns None when a running
    broker has deleted the directory.
    """
    before, failed_before = ctime_ns(directory), False
    result = look()
    for pause in PAUSES if live else ():
        bad, same = failed(result), ctime_ns(directory) == before
        if not bad and (same or not any_change):
            break
        if bad and same and failed_before:
            break
        if bad and not directory.exists():
            return None
        time.sleep(pause)
        before, failed_before = ctime_ns(directory), bad and same
        result = look()
    return result


def ctime_ns(path: Path) -> int | None:
    """Return the time of the last change of a directory's names, None if it cannot be read."""
    try:
        return path.stat().st_ctime_ns
    except OSError:
        return None
