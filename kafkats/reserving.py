"""Reservations of all the log dirs of a plan or a run: what the kafkats command and the Spark jobs do alike.

    with planning(log_dirs, wish) as ours:      reserves, unless nobody wishes it
        ... look at ours.log_dirs ...
        ours.write(plan, folder)                keeps what the plan writes to; the rest is released at the end
    with changing(run, folder) as held:         reserves while it writes, and releases at the end

A reserved plan's folder and a run's folder hold `reservation.json`, which no digest covers: holder, end, and the token
of each log dir. By it `apply` and `undo` know their own reservation again.
"""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Collection, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple

import pyarrow as pa

from kafkats.errors import CorruptFile, CorruptPlan, KafkatsError, Locked, Reserved, storage
from kafkats.logdir.lock import lock_state
from kafkats.logdir.place import locate
from kafkats.logdir.reservation import (
    Entered,
    Reservation,
    check_words,
    extend,
    in_words,
    read_reservation,
    refusal,
    release,
    reservation_area,
    reserve,
    time_in_words,
)
from kafkats.plan import Plan, write_plan
from kafkats.report import read_json, write_json
from kafkats.run import Run, run_of
from kafkats.who import this_user

RECORD: Final = "reservation.json"
DAY_MS: Final = 86_400_000
"""How long a reservation lasts when nobody says; a run that writes renews it, one that was killed keeps it so long."""
_RENEW_SECONDS: Final = 600.0


class Wish(NamedTuple):
    """A planner's words. `until_ms` is epoch milliseconds.

    `skip`: leave out what others have reserved instead of refusing; `take_over`: holders that are known to be over.
    """

    holder: str
    until_ms: int
    skip: bool = False
    take_over: tuple[str, ...] = ()


@dataclass
class Planning:
    """The log dirs of a plan under way.

    `log_dirs` are those to look at, as they were named; `skipped` the reservations of the others; `remarks` what the
    planner should know.
    """

    log_dirs: list[str]
    wish: Wish | None = None
    skipped: list[Reservation] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)
    entered: dict[str, Entered] = field(default_factory=dict)
    """By the root's real path; after the planning only what was kept."""
    kept: set[str] = field(default_factory=set)

    def write(self, plan: Plan, folder: Path, **beside: pa.Table) -> None:
        """`plan.write_plan`, and keep the reservation of what the plan writes to. Raises as `write_plan`, CorruptPlan."""
        write_plan(plan, folder, **beside)
        self.keep(run_of(plan).directories, folder)

    def keep(self, log_dirs: Iterable[str], folder: Path | None = None) -> None:
        """Keep the reservation of these roots beyond the planning, and write it down in the plan's `folder`."""
        kept = {os.path.realpath(log_dir) for log_dir in log_dirs} & self.entered.keys()
        self.kept |= kept
        if folder is not None:
            _write_record(folder, [self.entered[root] for root in sorted(kept)])

    def said(self) -> dict[str, Any]:
        """For the result of a plan: fields of its JSON, stable."""
        said: dict[str, Any] = {"remarks": self.remarks}
        if self.wish is not None:
            said |= {
                "holder": self.wish.holder,
                "reserved_until_ms": max((e.reservation.until_ms for e in self.entered.values()), default=None),
                "reserves": sorted(self.entered),
                "reserved": [_row(one) for one in self.skipped],
            }
        return said

    def sentences(self) -> list[str]:
        """The same for people, without the remarks."""
        return [
            f"{root}: reserved by {in_words(entered.reservation)}" for root, entered in sorted(self.entered.items())
        ]


@dataclass
class Held:
    """What a run has reserved while it writes."""

    entered: dict[str, Entered]
    remarks: list[str]

    def record(self, folder: Path) -> None:
        """Write it down in the run's folder, so that a repeated apply, or an undo, knows it again. Raises StorageFailed."""
        _write_record(folder, list(self.entered.values()))


class Recorded(NamedTuple):
    """What `reservation.json` says; `tokens` by the root's real path."""

    holder: str
    until_ms: int
    tokens: Mapping[str, str]


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def somebody(doing: str) -> str:
    """The holder of a reservation when none is named: `user@host DOING`."""
    return f"{this_user()}@{socket.gethostname()} {doing}"


def root_of(path: str | os.PathLike[str]) -> str:
    """The root whose reservation counts for `path`, a root, a partition directory or a segment. Raises as `locate`."""
    place = locate(path)
    found = place.root or (place.partition.parent if place.partition else place.path)
    return os.path.realpath(found)


