"""Read JSON as kafkats writes it.

Other input that the grammar or Python's reader allows is refused.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterator
from typing import Any, Final, NoReturn, TypeAlias

Json: TypeAlias = "str | int | float | bool | list[Json] | dict[str, Json] | None"
"""A value of JSON."""

_LARGEST: Final = 2**64 - 1
"""Inode numbers are unsigned; all other numbers are signed."""


def loads(text: str | bytes) -> Any:
    """Return the value of `text`.

    Raises ValueError for text that is not JSON, NaN and infinity in any spelling, integers beyond
    64 bits, an object with a key twice, texts and keys that no path can have (NUL, or half a
    surrogate pair), and too deep nesting.
    """
    try:
        value = json.loads(
            text,
            parse_constant=_refused,
            parse_float=_finite,
            parse_int=_whole,
            object_pairs_hook=_once,
        )
    except RecursionError as e:
        raise ValueError("nested too deeply") from e
    if not all(map(_fits_a_path, _texts(value))):
        raise ValueError("a text with NUL or half a surrogate pair in it")
    return value


def int64(value: object) -> int:
    """Return `value`. Raises ValueError unless it is an integer of 64 bits."""
    if type(value) is not int or not -(2**63) <= value < 2**63:
        raise ValueError(f"not a whole number of 64 bits: {value!r:.40}")
    return value


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return an object. Programs differ in which of two values of a key they take."""
    found = dict(pairs)
    if len(found) != len(pairs):
        [(twice, _)] = Counter(key for key, _ in pairs).most_common(1)
        raise ValueError(f"the key {twice[:40]!r} is there twice")
    return found


def _refused(word: str) -> NoReturn:
    raise ValueError(f"{word} is no number")


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"{text[:40]} is no number of 64 bits")
    return number


def _whole(text: str) -> int:
    number = int(text)
    if not -(2**63) <= number <= _LARGEST:
        raise ValueError(f"{text[:40]} is no number of 64 bits")
    return number


def _fits_a_path(text: str) -> bool:
    try:
        return b"\0" not in text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return False


def numbers_in(value: object) -> Iterator[int]:
    """Yield every integer in a value."""
    return (one for one in _parts(value) if type(one) is int)


def _texts(value: object) -> Iterator[str]:
    """Yield every text in a value, including keys."""
    return (one for one in _parts(value) if isinstance(one, str))


def _parts(value: object) -> Iterator[object]:
    """Yield a value and everything in it, including keys."""
    left = [value]
    while left:
        one = left.pop()
        yield one
        if isinstance(one, dict):
            left += [*one.keys(), *one.values()]
        elif isinstance(one, list):
            left += one
