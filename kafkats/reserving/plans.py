"""The reservations of a plan under way."""

from __future__ import annotations

import os
from collections.abc import Generator, Iterable, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from pydantic import ConfigDict

from kafkats.clock import DAY_MS, now_ms
from kafkats.errors import KafkatsError, Locked, Reserved, StorageFailed
from kafkats.logdir.lock import lock_state
from kafkats.logdir.reservation import (
    Entered,
    Reservation,
    check_words,
    in_words,
    read_reservation,
    refusal,
    reservation_area,
    reserve,
)
from kafkats.reserving.record import foreign, give_back, root_of, write_record

if TYPE_CHECKING:
    from kafkats.logdir.workarea import WorkArea
    from kafkats.plans.plan import AnyPlan


@dataclass(frozen=True)
class Wish:
    """The reservation of `holder`: to make for a plan, else to use or to release. A part of a
    request: unknown fields are refused.

    A plan reserves until `until_ms` (epoch milliseconds), None for a day from then. `skip`: leave
    out log dirs that others have reserved, instead of refusing. `take_over`: holders that are known
    to have ended.
    """

    __pydantic_config__: ClassVar = ConfigDict(extra="forbid")

    holder: str
    until_ms: int | None = None
    skip: bool = False
    take_over: tuple[str, ...] = ()


@dataclass
class Planning:
    """The log dirs of a plan under way.

    `log_dirs` are those to look at, as given. `skipped` holds the reservations of the others, and
    `failed` the errors of those where none could be made. `remarks` are messages for the planner.
    """

    log_dirs: list[str]
    wish: Wish | None = None
    skipped: list[Reservation] = field(default_factory=list)
    failed: dict[str, StorageFailed] = field(default_factory=dict)
    remarks: list[str] = field(default_factory=list)
    entered: dict[str, Entered] = field(default_factory=dict)
    """Reservations by the root's real path. After the planning these are the kept ones."""
    kept: set[str] = field(default_factory=set)

    def keep_changed(self, plan: AnyPlan, folder: Path) -> None:
        """Keep the reservations of the log dirs that the plan in `folder` changes.

        Raises CorruptPlan, StorageFailed.
        """
        from kafkats.plans.run import run_of  # pyarrow takes 0.2 s: `release` needs none

        self.keep(run_of(plan).directories, folder)

    def keep(self, log_dirs: Iterable[str], folder: Path | None = None) -> None:
        """Keep the reservations of these roots after the planning.

        Record them in the plan's `folder`.
        """
        kept = {os.path.realpath(log_dir) for log_dir in log_dirs} & self.entered.keys()
        self.kept |= kept
        if folder is not None:
            write_record(folder, [self.entered[root] for root in sorted(kept)])


@contextmanager
def planning(
    log_dirs: Iterable[str | os.PathLike[str]],
    wish: Wish | None,
    place: Path | None = None,
    *,
    go_on: bool = False,
) -> Generator[Planning]:
    """Reserve the roots of `log_dirs` as `wish` says.

    Release those not kept at the end, or all on error. `place` is as in workarea.work_area. Without
    a wish nothing is reserved: a running broker or a reservation of another holder becomes a
    remark. `go_on`: leave out roots whose file system refuses the reservation.

    Raises Reserved, whose `holders` are all that were seen, when others hold one of them (with
    `skip`: all of them), Locked when a broker
    holds one, and as `reserve` and `locate`.
    """
    ours = Planning([os.fspath(one) for one in log_dirs], wish)
    roots = {named: root_of(named) for named in ours.log_dirs}
    if wish is None:
        ours.remarks += [
            remark for root in dict.fromkeys(roots.values()) for remark in _seen(root, place)
        ]
        yield ours
        return
    until_ms = now_ms() + DAY_MS if wish.until_ms is None else wish.until_ms
    check_words(wish.holder, until_ms, now_ms())
    try:
        _reserve_all(ours, roots, wish, until_ms, place, go_on=go_on)
        yield ours
    except BaseException:
        ours.kept.clear()
        raise
    finally:
        for root in ours.entered.keys() - ours.kept:
            ours.remarks += give_back(ours.entered.pop(root))


def _reserve_all(
    ours: Planning,
    roots: Mapping[str, str],
    wish: Wish,
    until_ms: int,
    place: Path | None,
    *,
    go_on: bool,
) -> None:
    """Enter the reservation of every root, or remove the root from `ours.log_dirs`."""
    areas: dict[str, WorkArea] = {}
    refused: dict[str, Reserved] = {}
    for root in sorted(set(roots.values())):  # check all before changing any
        with _or_left_out(ours, root, go_on=go_on):
            area = reservation_area(root, place)
            reservation = read_reservation(area)
            if reservation is not None and foreign(reservation, {wish.holder}, wish.take_over):
                refused[root] = refusal(area, reservation)
                ours.skipped.append(reservation._replace(log_dir=root))
            areas[root] = area
    if refused and (not wish.skip or len(refused) == len(areas)):
        first = next(iter(refused.values()))
        every = [holder for one in refused.values() for holder in one.holders]
        raise Reserved(first.reason, path=first.path, holders=every)
    for root in areas.keys() - refused.keys():
        if (state := lock_state(root)).held:
            raise Locked(
                f"{state.why}: stop the broker, or plan without a reservation only to look",
                path=root,
            )
    for root in sorted(areas.keys() - refused.keys()):
        try:
            with _or_left_out(ours, root, go_on=go_on):
                ours.entered[root] = entered = reserve(
                    areas[root], wish.holder, until_ms, now_ms=now_ms(), take_over=wish.take_over
                )
                ours.remarks += [entered.remark] if entered.remark else []
        except Reserved as e:  # reserved since the check
            reservation = read_reservation(areas[root])
            if not wish.skip or reservation is None or len(refused) + 1 == len(areas):
                raise
            refused[root] = e
            ours.skipped.append(reservation._replace(log_dir=root))
    ours.log_dirs = [named for named in ours.log_dirs if roots[named] in ours.entered]
    ours.remarks += [
        f"{one.log_dir}: left out, reserved by {in_words(one)}" for one in ours.skipped
    ]


@contextmanager
def _or_left_out(ours: Planning, root: str, *, go_on: bool) -> Generator[None]:
    """Leave out a root whose file system fails in the body, if the planning may."""
    try:
        yield
    except StorageFailed as e:
        if not go_on:
            raise
        ours.failed[root] = e


def _seen(root: str, place: Path | None) -> list[str]:
    """Return remarks on what would prevent applying a plan without a reservation."""
    remarks = []
    with suppress(KafkatsError):
        if (state := lock_state(root)).held:
            remarks.append(f"{root}: {state.why}: nothing can be applied here until it stops")
    with suppress(KafkatsError):
        reservation = read_reservation(reservation_area(root, place))
        if reservation is not None and not reservation.expired(now_ms()):
            remarks.append(
                f"{root}: reserved by {in_words(reservation)}:"
                " nobody else can apply anything here until then"
            )
    return remarks
