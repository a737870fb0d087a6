"""What the person in front of the terminal sees while thousands of questions are asked."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

Advance = Callable[[], None]


@contextmanager
def stage(console: Console, what: str, total: int) -> Generator[Advance, None, None]:
    """A bar on standard error while it lasts, one line with its seconds afterwards."""
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    began = time.monotonic()
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(what, total=total)
        yield lambda: progress.advance(task)
    console.print(f"{what}: {time.monotonic() - began:.0f} s")
