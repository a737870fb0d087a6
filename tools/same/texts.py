"""Printed sentences of two commits, compared line by line after paths, rates and moments of the run are normalised."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from difflib import SequenceMatcher
from pathlib import Path
from typing import Any, Final

from tools.same.allowed import WORDS

_PAST_S: Final = 3600
_AHEAD_S: Final = 40 * 86_400
"""Moments between these are moments of the run: the records of golden directories are older."""
_STEP_S: Final = 600
"""The two sides run within minutes of each other."""
_FREE: Final = re.compile(r"[\d.,]+ [KMGT]?i?B are free")
_DIGEST: Final = re.compile(r"(digest) [0-9a-f]{8,64}\b")
"""Digests of plans are compared with the plans."""
_RATE: Final = re.compile(r"\b\d[\d.,]* ?(?:[KMGT]i?)?B/s")
_TOOK: Final = re.compile(r"\b(in|after|took) \d[\d.,]* ?(?:ms|s|min)\b")
_MOMENT: Final = re.compile(r"\b20\d\d-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:Z|\+00:00)?")
_EPOCH: Final = re.compile(r"(?<![\d.])1[789]\d{11}(?!\d)")


def normal(text: str, out: Path, now: float) -> str:
    """Return `text` without what varies from run to run.

    `out` is the folder of the side. Moments near `now` (epoch seconds) become their distance from it, to ten minutes,
    so that another length of a reservation is a difference and another second is none.
    """
    text = _DIGEST.sub(r"\1 DIGEST", text.replace(str(out), "OUT"))
    text = _FREE.sub("SIZE are free", text)
    text = _RATE.sub("RATE", _TOOK.sub(r"\1 TIME", text))
    text = _MOMENT.sub(lambda found: _moment(found[0], now), text)
    return _EPOCH.sub(lambda found: _distance(found[0], int(found[0]) / 1000, now), text)


def values(value: Any, out: Path, now: float) -> Any:
    """Return a value of JSON with every text `normal`, and epoch ms near `now` as their distance from it."""
    if isinstance(value, dict):
        return {normal(key, out, now): values(one, out, now) for key, one in value.items()}
    if isinstance(value, list):
        return [values(one, out, now) for one in value]
    if isinstance(value, str):
        return normal(value, out, now)
    if isinstance(value, int) and _near(value / 1000, now):
        return _distance(str(value), value / 1000, now)
    return value


def _near(seconds: float, now: float) -> bool:
    return -_PAST_S < seconds - now < _AHEAD_S


def _moment(text: str, now: float) -> str:
    moment = datetime.fromisoformat(text.replace("Z", "+00:00"))
    return _distance(text, moment.replace(tzinfo=moment.tzinfo or UTC).timestamp(), now)


def _distance(text: str, seconds: float, now: float) -> str:
    return f"NOW{round((seconds - now) / _STEP_S) * _STEP_S:+d}s" if _near(seconds, now) else text


def reworded(one: Sequence[str], other: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return `one` with every line that an accepted rewording makes a line of `other`, and the reasons of these."""
    there = set(other)
    made, reasons = [], []
    for line in one:
        changed, why = line, []
        for before, after, reason in WORDS if line not in there else ():
            changed, count = re.subn(before, after, changed)
            why += [reason] * bool(count)
        made.append(changed if changed in there else line)
        reasons += why if changed in there else []
    return made, reasons


def unfolded(text: str) -> list[str]:
    """Return the lines of a text; a line that begins with four spaces goes on with the one before it."""
    return re.sub(r"(?m)(?<=\S)\n {4}(?=\S)", " ", text).splitlines()


def lines(one: Sequence[str], other: Sequence[str]) -> Iterator[str]:
    """Yield every line that is gone, new, or another, as a sentence."""
    for tag, a, b, c, d in SequenceMatcher(None, one, other, autojunk=False).get_opcodes():
        if tag == "equal":
            continue
        if b - a == d - c:
            pairs = zip(one[a:b], other[c:d], strict=True)
            yield from (f"{left!r} != {right!r}" for left, right in pairs)
            continue
        yield from (f"gone {line!r}" for line in one[a:b])
        yield from (f"new {line!r}" for line in other[c:d])
