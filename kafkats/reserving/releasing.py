"""Release reservations, including those of other holders."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from kafkats.errors import KafkatsError
from kafkats.logdir.reservation import read_reservation, release, reservation_area, time_in_words
from kafkats.reserving.record import root_of


def release_all(
    log_dirs: Sequence[str | os.PathLike[str]],
    *,
    holder: str | None = None,
    place: Path | None = None,
) -> list[dict[str, Any]]:
    """Release every log dir, or only the reservations of `holder`.

    Errors do not stop it. One row each. `outcome` is released, kept (another holder's), free (there
    was none) or failed. `holder` and `until_ms` are the reservation's, "" and -1 without one.
    `error` and `exit_code` describe a failure.
    """
    rows = []
    for named in dict.fromkeys(os.fspath(one) for one in log_dirs):
        root = named
        with suppress(KafkatsError):  # an empty or damaged log dir may have a reservation too
            root = root_of(named)
        row = {
            "log_dir": root,
            "outcome": "free",
            "holder": "",
            "until_ms": -1,
            "error": "",
            "exit_code": 0,
        }
        try:
            area = reservation_area(root, place)
            found = release(area, holder=holder)
            if found is not None:
                row |= found.said() | {"outcome": "released"}
            elif (other := read_reservation(area)) is not None:
                row |= other.said() | {"outcome": "kept"}
        except KafkatsError as e:
            row |= {"outcome": "failed", "error": str(e), "exit_code": e.exit_code}
        rows.append(row)
    return rows


def release_sentences(rows: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return a line for each row of `release_all`."""
    said = []
    for row in rows:
        words = {
            "released": f"released; it was reserved by {row['holder']}",
            "kept": f"not released: it is reserved by {row['holder']}",
            "free": "is not reserved",
        }
        until = f" until {time_in_words(row['until_ms'])}" if row["until_ms"] > 0 else ""
        line = words.get(row["outcome"])
        said.append(f"{row['log_dir']}: {line}{until}" if line else str(row["error"]))
    return said
