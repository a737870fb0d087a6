"""Which of a policy's globs is the first to match a topic: only those are tried whose text before the first wildcard begins its name."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Iterable, Iterator
from typing import Final

from kafkats.config.values import wrong
from kafkats.topics import INTERNAL

MOST_ALIKE: Final = 1000
"""Globs with wildcards that have the same text before them: each of them is tried on every name that begins so."""
GLOB: Final = re.compile(r"[A-Za-z0-9._\-*?\[\]!]+")
_BEGINNING: Final = re.compile(r"[^*?\[]*")
_SIMPLE: Final = re.compile(r"[^?\[\]]*")


class Globs:
    """Globs in their order. Raises PydanticCustomError for more than MOST_ALIKE that begin alike."""

    def __init__(self, globs: Iterable[str]) -> None:
        self._literal: dict[str, int] = {}
        self._wild: dict[str, list[tuple[int, re.Pattern[str]]]] = {}
        self._globs = tuple(globs)
        for number, glob in enumerate(self._globs):
            beginning = _BEGINNING.match(glob)[0]  # type: ignore[index]  # it matches anything
            if beginning == glob:
                self._literal[glob] = number
                continue
            alike = self._wild.setdefault(beginning, [])
            alike.append((number, re.compile(fnmatch.translate(glob))))
            if len(alike) > MOST_ALIKE:
                said = f"more than {MOST_ALIKE} globs have wildcards right behind {beginning!r}"
                raise wrong(said)

    def first(self, name: str) -> str | None:
        """The first glob that matches `name`."""
        number = min(self._matching(name), default=None)
        return None if number is None else self._globs[number]

    def _matching(self, name: str) -> Iterator[int]:
        """Of those that begin alike the first that matches."""
        if name in self._literal:
            yield self._literal[name]
        for length in range(len(INTERNAL) if name.startswith(INTERNAL) else 0, len(name) + 1):
            alike = self._wild.get(name[:length], ())
            yield from next(([number] for number, pattern in alike if pattern.match(name)), [])


def useless(globs: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Globs that no topic's name can match, or that an earlier one hides, and why. Raises PydanticCustomError as Globs does."""
    numbers = {glob: number for number, glob in enumerate(globs)}
    # A literal * of the later glob stands for anything, which only a * of the earlier one covers.
    simple = Globs(glob for glob in numbers if _SIMPLE.fullmatch(glob))
    for glob, number in numbers.items():
        if not GLOB.fullmatch(glob):
            yield glob, "no topic is named so: names have letters, digits, . _ -, and globs * ? [ ] !"
        elif (by := simple.first(glob)) is not None and numbers[by] < number:
            yield glob, f"never reached: {by!r} stands before it and matches all of it"
