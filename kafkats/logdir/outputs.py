"""Refuse outputs in log directories, before any work is done for them.

A broker does not start with a foreign directory in a log directory, and may delete foreign files.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from kafkats.errors import KafkatsError, UsageError, exists
from kafkats.logdir.location import locate, log_dir_above
from kafkats.text import Flag, Text

_DOCUMENTS: Final = {
    "_table.json": "a lookup table",
    "certificate.json": "a certificate",
    "plan.json": "a plan",
    "run.json": "a run",
}
"""The file by which the folder of a document is known, and what the document is."""


def refuse_output(flags: str, path: Path, named: Iterable[Path] = ()) -> None:
    """Raise UsageError for an output in a log directory, or in one of the `named` paths of logs.

    `flags` are the words of the option that names it. Raises StorageFailed.
    """
    real = Path(os.path.realpath(path))
    held = (_held_by(one) for one in named)
    above = log_dir_above(path, by_partitions=True) or next(
        (one for one in held if one and real.is_relative_to(one)), None
    )
    if above is not None:
        raise _refusal(path, above, Text(" with ", Flag(flags.split()[0])))


def refuse_inside(path: Path) -> None:
    """Raise UsageError for an output in a directory with the files of a log directory."""
    if (above := log_dir_above(path)) is not None:
        raise _refusal(path, above)


def refuse_other(report: Path) -> None:
    """Raise UsageError for a report in the folder of another document, among whose files it would
    lie. Raises StorageFailed.
    """
    for name, what in _DOCUMENTS.items():
        if exists(report / name, "looking at the folder of the report"):
            raise UsageError(f"holds {what}: name another folder for the report", path=report)


def _refusal(path: Path, above: Path, how: str = "") -> UsageError:
    reason = f"lies in the log directory {above}, which is for Kafka's files: name another place"
    return UsageError(Text(reason, how), path=path)


def _held_by(named: Path) -> Path | None:
    """Return the real directory of a path of logs; None for any other path, such as a table."""
    try:
        place = locate(named)
    except KafkatsError:
        return None
    return Path(os.path.realpath(place.partition or place.path))
