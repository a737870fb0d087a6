"""Which topics a word such as `--topics` means: one rule for commands, jobs, DAGs and the Spark source.

    *               every topic, Kafka's own included
    orders-*,__c*   topics that one of these globs matches; Kafka's own (`__*`) only by a glob that begins so

Why: docs/decisions/topics.md.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from fnmatch import translate
from functools import lru_cache
from typing import Final

EVERY: Final = "*"
INTERNAL: Final = "__"
"""What the names of Kafka's own topics begin with; no other glob matches them than one that begins so too."""


class TopicFilter:
    """Globs, separated by commas: letters in them are those of the name, in the same case."""

    def __init__(self, text: str) -> None:
        globs = [glob.strip() for glob in text.split(",")]
        self.every: Final = EVERY in globs
        """No topic is left out, nor a directory that is none's."""
        self._plain = _any_of(globs)
        self._internal = _any_of(glob for glob in globs if glob.startswith(INTERNAL))

    def matches(self, topic: str, *, named: bool = False) -> bool:
        """Whether it is one of those meant; `named`: somebody named its directory, so that it needs no glob of its own."""
        globs = self._internal if is_internal(topic) and not named else self._plain
        return self.every or globs.match(topic) is not None


@lru_cache(maxsize=100)
def topic_filter(text: str) -> TopicFilter:
    """The filter that `text` says."""
    return TopicFilter(text)


def is_internal(topic: str) -> bool:
    """Whether it is one of Kafka's own."""
    return topic.startswith(INTERNAL)


def _any_of(globs: Iterable[str]) -> re.Pattern[str]:
    return re.compile("|".join(map(translate, globs)) or r"(?!)")
