"""The topics that `--topics` selects: one rule for commands, jobs, DAGs and the Spark source.

    *               every topic, including Kafka's own
    orders-*,__c*   topics that match one of these globs; Kafka's own topics (`__*`) match only
                    globs that begin with `__`

docs/decisions/topics.md gives the reasons.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from fnmatch import translate
from functools import lru_cache
from typing import Final

EVERY: Final = "*"
INTERNAL: Final = "__"
"""Prefix of Kafka's own topics. Only globs with this prefix match them."""


class TopicFilter:
    """Globs, separated by commas. They are case-sensitive."""

    def __init__(self, text: str) -> None:
        globs = [glob.strip() for glob in text.split(",")]
        self.every: Final = EVERY in globs
        """Whether every topic matches, and every directory that is no topic's."""
        self._plain = _any_of(globs)
        self._internal = _any_of(glob for glob in globs if glob.startswith(INTERNAL))

    def matches(self, topic: str, *, named: bool = False) -> bool:
        """Return whether the topic matches.

        `named`: its directory was named, so any glob matches an internal topic.
        """
        globs = self._internal if is_internal(topic) and not named else self._plain
        return self.every or globs.match(topic) is not None


@lru_cache(maxsize=100)
def topic_filter(text: str) -> TopicFilter:
    """Return the filter for `text`."""
    return TopicFilter(text)


def is_internal(topic: str) -> bool:
    """Return whether it is one of Kafka's own topics."""
    return topic.startswith(INTERNAL)


def _any_of(globs: Iterable[str]) -> re.Pattern[str]:
    return re.compile("|".join(map(translate, globs)) or r"(?!)")
