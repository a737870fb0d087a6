"""Release reservations, including those of other holders."""

from __future__ import annotations

import os
from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from kafkats.errors import KafkatsError, UsageError, exists
from kafkats.logdir.reservation import read_reservation, release, reservation_area
from kafkats.reserving.record import root_of


@dataclass
class Released:
    """The outcome of releasing the reservation of one log directory.

    It is kept if another holder has it, and free if there was none. `exit_code` is that of the
    error.
    """

    log_dir: str
    outcome: Literal["released", "kept", "free", "failed"] = "free"
    holder: str = ""
    until_ms: int = -1
    error: str = ""
    exit_code: int = 0


def release_all(
    log_dirs: Sequence[str | os.PathLike[str]],
    *,
    holder: str | None = None,
    over: Collection[str] = (),
    place: Path | None = None,
) -> list[Released]:
    """Release every log dir, or only the reservations of `holder` and of holders that are `over`.

    Errors do not stop it.
    """
    found: list[Released] = []
    for named in dict.fromkeys(os.fspath(one) for one in log_dirs):
        root = named
        with suppress(KafkatsError):  # an empty or damaged log dir may have a reservation too
            root = root_of(named)
        one = Released(root)
        try:
            if not exists(Path(root), "looking for the log directory"):
                raise UsageError("does not exist", path=root)
            area = reservation_area(root, place)
            released = release(area, holder=holder, over=over)
            known = released or read_reservation(area)
            if known is not None:
                outcome: Literal["released", "kept"] = "released" if released else "kept"
                one = Released(known.log_dir, outcome, known.holder, known.until_ms)
        except KafkatsError as e:
            one = Released(root, "failed", error=str(e), exit_code=e.exit_code)
        found.append(one)
    return found
