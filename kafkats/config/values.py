"""The values of a policy, parsed as Kafka parses them; our own keys also accept units.

Kafka reads numbers as plain decimal digits (`ConfigDef.parseType`, all versions). So `7d` and
`1GiB` are refused for its keys, with a hint of the number that was probably meant. Every parser
takes text or a typed value and raises PydanticCustomError, which pydantic reports with the key.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Annotated, Final

from pydantic import BeforeValidator, WithJsonSchema
from pydantic_core import PydanticCustomError

from kafkats.clock import utc_text
from kafkats.generations import COMPRESSION_TYPES
from kafkats.logdir.strict_json import Json

INT_MAX: Final = 2**31 - 1
LONG_MAX: Final = 2**63 - 1
LONG_MIN: Final = -(2**63)
_INTEGER: Final = re.compile(r"[+-]?[0-9]{1,19}")
_AMOUNT: Final = re.compile(r"([0-9]{1,19}(?:\.[0-9]{1,9})?) ?([A-Za-z]*)")
_SIZES: Final = {
    "": 1, "b": 1, "kib": 2**10, "mib": 2**20, "gib": 2**30, "tib": 2**40, "kb": 10**3, "mb": 10**6,
    "gb": 10**9, "tb": 10**12,
}  # fmt: skip
_DURATIONS: Final = {
    "ms": 1, "s": 1000, "m": 60_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000,
    "w": 604_800_000,
}  # fmt: skip
_RELEASE: Final = re.compile(
    r"0\.(?:8\.[0-2]|9\.0|10\.[0-2]|11\.0)(?:[.-].*)?|[1-9][0-9]*\.[0-9]+(?:[.-].*)?"
)
_MAYBE_SECONDS: Final = 10**11
_MAGIC_2_SINCE: Final = (0, 11)
_MAGIC_1_SINCE: Final = (0, 10)


def parse_size(text: str) -> int:
    """Return the bytes of `20GiB`, `1.5 MB` or `4096`. Raises ValueError."""
    return _amount(text, _SIZES, "a size such as 1073741824, 1GiB or 500MB")


def parse_duration(text: str) -> int:
    """Return the milliseconds of `7d`, `90s` or `250ms`. Raises ValueError."""
    return _amount(text, _DURATIONS, "a duration such as 90s, 15m, 24h or 7d")


def parse_time(text: str) -> int:
    """Return the epoch milliseconds of `2026-01-31T10:00:00+01:00`, or of such a number itself.

    Raises ValueError, also for a number that may be meant as seconds: one of 1 to 10^11, which in
    milliseconds is before March 1973.
    """
    if _INTEGER.fullmatch(text) and text[0] != "+":
        number = int(text)
        if not LONG_MIN <= number <= LONG_MAX:
            raise ValueError(f"{text} is no time that a record can have")
        if 0 < number <= _MAYBE_SECONDS:
            raise ValueError(
                f"{text} is ambiguous: as seconds it is {utc_text(number * 1000)}, as milliseconds"
                f" {utc_text(number)}; write the one that is meant"
            )
        return number
    wanted = (
        f"{text[:40]!r} is not a time: ISO 8601 with its offset"
        " (2026-01-31T10:00:00+01:00, ...Z) or epoch milliseconds"
    )
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(wanted) from None
    if moment.tzinfo is None:
        raise ValueError(wanted)
    return (moment - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(milliseconds=1)


def magic_of(version: str) -> int:
    """Return the message format (magic) of a `message.format.version`.

    It is 0, 1, 2 (KIP-31) or a release (Kafka 0.10 to 3.x).
    """
    if len(version) == 1:
        return int(version)
    major, minor = (int(part) for part in re.findall(r"[0-9]+", version)[:2])
    return 2 if (major, minor) >= _MAGIC_2_SINCE else int((major, minor) >= _MAGIC_1_SINCE)


def _amount(text: str, units: dict[str, int], wanted: str) -> int:
    match = _AMOUNT.fullmatch(text.strip())
    if match is None or match[2].lower() not in units:
        raise ValueError(f"{text[:40]!r} is not {wanted}")
    whole, _, fraction = match[1].partition(".")
    unit = units[match[2].lower()]
    return int(whole) * unit + int(int(fraction or 0) * unit // 10 ** len(fraction))


def integer(value: object, *, hint: bool = True) -> int:
    """Return a number as Kafka reads it.

    Raises PydanticCustomError with the number `7d` or `1GiB` means.
    """
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    if isinstance(value, str) and _INTEGER.fullmatch(value.strip()):
        return int(value)
    raise wrong(
        f"must be a whole number, not {shown_value(value)}{_number_meant(value) if hint else ''}"
    )


def _boolean(value: object) -> bool:
    if isinstance(value, bool):
        return value
    if isinstance(value, str) and value.strip().lower() in ("true", "false"):
        return value.strip().lower() == "true"
    raise wrong(f"must be true or false, not {shown_value(value)}")


def _size(value: object) -> int:
    if isinstance(value, str) and not _INTEGER.fullmatch(value.strip()):
        try:
            return parse_size(value)
        except ValueError as e:
            raise wrong(str(e)) from None
    size = integer(value)
    if size < 0:
        raise wrong(f"must be a size, 0 or more bytes, not {size}")
    return size


def _share(value: object) -> float:
    try:
        share = -1.0 if isinstance(value, bool) else float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        share = -1.0
    if not 0 <= share <= 1:
        raise wrong(f"must be a share from 0 to 1, not {shown_value(value)}")
    return share


def _release(value: object) -> str:
    text = (
        str(value).strip()
        if isinstance(value, str | int | float) and not isinstance(value, bool)
        else ""
    )
    if text in ("0", "1", "2") or _RELEASE.fullmatch(text):
        return text
    hint = f"; did you mean '{text}.0'?" if _RELEASE.fullmatch(f"{text}.0") else ""
    raise wrong(
        f"must be a magic (0, 1, 2) or a release such as 0.10.2, not {shown_value(value)}{hint}"
    )


def _policies(value: object) -> tuple[str, ...]:
    words = value.split(",") if isinstance(value, str) else value
    if not isinstance(words, list | tuple):
        raise wrong(f"must be delete, compact or both, not {shown_value(value)}")
    if isinstance(value, str) and not value.strip():
        return ()
    return tuple(
        dict.fromkeys(
            _word(word.strip() if isinstance(word, str) else word, _POLICIES) for word in words
        )
    )


def suggestion(word: str, known: Sequence[str], among: Sequence[str] = ()) -> str:
    """Return which of the known words was meant, else all of them. `among` are the words
    that may be meant, if they are others.
    """
    close = difflib.get_close_matches(word, among or known, n=1)
    return f"did you mean {close[0]!r}?" if close else f"known are {', '.join(known)}"


def _one_of(known: Sequence[str], also: Mapping[str, str] = {}) -> Callable[[object], str]:
    """Return a check for one of a few words. `also` maps other spellings to them."""
    return lambda value: _word(also.get(value, value) if isinstance(value, str) else value, known)


def _word(value: object, known: Sequence[str]) -> str:
    if isinstance(value, str) and value in known:
        return value
    text = value[:40].lower() if isinstance(value, str) else ""
    close = difflib.get_close_matches(text, [w.lower() for w in known], n=1, cutoff=0.6)
    meant = next((w for w in known if close and w.lower() == close[0]), "")
    hint = f"; did you mean {meant!r}?" if meant else ""
    raise wrong(f"must be one of {', '.join(known)}, not {shown_value(value)}{hint}")


def _number_meant(value: object) -> str:
    if not isinstance(value, str):
        return ""
    for parse, unit in ((parse_duration, "milliseconds"), (parse_size, "bytes")):
        try:
            return f"; Kafka takes plain numbers here: {parse(value)} as {unit}?"
        except ValueError:
            continue
    return ""


def shown_value(value: object) -> str:
    """Return a value of a file for a message: in one short piece."""
    if isinstance(value, str | int | float | bool | None):
        text = repr(value)
        return text if len(text) <= 42 else f"{text[:40]}…"
    return "a list" if isinstance(value, list | tuple) else "a mapping"


def wrong(message: str) -> PydanticCustomError:
    """Return the error that pydantic reports with the key."""
    # A parameter, because braces in the text would be read as placeholders.
    return PydanticCustomError("kafkats", "{text}", {"text": message})


def _schema(**schema: Json) -> WithJsonSchema:
    return WithJsonSchema(schema)


_POLICIES: Final = ("delete", "compact")
_EITHER: Final = "|".join(_POLICIES)
DIGITS: Final = BeforeValidator(lambda value: integer(value))
Boolean = Annotated[bool, BeforeValidator(_boolean)]
Size = Annotated[
    int,
    BeforeValidator(_size),
    _schema(anyOf=[
        {"type": "integer", "minimum": 0},
        {"type": "string", "pattern": r"^[0-9]+(\.[0-9]+)? ?([KMGT]i?B|kB|B)?$"},
    ]),
]  # fmt: skip
Share = Annotated[float, BeforeValidator(_share), _schema(type="number", minimum=0, maximum=1)]
Release = Annotated[
    str,
    BeforeValidator(_release),
    _schema(anyOf=[
        {"enum": [0, 1, 2]},
        {"type": "number", "exclusiveMinimum": 1, "maximum": 10, "not": {"type": "integer"}},
        {"type": "string", "pattern": f"^([012]|{_RELEASE.pattern})$"},
    ]),
]  # fmt: skip
Policies = Annotated[
    tuple[str, ...],
    BeforeValidator(_policies),
    _schema(anyOf=[
        {"type": "string", "pattern": f"^(({_EITHER})( *, *({_EITHER}))*)?$"},
        {"type": "array", "items": {"enum": list(_POLICIES)}},
    ]),
]  # fmt: skip


_TYPES: Final = ("CreateTime", "LogAppendTime")
TimestampType = Annotated[str, BeforeValidator(_one_of(_TYPES)), _schema(enum=[*_TYPES])]
_INSTEAD: Final = ("report", "ignore", "mtime", "clamp")
Bogus = Annotated[str, BeforeValidator(_one_of(_INSTEAD)), _schema(enum=[*_INSTEAD])]
_NO_COMPRESSION: Final = {"uncompressed": "none"}
CompressionType = Annotated[
    str,
    BeforeValidator(_one_of(COMPRESSION_TYPES, _NO_COMPRESSION)),
    _schema(enum=[*COMPRESSION_TYPES, *_NO_COMPRESSION]),
]
