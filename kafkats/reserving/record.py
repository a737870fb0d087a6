"""`reservation.json` in the folder of a plan or a run, and helpers for reservations."""

from __future__ import annotations

import os
import socket
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from pydantic import StrictInt, TypeAdapter

from kafkats.clock import now_ms
from kafkats.errors import KafkatsError, exists, storage
from kafkats.logdir.location import locate
from kafkats.logdir.reservation import Entered, Reservation, release, time_in_words
from kafkats.plans.current_user import this_user
from kafkats.plans.files import read_json, typed, write_json

RECORD: Final = "reservation.json"


@dataclass(frozen=True)
class Recorded:
    """The content of `reservation.json`. `tokens` are by the root's real path."""

    holder: str
    until_ms: StrictInt
    tokens: Mapping[str, str]


def somebody(doing: str) -> str:
    """Return the default holder of a reservation, `user@host DOING`.

    Unprintable characters are escaped.
    """
    return "".join(
        c if c.isprintable() else ascii(c)[1:-1]
        for c in f"{this_user()}@{socket.gethostname()} {doing}"
    )


def root_of(path: str | os.PathLike[str]) -> str:
    """Return the root to reserve for `path`, a root, partition directory or segment.

    Raises as `locate`.
    """
    place = locate(path)
    root = place.root or (place.partition.parent if place.partition else place.path)
    return os.path.realpath(root)


def foreign(
    reservation: Reservation, ours: Collection[str], take_over: Collection[str] = ()
) -> bool:
    """Return whether another holder has this reservation and it has not expired."""
    mine = {reservation.holder, reservation.token} & set(ours)
    return not mine and not reservation.expired(now_ms()) and reservation.holder not in take_over


def give_back(entered: Entered) -> list[str]:
    """Release the reservation. Return a remark if that fails."""
    try:
        release(entered.area, token=entered.reservation.token)
    except KafkatsError as e:
        return [f"still reserved until {time_in_words(entered.reservation.until_ms)}: {e}"]
    return []


def read_record(folder: Path) -> Recorded | None:
    """Return `reservation.json` of a plan's or a run's folder, None without one.

    Raises CorruptPlan, StorageFailed.
    """
    path = folder / RECORD
    if not exists(path, "looking for a reservation"):
        return None
    return typed(read_json(path), TypeAdapter(Recorded), path)


def write_record(folder: Path, entered: Sequence[Entered]) -> None:
    """Write the reservations, or remove the record when there are none. Raises StorageFailed."""
    if not entered:
        with storage(folder, "removing the record of a reservation"):
            (folder / RECORD).unlink(missing_ok=True)
        return
    ends = [one.reservation.until_ms for one in entered]
    tokens = {str(one.area.root): one.reservation.token for one in entered}
    record = Recorded(entered[0].reservation.holder, max(ends), tokens)
    write_json(folder / RECORD, asdict(record))
