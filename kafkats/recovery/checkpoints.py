"""Read a checkpoint as a broker does, and tell with which message it fails.

    to 0.10         one reader for offsets; the message has no path
    0.11 to 2.8     a number that is none is a malformed line
    3.0 and later   so it is in the first two lines; in an entry it is a NumberFormatException,
                    which LogManager does not treat as a failed disk

Source: CheckpointFile, OffsetCheckpointFile, LeaderEpochCheckpointFile; before 0.11
OffsetCheckpoint.
"""

from __future__ import annotations

import os
import re
from typing import Final, NamedTuple

from kafkats.errors import CorruptFile, Vanished
from kafkats.logdir.text import read_lines
from kafkats.recovery.rules import StartRule

_INT: Final = re.compile(r"[+-]?[0-9]{1,20}")
_BLANK: Final = re.compile(r"\s+")
EPOCHS: Final = (32, 64)
"""Bits of the numbers in an entry of leader-epoch-checkpoint."""
OFFSETS: Final = (0, 32, 64)
"""The same of a checkpoint of offsets: 0 stands for the topic's name."""


class Failure(NamedTuple):
    """The message of a reader that fails."""

    words: str
    bad_number: bool = False
    """It is no IOException: the log directory does not go offline for it."""


def read_failure(
    rule: StartRule, path: str | os.PathLike[str], entry: tuple[int, ...]
) -> Failure | None:
    """Return how a broker fails to read a checkpoint, None if it reads it or there is none.

    `entry` is EPOCHS or OFFSETS. Raises StorageFailed.
    """
    try:
        lines = [line.text for line in read_lines(path)]
    except Vanished:
        return None
    except CorruptFile as e:
        return Failure(f"{os.fspath(path)}: {e.reason}")
    for n, line in enumerate(lines):
        failure = _line_failure(rule, path, n, line, entry)
        if failure is not None:
            return failure
    if len(lines) < 2:
        return None
    expected, found = int(lines[1]), len(lines) - 2
    return None if expected == found else Failure(_wrong_count(rule, path, expected, found))


def _line_failure(
    rule: StartRule, path: str | os.PathLike[str], n: int, line: str, entry: tuple[int, ...]
) -> Failure | None:
    if n < 2:
        if not _is_number(line, 32):
            return Failure(_malformed(rule, path, line))
        wrong = n == 0 and int(line) != 0
        return Failure(_wrong_version(rule, path, int(line))) if wrong else None
    fields = _BLANK.split(line)
    if len(fields) != len(entry):
        return Failure(_malformed(rule, path, line))
    for field, bits in zip(fields, entry, strict=True):
        if bits and not _is_number(field, bits):
            if rule.java_checkpoints:
                return Failure(f'For input string: "{field}"', bad_number=True)
            return Failure(_malformed(rule, path, line))
    return None


def _is_number(text: str, bits: int) -> bool:
    return bool(_INT.fullmatch(text)) and -(1 << bits - 1) <= int(text) < 1 << bits - 1


def _malformed(rule: StartRule, path: str | os.PathLike[str], line: str) -> str:
    if rule.java_checkpoints:
        return f"Malformed line in checkpoint file [{path}]: {line}"
    if rule.epochs is None:
        return f"Malformed line in offset checkpoint file: '{line}'"
    return f"Malformed line in checkpoint file ({path}): '{line}'"


def _wrong_version(rule: StartRule, path: str | os.PathLike[str], version: int) -> str:
    if rule.java_checkpoints:
        return f"Unrecognised version:{version}, expected version: 0 in checkpoint file at: {path}"
    if rule.epochs is None:
        return f"Unrecognized version of the highwatermark checkpoint file: {version}"
    return f"Unrecognized version of the checkpoint file ({path}): 0"


def _wrong_count(rule: StartRule, path: str | os.PathLike[str], expected: int, found: int) -> str:
    if rule.java_checkpoints:
        return (
            f"Expected [{expected}] entries in checkpoint file [{path}], but found only [{found}]"
        )
    if rule.epochs is None:
        return f"Expected {expected} entries but found only {found}"
    return f"Expected {expected} entries in checkpoint file ({path}), but found only {found}"
