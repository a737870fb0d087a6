"""The table from a Kafka release to the behaviour of its brokers, and how a release is written.

Each row holds from its release up to the next row's. A release is written as `4.3` or `2.8.2`;
without a patch number its last patch is meant. The rules that the names stand for are in
`kafkats.generations`, those of a start in `kafkats.recovery.rules`.
"""

from __future__ import annotations

import re
from typing import Final, Literal, NamedTuple, TypeAlias

Subject: TypeAlias = Literal["start", "recovery", "retention", "roll", "search"]


class Behaviour(NamedTuple):
    """The rules of the brokers from release `since` on, by their names.

    `start`: how a broker starts. `recovery`: which offset an index entry gets in a recovery.
    `retention`: what is deleted. `roll`: when a segment begins. `search`: ListOffsets.
    """

    since: str
    start: str
    recovery: str
    retention: str
    roll: str
    search: str


TABLE: Final = (
    Behaviour("0.8.2", "0.8", "first-offset", "0.8", "0.8", "0.8"),
    Behaviour("0.9.0", "0.9", "first-offset", "0.8", "0.8", "0.8"),
    Behaviour("0.10.0", "0.10.0", "first-offset", "0.8", "0.8", "0.8"),
    Behaviour("0.10.1", "0.10", "first-offset", "0.10.1", "0.10.1", "0.10.1"),
    Behaviour("0.11.0", "0.11", "first-offset", "0.11", "0.10.1", "0.11"),
    Behaviour("1.0", "1.0", "first-offset", "0.11", "0.10.1", "0.11"),
    Behaviour("2.0", "2.0", "last-offset", "0.11", "0.10.1", "0.11"),
    Behaviour("2.1", "2.1", "last-offset", "0.11", "0.10.1", "0.11"),
    Behaviour("2.2", "2.2", "last-offset", "0.11", "0.10.1", "0.11"),
    Behaviour("2.3", "2.3", "last-offset", "0.11", "0.10.1", "0.11"),
    Behaviour("2.6", "2.6", "last-offset", "0.11", "0.10.1", "0.11"),
    Behaviour("2.7", "2.7", "last-offset", "0.11", "0.10.1", "0.11"),
    Behaviour("2.8", "2.8", "last-offset", "0.11", "0.10.1", "0.11"),
    Behaviour("3.0", "3.0", "last-offset", "3.0", "0.10.1", "3.0"),
    Behaviour("3.3", "3.3", "last-offset", "3.0", "0.10.1", "3.0"),
    Behaviour("3.7", "3.7", "last-offset", "3.0", "0.10.1", "3.0"),
    Behaviour("3.8", "3.7", "last-offset", "3.0", "0.10.1", "3.8"),
    Behaviour("3.9.1", "3.7", "last-offset", "3.0", "4.1", "3.8"),
    Behaviour("4.0.0", "4.0", "last-offset", "3.0", "0.10.1", "3.8"),
    Behaviour("4.0.1", "4.0", "last-offset", "3.0", "4.1", "3.8"),
)
KNOWN: Final = (
    *("0.8.2", "0.9.0", "0.10.0", "0.10.1", "0.10.2", "0.11.0", "1.0", "1.1"),
    *(f"2.{minor}" for minor in range(9)),
    *(f"3.{minor}" for minor in range(10)),
    *("4.0", "4.1", "4.2", "4.3"),
)
"""The releases that kafkats knows, without their patches, oldest first."""
NEWEST: Final = KNOWN[-1]
EXAMPLES: Final = (NEWEST, "3.9", "2.8", "1.1", "0.10.2")
"""Releases of different behaviour, to show how one is written."""
_SHORT: Final = ("0.8", "0.9", "0.11")
_LAST_PATCH: Final = 2**31


def behaviour(kafka: str) -> Behaviour:
    """Return the row of a release such as `4.3` or `2.8.2`. Raises ValueError for any other."""
    if release_of(kafka) not in KNOWN:
        raise ValueError(
            f"{kafka[:40]}: not a release that kafkats knows; it knows {', '.join(KNOWN)}"
        )
    version = _version(kafka)
    return next(row for row in reversed(TABLE) if version >= _version(row.since, patch=0))


def releases_of(subject: Subject, rule: str) -> list[str]:
    """Return the known releases whose last patch follows a rule, oldest first; [] for no release's
    rule, such as kip33.
    """
    return [one for one in KNOWN if getattr(behaviour(one), subject) == rule]


def rule_of(subject: Subject, word: str, others: tuple[str, ...] = ()) -> str:
    """Return the name of the rule that a release follows.

    Names of rules are words for them, too, as are `others`, which belong to no release. Raises
    ValueError.
    """
    if word in others or any(word == getattr(row, subject) for row in TABLE):
        return word
    return str(getattr(behaviour(word), subject))


def pattern_of(subject: Subject, others: tuple[str, ...] = ()) -> str:
    """Return the regular expression of what `rule_of` takes, for a JSON schema."""
    names = dict.fromkeys([*(getattr(row, subject) for row in TABLE), *others])
    words = "|".join(map(re.escape, names))
    return f"^({words}|({'|'.join(map(re.escape, (*KNOWN, *_SHORT)))})(\\.[0-9]+)*)$"


def release_of(kafka: str) -> str:
    """Return a release without its patch, "" if it is not written as one. Of 0.8, 0.9 and 0.11
    there is one release each.
    """
    if kafka in _SHORT:
        return next(one for one in KNOWN if one.startswith(f"{kafka}."))
    m = re.fullmatch(r"(0\.[0-9]+\.[0-9]+|[1-9][0-9]*\.[0-9]+)(\.[0-9]+)*", kafka)
    return m[1] if m else ""


def _version(kafka: str, patch: int = _LAST_PATCH) -> tuple[int, ...]:
    """Return the numbers of a release, with `patch` where it has none."""
    numbers = (*map(int, kafka.split(".")),)
    return numbers if len(numbers) > (3 if numbers[0] == 0 else 2) else (*numbers, patch)
