"""The reservations of a run that writes: apply and undo."""

from __future__ import annotations

import os
from collections.abc import Collection, Generator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from kafkats.clock import DAY_MS, every, now_ms
from kafkats.errors import CorruptFile, CorruptPlan, KafkatsError, Reserved
from kafkats.logdir.reservation import (
    Entered,
    check_words,
    extend,
    read_reservation,
    refusal,
    reservation_area,
    reserve,
    writing,
)
from kafkats.reserving.record import (
    foreign,
    give_back,
    read_record,
    somebody,
    write_record,
)

if TYPE_CHECKING:
    from kafkats.plans.run import Run

RENEW_SECONDS: Final = 600.0


@dataclass
class Held:
    """The reservations of a run while it writes."""

    entered: dict[str, Entered]
    remarks: list[str]

    def record(self, folder: Path) -> None:
        """Record the reservations in the run's folder for a repeated apply or an undo.

        Raises StorageFailed.
        """
        write_record(folder, list(self.entered.values()))


@contextmanager
def changing(
    run: Run,
    folder: Path,
    *,
    holder: str = "",
    plan_folder: Path | None = None,
    going_back: bool = False,
) -> Generator[Held]:
    """Hold the reservations of all log dirs of `run` while the body writes, then release them.

    A reservation is ours if `holder` has it, or without `holder` the holder of the plan in
    `plan_folder`. It is also ours if a killed attempt of the run in `folder` left it. `going_back`:
    only a reservation of another holder stops the body. Other failures to reserve do not, since
    undo must work where nothing can be created.

    Raises Reserved naming the holder, CorruptPlan, and as `reserve`.
    """
    planned, before = read_record(plan_folder) if plan_folder else None, read_record(folder)
    name = holder or (planned.holder if planned else "") or somebody(f"run {run.run_id}")
    known = set(before.tokens.values()) if before else set()
    held, told = Held({}, []), ExitStack()
    try:
        _enter_all(held, told, run, name, known, going_back=going_back)
        with every(RENEW_SECONDS, partial(_renew, held), "reservation"):
            if going_back:  # an apply creates its folder later, and then records it
                with suppress(KafkatsError):
                    held.record(folder)
            yield held
    finally:
        for entered in held.entered.values():
            held.remarks += give_back(entered)
        told.close()


def _enter_all(
    held: Held,
    told: ExitStack,
    run: Run,
    holder: str,
    known: Collection[str],
    *,
    going_back: bool,
) -> None:
    until_ms = now_ms() + DAY_MS
    check_words(holder, until_ms, now_ms())
    areas = {}
    for log_dir in run.directories:
        if not Path(log_dir).is_absolute() or "\0" in log_dir:
            raise CorruptPlan(f"not a log directory: {log_dir!r}")
        with _lenient(going_back):
            areas[os.path.realpath(log_dir)] = reservation_area(
                log_dir, Path(run.place) if run.place else None
            )
    left: dict[str, Entered] = {}
    for root, area in areas.items():  # check all before changing any
        with _lenient(going_back):
            reservation = read_reservation(area)
            if reservation is not None and foreign(reservation, {holder, *known}):
                raise refusal(area, reservation)
            if reservation is not None:
                left[root] = Entered(area, reservation, "")
    for root, area in sorted(areas.items()):
        told.enter_context(writing(area))  # before the reservation: whoever takes it over sees it
        # released at the end, even if a full disk prevents a new reservation
        if going_back and root in left:
            held.entered[root] = left[root]
        with _lenient(going_back):
            held.entered[root] = reserve(area, holder, until_ms, now_ms=now_ms(), known=known)
            held.remarks += [held.entered[root].remark] if held.entered[root].remark else []


@contextmanager
def _lenient(going_back: bool) -> Generator[None]:
    try:
        yield
    except (Reserved, CorruptFile):
        raise
    except KafkatsError:
        if not going_back:
            raise


def _renew(held: Held) -> None:
    """Extend the reservations. One that was broken meanwhile is not created again."""
    for entered in held.entered.values():
        with suppress(KafkatsError):
            extend(entered.area, entered.reservation.token, now_ms() + DAY_MS)