@contextmanager
def planning(
    log_dirs: Iterable[str | os.PathLike[str]], wish: Wish | None, place: Path | None = None
) -> Generator[Planning]:
    """Reserve the roots of `log_dirs` as `wish` says, release at the end what was not kept, all of it after an error.

    `place` as in workarea.work_area. Without a wish nothing is reserved: a broker that runs on a log dir, or somebody's reservation, becomes a remark.

    Raises Reserved when others hold one of them (with `skip`: all of them), Locked when a broker holds one, and as
    `reserve` and `locate`.
    """
    ours = Planning([os.fspath(one) for one in log_dirs], wish)
    roots = {named: root_of(named) for named in ours.log_dirs}
    if wish is None:
        ours.remarks += [remark for root in dict.fromkeys(roots.values()) for remark in _seen(root, place)]
        yield ours
        return
    check_words(wish.holder, wish.until_ms, now_ms())
    try:
        _reserve_all(ours, roots, wish, place)
        yield ours
    except BaseException:
        ours.kept.clear()
        raise
    finally:
        for root in ours.entered.keys() - ours.kept:
            ours.remarks += _give_back(ours.entered.pop(root))


def _reserve_all(ours: Planning, roots: Mapping[str, str], wish: Wish, place: Path | None) -> None:
    """Enter the reservation of every root, or leave it out of `ours.log_dirs`."""
    areas = {root: reservation_area(root, place) for root in sorted(set(roots.values()))}
    refused: dict[str, Reserved] = {}
    for root, area in areas.items():  # before any is changed
        found = read_reservation(area)
        if found is not None and _foreign(found, {wish.holder}, wish.take_over):
            refused[root] = refusal(area, found)
            ours.skipped.append(found._replace(log_dir=root))
    if refused and (not wish.skip or len(refused) == len(areas)):
        raise next(iter(refused.values()))
    for root in areas.keys() - refused.keys():
        if (state := lock_state(root)).held:
            raise Locked(f"{state.why}: stop the broker, or plan without a reservation only to look", path=root)
    for root in sorted(areas.keys() - refused.keys()):
        try:
            entered = reserve(areas[root], wish.holder, wish.until_ms, now_ms=now_ms(), take_over=wish.take_over)
        except Reserved as e:  # since we looked
            found = read_reservation(areas[root])
            if not wish.skip or found is None or len(refused) + 1 == len(areas):
                raise
            refused[root] = e
            ours.skipped.append(found._replace(log_dir=root))
            continue
        ours.entered[root] = entered
        ours.remarks += [entered.remark] if entered.remark else []
    ours.log_dirs = [named for named in ours.log_dirs if roots[named] not in refused]
    ours.remarks += [f"{one.log_dir}: left out, reserved by {in_words(one)}" for one in ours.skipped]


def _seen(root: str, place: Path | None) -> list[str]:
    """What stands in the way of applying a plan that nothing was reserved for."""
    remarks = []
    with suppress(KafkatsError):
        if (state := lock_state(root)).held:
            remarks.append(f"{root}: {state.why}: nothing can be applied here until it stops")
    with suppress(KafkatsError):
        found = read_reservation(reservation_area(root, place))
        if found is not None and not found.expired(now_ms()):
            remarks.append(f"{root}: reserved by {in_words(found)}: nobody else can apply anything here until then")
    return remarks


@contextmanager
def changing(
    run: Run,
    folder: Path,
    *,
    holder: str = "",
    plan_folder: Path | None = None,
    going_back: bool = False,
    renew_seconds: float = _RENEW_SECONDS,
) -> Generator[Held]:
    """Hold the reservation of every log dir of `run` while the body writes; release them at its end.

    A reservation is ours when `holder` has it, when the plan in `plan_folder` was reserved by its holder, or when an
    attempt of the run in `folder` that was killed has left it. `going_back`: what could not be reserved for any other
    reason than somebody's reservation is changed all the same, since undo must be possible where nothing can be made.

    Raises Reserved naming the holder, CorruptPlan, and as `reserve`.
    """
    planned = read_record(plan_folder) if plan_folder else None
    before = read_record(folder)
    name = holder or (planned.holder if planned else "") or somebody(f"run {run.run_id}")
    known = {*([planned.holder] if planned else ()), *(before.tokens.values() if before else ())}
    held = Held({}, [])
    stop = threading.Event()
    renewing = threading.Thread(target=_renew, args=(held, stop, renew_seconds), daemon=True, name="reservation")
    try:
        _enter_all(held, run, name, known, going_back=going_back)
        renewing.start()
        if going_back:  # an apply has no folder yet, and does it itself
            with suppress(KafkatsError):
                held.record(folder)
        yield held
    finally:
        stop.set()
        if renewing.is_alive():
            renewing.join()
        for entered in held.entered.values():
            held.remarks += _give_back(entered)


