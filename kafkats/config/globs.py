"""Find the first of a policy's globs that matches a topic.

Only globs whose text before the first wildcard begins the topic's name are tried.
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Iterable, Iterator
from typing import Final

from kafkats.config.topics import INTERNAL
from kafkats.config.values import wrong

MOST_ALIKE: Final = 1000
"""The most globs with the same text before the first wildcard. Each is tried on every such name."""
GLOB: Final = re.compile(r"[A-Za-z0-9._\-*?\[\]!]+")
_BEGINNING: Final = re.compile(r"[^*?\[]*")
_SIMPLE: Final = re.compile(r"[^?\[\]]*")


class Globs:
    """Globs in their order. Raises PydanticCustomError when more than MOST_ALIKE begin alike."""

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
                message = f"more than {MOST_ALIKE} globs have wildcards right behind {beginning!r}"
                raise wrong(message)

    def first(self, name: str) -> str | None:
        """Return the first glob that matches `name`, None without one."""
        number = min(self._matching(name), default=None)
        return None if number is None else self._globs[number]

    def _matching(self, name: str) -> Iterator[int]:
        """Yield the literal glob, and of each group that begins alike the first that matches."""
        if name in self._literal:
            yield self._literal[name]
        for length in range(len(INTERNAL) if name.startswith(INTERNAL) else 0, len(name) + 1):
            alike = self._wild.get(name[:length], ())
            yield from next(([number] for number, pattern in alike if pattern.match(name)), [])


def useless(globs: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Yield globs that no topic name can match, or that an earlier glob hides, with the reason.

    Raises PydanticCustomError as Globs does.
    """
    numbers = {glob: number for number, glob in enumerate(globs)}
    # A literal * in the later glob stands for any text, which only a * in the earlier one covers.
    simple = Globs(glob for glob in numbers if _SIMPLE.fullmatch(glob))
    for glob, number in numbers.items():
        if not GLOB.fullmatch(glob):
            yield (
                glob,
                "no topic is named so: names have letters, digits, . _ -, and globs * ? [ ] !",
            )
        elif (by := simple.first(glob)) is not None and numbers[by] < number:
            yield glob, f"never reached: {by!r} stands before it and matches all of it"
