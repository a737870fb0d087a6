"""Release reservations, including those of other holders."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TypedDict

from kafkats.errors import KafkatsError, UsageError, exists
from kafkats.logdir.reservation import read_reservation, release, reservation_area
from kafkats.reserving.record import root_of


class ReleaseRow(TypedDict):
    """The outcome of releasing the reservation of one log directory."""

    log_dir: str
    outcome: str
    """released, kept (another holder's), free (there was none) or failed."""
    holder: str
    """The reservation's, "" without one."""
    until_ms: int
    """The reservation's, -1 without one."""
    error: str
    exit_code: int
    """That of the error, 0 for none."""


def release_all(
    log_dirs: Sequence[str | os.PathLike[str]],
    *,
    holder: str | None = None,
    place: Path | None = None,
) -> list[ReleaseRow]:
    """Release every log dir, or only the reservations of `holder`. Errors do not stop it."""
    rows: list[ReleaseRow] = []
    for named in dict.fromkeys(os.fspath(one) for one in log_dirs):
        root = named
        with suppress(KafkatsError):  # an empty or damaged log dir may have a reservation too
            root = root_of(named)
        row: ReleaseRow = {
            "log_dir": root,
            "outcome": "free",
            "holder": "",
            "until_ms": -1,
            "error": "",
            "exit_code": 0,
        }
        try:
            if not exists(Path(root), "looking for the log directory"):
                raise UsageError("does not exist", path=root)
            area = reservation_area(root, place)
            released = release(area, holder=holder)
            known = released or read_reservation(area)
            if known is not None:
                row["outcome"] = "released" if released else "kept"
                row["log_dir"] = known.log_dir
                row["holder"], row["until_ms"] = known.holder, known.until_ms
        except KafkatsError as e:
            row |= {"outcome": "failed", "error": str(e), "exit_code": e.exit_code}
        rows.append(row)
    return rows