def _enter_all(held: Held, run: Run, holder: str, known: Collection[str], *, going_back: bool) -> None:
    until_ms = now_ms() + DAY_MS
    check_words(holder, until_ms, now_ms())
    areas = {}
    for log_dir in run.directories:
        if not Path(log_dir).is_absolute() or "\0" in log_dir:
            raise CorruptPlan(f"not a log directory: {log_dir!r}")
        with _lenient(going_back):
            areas[os.path.realpath(log_dir)] = reservation_area(log_dir, Path(run.place) if run.place else None)
    for area in areas.values():  # before any is changed
        with _lenient(going_back):
            found = read_reservation(area)
            if found is not None and _foreign(found, {holder, *known}):
                raise refusal(area, found)
    for root, area in sorted(areas.items()):
        with _lenient(going_back):
            entered = reserve(area, holder, until_ms, now_ms=now_ms(), known=known)
            held.entered[root] = entered
            held.remarks += [entered.remark] if entered.remark else []


@contextmanager
def _lenient(going_back: bool) -> Generator[None]:
    try:
        yield
    except (Reserved, CorruptFile):
        raise
    except KafkatsError:
        if not going_back:
            raise


def _renew(held: Held, stop: threading.Event, seconds: float) -> None:
    """Extend what is held until told to stop. One that was broken meanwhile is not made again."""
    while not stop.wait(seconds):
        for entered in held.entered.values():
            with suppress(KafkatsError):
                extend(entered.area, entered.reservation.token, now_ms() + DAY_MS)


def _foreign(found: Reservation, ours: Collection[str], take_over: Collection[str] = ()) -> bool:
    mine = {found.holder, found.token} & set(ours)
    return not mine and not found.expired(now_ms()) and found.holder not in take_over


def _give_back(entered: Entered) -> list[str]:
    """Release; what to say where that fails."""
    try:
        release(entered.area, token=entered.reservation.token)
    except KafkatsError as e:
        return [f"still reserved until {time_in_words(entered.reservation.until_ms)}: {e}"]
    return []


def release_all(
    log_dirs: Sequence[str | os.PathLike[str]], *, holder: str | None = None, place: Path | None = None
) -> list[dict[str, Any]]:
    """Release every log dir, only the reservations of `holder` when one is given: a row each, and no error stops it.

    `outcome` is released, kept (another holder's), free (there was none) or failed; `holder` and `until_ms` are the
    reservation's, "" and -1 where there is none; `error` and `exit_code` say what failed.
    """
    rows = []
    for named in dict.fromkeys(os.fspath(one) for one in log_dirs):
        root = named
        with suppress(KafkatsError):  # what is empty or damaged by now may be reserved all the same
            root = root_of(named)
        row = {"log_dir": root, "outcome": "free", "holder": "", "until_ms": -1, "error": "", "exit_code": 0}
        try:
            area = reservation_area(root, place)
            found = release(area, holder=holder)
            if found is not None:
                row |= _row(found) | {"outcome": "released"}
            elif (other := read_reservation(area)) is not None:
                row |= _row(other) | {"outcome": "kept"}
        except KafkatsError as e:
            row |= {"outcome": "failed", "error": str(e), "exit_code": e.exit_code}
        rows.append(row)
    return rows


def release_sentences(rows: Iterable[Mapping[str, Any]]) -> list[str]:
    """A line for each row of `release_all`."""
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


def _row(one: Reservation) -> dict[str, Any]:
    return {"log_dir": one.log_dir, "holder": one.holder, "until_ms": one.until_ms}


def read_record(folder: Path) -> Recorded | None:
    """`reservation.json` of a plan's or a run's folder; None without one. Raises CorruptPlan, StorageFailed."""
    path = folder / RECORD
    if not path.exists():
        return None
    content = read_json(path)
    holder, until_ms, tokens = (content.get(name) for name in Recorded._fields)
    texts = [holder, *tokens, *tokens.values()] if isinstance(tokens, dict) else [None]
    if type(until_ms) is not int or any(not isinstance(text, str) for text in texts):
        raise CorruptPlan("not what a reservation says", path=path)
    return Recorded(str(holder), until_ms, dict(tokens or {}))


def _write_record(folder: Path, entered: Sequence[Entered]) -> None:
    if not entered:
        with storage(folder, "removing the record of a reservation"):
            (folder / RECORD).unlink(missing_ok=True)
        return
    ends = [one.reservation.until_ms for one in entered]
    tokens = {str(one.area.root): one.reservation.token for one in entered}
    record = Recorded(entered[0].reservation.holder, max(ends), tokens)
    write_json(folder / RECORD, record._asdict())
