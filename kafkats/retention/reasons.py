"""The reasons of retention: a code with its numbers for each segment, and the sentence for people.

`rules` gives a Reason for each segment. `columns` gives the same as three columns. Only this module
makes sentences of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from kafkats.config.durations import setting_text, span_text
from kafkats.text import PLAN_A_REBUILD

Ints = NDArray[np.int64]


class Code(StrEnum):
    """The reasons to delete a segment (the first four) or to keep it.

    Comments name the two numbers.
    """

    BELOW_START = "below-start"  # log start offset
    SIZE = "size"  # bytes that remain, retention.bytes
    OLD_BY_TIMESTAMP = "old-by-timestamp"  # age in ms, retention.ms
    OLD_BY_MTIME = "old-by-mtime"  # age in ms, retention.ms
    PINNED = "pinned"  # base offset of the segment that keeps it
    EMPTY = "empty"
    UNTRUSTED = "untrusted"
    NOT_EXPIRED = "not-expired"  # ms until it expires
    NEVER_EXPIRES = "never-expires"  # retention.ms
    BEYOND_MARK = "beyond-mark"  # high watermark
    NO_MARK = "no-mark"
    NO_LIMIT = "no-limit"
    NEXT_RUN = "next-run"


CODES: Final = tuple(Code)


class Reason(NamedTuple):
    """The reason why one segment is deleted or kept."""

    code: Code
    first: int = 0
    second: int = 0


class Reasons(NamedTuple):
    """Columns of Reason; `code` is an index into CODES."""

    code: Ints
    first: Ints
    second: Ints


NO_TIME: Final = "no limit by time"
"""The reason for a segment that no limit by time concerns; size may."""
_SENTENCES: Final[Mapping[Code, Callable[[int, int], str]]] = {
    Code.BELOW_START: lambda start, _: f"ends below the log start offset {start}",
    Code.SIZE: lambda remain, limit: (
        f"{remain} bytes remain without it, retention.bytes is {limit}"
    ),
    Code.OLD_BY_TIMESTAMP: lambda age, limit: _old(age, "timestamp", limit),
    Code.OLD_BY_MTIME: lambda age, limit: _old(age, "mtime", limit),
    Code.PINNED: lambda base, _: f"expired, but kept by the segment at {base} before it",
    Code.EMPTY: lambda *_: "an empty last segment stays",
    Code.UNTRUSTED: lambda *_: f"its time index is wrong or missing, see {PLAN_A_REBUILD}",
    Code.NOT_EXPIRED: lambda left, _: f"expires in {span_text(left)}",
    Code.NEVER_EXPIRES: lambda limit, _: f"never expires: retention.ms is {limit}",
    Code.BEYOND_MARK: lambda mark, _: f"reaches beyond the high watermark {mark}",
    Code.NO_MARK: lambda *_: "no high watermark is known",
    Code.NO_LIMIT: lambda *_: NO_TIME,
    Code.NEXT_RUN: lambda *_: "expired, and goes in the next run: size was looked at after time",
}


def _old(age_ms: int, evidence: str, retention_ms: int) -> str:
    return f"{span_text(age_ms)} old by {evidence}, retention.ms is {setting_text(retention_ms)}"


def sentence(reason: Reason) -> str:
    """Return the reason as text."""
    return _SENTENCES[reason.code](reason.first, reason.second)


def sentences(reasons: Reasons) -> pa.Array:
    """Return the text of each row. Rows with the same reason share one call."""
    same = reasons.code
    for numbers in (reasons.first, reasons.second):
        known, which = np.unique(numbers, return_inverse=True)
        same = same * len(known) + which
    _, rows, which = np.unique(same, return_index=True, return_inverse=True)
    texts = [
        sentence(Reason(CODES[code], first, second))
        for code, first, second in zip(*(column[rows].tolist() for column in reasons), strict=True)
    ]
    return pa.array(texts, pa.string()).take(pa.array(which))
