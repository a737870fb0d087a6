"""Sentences that name options and commands, with these names apart from the words.

A Text reads as it is said in a shell. Another front end says it in its own words, from `parts`: no
program looks for a name in a sentence.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from shlex import join
from typing import Final, TypeAlias


@dataclass(frozen=True)
class Flag:
    """An option, by its word on the command line. `policy` is the key of the policy that says the
    same, "" if there is none.
    """

    flag: str
    policy: str = ""

    def __str__(self) -> str:
        return f"{self.flag}, or {self.policy} in the policy" if self.policy else self.flag


@dataclass(frozen=True)
class Command:
    """A command, such as `plan rebuild`, and its arguments."""

    command: str
    words: tuple[str, ...] = ()

    def __str__(self) -> str:
        return join(["kafkats", *self.command.split(), *self.words])


Part: TypeAlias = str | Flag | Command


class Text(str):
    """A sentence. `parts` are its words and names, in order."""

    parts: tuple[Part, ...]

    def __new__(cls, *parts: Part) -> Text:
        text = super().__new__(cls, "".join(map(str, parts)))
        text.parts = tuple(_flat(parts))
        return text

    def __reduce__(self) -> tuple[type[Text], tuple[Part, ...]]:
        return Text, self.parts

    def __add__(self, words: str) -> Text:
        return Text(self, words)

    def __radd__(self, words: str) -> Text:
        return Text(words, self)


def named_parts(sentence: str) -> list[Part]:
    """Return the parts of a sentence with names, [] for one without."""
    parts = sentence.parts if isinstance(sentence, Text) else ()
    return [] if all(isinstance(one, str) for one in parts) else list(parts)


def _flat(parts: Sequence[Part]) -> Iterator[Part]:
    for one in parts:
        if isinstance(one, Text):
            yield from one.parts
        else:
            yield one


PLAN_LIKE_KAFKA: Final = Text("plan with ", Flag("--like-kafka"))
PLAN_MENDING: Final = Text("plan with ", Flag("--mend-magic"))
PLAN_WITHOUT_OFFSETS: Final = Text("plan with ", Flag("--accept-loss"), " offsets")
RAISE_THE_LIMIT: Final = Text(Flag("--max-batch-bytes"), " raises it")
PLAN_A_REBUILD: Final = Text(Command("plan rebuild"))
_IN_ROWS: Final = (
    PLAN_LIKE_KAFKA,
    PLAN_MENDING,
    PLAN_WITHOUT_OFFSETS,
    RAISE_THE_LIMIT,
    PLAN_A_REBUILD,
)
"""The parts of a row's reason that have a name. A table keeps the sentence alone, and the digest of
a plan covers it.
"""


def of_row(reason: str) -> Text:
    """Return the reason of a row, which a table has kept, with its names."""
    for hint in _IN_ROWS:
        before, found, after = reason.partition(hint)
        if found:
            return Text(before, hint, after)
    return reason if isinstance(reason, Text) else Text(reason)
