"""Questions to Kafka from as many processes as there are cores, each with warm JVMs of its own."""

from __future__ import annotations

import io
import os
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from functools import cache
from multiprocessing import get_context
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

from rich.console import Console

from conformance.judge import Judge
from conformance.stage import Advance
from conformance.tally import Tally

Item = TypeVar("Item")
Ask: TypeAlias = Callable[[str], Judge]
"""A version -> this process' judge of that version."""
Question: TypeAlias = Callable[[Item, Ask, Tally], Any]
Found: TypeAlias = tuple[dict[tuple[str, str], Counter[str]], list[str], Any]


class Workers:
    """`with workers(folder) as pool: pool.each(compare, items, tally)`."""

    def __init__(self, pool: ProcessPoolExecutor) -> None:
        self._pool = pool

    def each(
        self, question: Question[Item], items: Iterable[Item], tally: Tally, advance: Advance
    ) -> list[Any]:
        """Put `question` for every item, in any process; adds what was compared to `tally`, gives what was returned.

        Both the function, which must have a name in its module, and the items are pickled.
        """
        running = [self._pool.submit(_answer, question, item) for item in items]
        returned = []
        for done in running:
            compared, differences, found = done.result()
            tally.add(compared, differences)
            returned.append(found)
            advance()
        return returned


@contextmanager
def workers(folder: Path) -> Generator[Workers, None, None]:
    """One process per core; the JVMs' temporary files and words go to `folder`."""
    count = os.cpu_count() or 1
    # Not by fork: a progress bar runs in a thread.
    with ProcessPoolExecutor(count, get_context("spawn"), _begin, (str(folder),)) as pool:
        yield Workers(pool)


def _begin(folder: str) -> None:
    os.chdir(folder)


def _answer(question: Question[Item], item: Item) -> Found:
    tally = Tally(Console(file=io.StringIO()))
    found = question(item, _judge, tally)
    return dict(tally.compared), tally.differences, found


@cache
def _judge(version: str) -> Judge:
    # It ends by itself when this process does: its input is closed then.
    return Judge(version, temporary=Path.cwd(), log=Path(f"judge-{version}-{os.getpid()}.log"))


def chunks(items: Sequence[Item], size: int) -> list[list[Item]]:
    """Runs of at most `size`, so that one message carries several questions."""
    return [list(items[at : at + size]) for at in range(0, len(items), size)]
