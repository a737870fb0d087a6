"""Losses that no file of a log directory can show: why, and for which changes.

At most eight classes. A class says what it covers by kind of file, mutation and place, and is refused where some file
of the changed directory contradicts it (`tools.campaign.contradiction`): then verify must find it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from tools.campaign.contradiction import METADATA
from tools.campaign.corpus import Root
from tools.campaign.mutations import Change, borders


class Class(NamedTuple):
    """`covers` says whether a change belongs to it; `why` is what the report prints."""

    name: str
    why: str
    covers: Callable[[Change, Root], bool]


def _of_metadata(change: Change, root: Root) -> bool:
    return METADATA in (change.file.split("/")[0], *map(str, change.args))


def _exchanged(change: Change, root: Root) -> bool:
    return change.kind in ("partition directory", "log", "txnindex") and change.mutation == "swap"


def _sealed(change: Change, root: Root) -> bool:
    return change.kind == "log" and (change.mutation == "field" or _in_offsets(change, root))


def _in_offsets(change: Change, root: Root) -> bool:
    """Whether only offsets of batches were changed, which their checksums do not cover."""
    if change.mutation == "bits":
        touched = {position for position, _ in change.args}
    elif change.mutation == "zeros" and not change.args[2]:
        touched = set(range(change.args[0], change.args[1]))
    else:
        return False
    return bool(touched) and touched <= {
        at + n for at in borders(root.path / change.file) for n in range(8)
    }


def _log_start(change: Change, root: Root) -> bool:
    return change.kind == "log start"


def _first_segments(change: Change, root: Root) -> bool:
    return change.kind == "partition directory" and change.mutation == "first segment removed"


def _end(change: Change, root: Root) -> bool:
    gone = ("cut", "zeros", "emptied", "removed", "files emptied", "last segment removed")
    return change.kind in ("log", "partition directory") and change.mutation in gone


def _compacted(change: Change, root: Root) -> bool:
    if change.kind == "txnindex":
        return root.name.startswith("compaction-")
    return change.kind == "partition directory" and change.mutation == "middle segment removed"


def _recovered(change: Change, root: Root) -> bool:
    replaced = change.file.replace(".txnindex", ".log.swap") in root.files
    return change.kind == "txnindex" and (replaced or ".kafka_cleanshutdown" not in root.files)


CLASSES: Final = (
    Class(
        "metadata log",
        "no checkpoint names the KRaft metadata log, and brokers recover it from 0",
        _of_metadata,
    ),
    Class(
        "exchanged files",
        "whole files under each other's names that agree with what is beside them",
        _exchanged,
    ),
    Class(
        "sealed change",
        "a batch was changed and its checksum with it, or its offset, which none covers: it is another valid batch",
        _sealed,
    ),
    Class(
        "log start",
        "the log start checkpoint is the only word on records that were deleted",
        _log_start,
    ),
    Class(
        "first segments",
        "retention deletes them, and before 0.11 no file keeps the log start",
        _first_segments,
    ),
    Class(
        "end",
        "records at the end that no checkpoint, epoch, snapshot or index entry knows of",
        _end,
    ),
    Class(
        "compacted",
        "compaction removes whole segments, and entries of transactions that are gone",
        _compacted,
    ),
    Class(
        "rebuilt",
        "a broker builds these anew at its next start: after an unclean stop, or of a log that it replaces",
        _recovered,
    ),
)


def class_of(change: Change, root: Root) -> str | None:
    """The class that a change belongs to; None where a finding is owed."""
    return next((one.name for one in CLASSES if one.covers(change, root)), None)
