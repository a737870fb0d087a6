"""Looks at a whole partition directory beside a running broker, which deletes, rolls and replaces segments meanwhile."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from kafkats.logdir.partition import PAUSES

T = TypeVar("T")


def steady(
    directory: Path, look: Callable[[], T], failed: Callable[[T], bool], *, live: bool, any_change: bool = False
) -> T | None:
    """`look` at a partition directory; while it fails beside a running broker, again, until it fails twice with the same names there.

    `any_change`: also while names come or go during a look that does not fail. After a bounded number of tries the last look is taken.
    None when a running broker has deleted the directory.
    """
    before, failed_before = _ctime_ns(directory), False
    found = look()
    for pause in PAUSES if live else ():
        bad, same = failed(found), _ctime_ns(directory) == before
        if not bad and (same or not any_change):
            break
        if bad and same and failed_before:
            break
        if bad and not directory.exists():
            return None
        time.sleep(pause)
        before, failed_before = _ctime_ns(directory), bad and same
        found = look()
    return found


def _ctime_ns(path: Path) -> int | None:
    try:
        return path.stat().st_ctime_ns
    except OSError:
        return None
