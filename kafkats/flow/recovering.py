"""Recover the logs of a broker that was killed, before it starts again, in slices.

A slice is a part of the partitions. It is planned and applied as a whole, then the checkpoint gets
its recovery points. The broker recovers what is left when the time is up.
"""

from __future__ import annotations

import shutil
import threading
import time
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from kafkats.config.policy import Policy
from kafkats.errors import KafkatsError, storage
from kafkats.execution.executor import Executor
from kafkats.execution.read_ahead import ReadAhead, reading_ahead
from kafkats.flow.applying import Approved, apply_together
from kafkats.flow.kept_recoveries import HOLDER
from kafkats.flow.looking import LogStages
from kafkats.inspect.verify import VerifyOptions
from kafkats.logdir.lock import hold_shared
from kafkats.logdir.workarea import ROOT, ROOT_FIRST, WorkArea, work_area
from kafkats.plans.dialects import units_in
from kafkats.plans.disks import room_of
from kafkats.plans.operation import Planned
from kafkats.plans.plan import write_plan
from kafkats.plans.rows import PartitionKey, partition_of
from kafkats.plans.run import Run, directories, run_of, stop_file
from kafkats.plans.units import Unit
from kafkats.recovery.copying import place_of
from kafkats.recovery.cutting import HARMLESS, cut_tails
from kafkats.recovery.ends import Judged, judge_ends, judge_last_segments
from kafkats.recovery.kept_runs import KeptRun, keep, kept_runs, new_run
from kafkats.recovery.loads import loads_of
from kafkats.recovery.look import RecoverOptions
from kafkats.recovery.outage import (
    OURS,
    Choice,
    Load,
    Machine,
    Ours,
    choose,
    is_worth,
    learned,
    next_slice,
    our_seconds,
    with_here,
)
from kafkats.recovery.plan import look_and_plan, of_log_dirs
from kafkats.recovery.rates import Rate

Tell = Callable[..., None]
"""Takes the name of an event, and its fields."""
_FIRST_SECONDS: Final = 1.0
"""A first slice of this length shows how fast the disk flushes."""
_MOST_SECONDS: Final = 20.0
_STOP_SECONDS: Final = 1.0
"""Before the end of its time a slice begins no further partition."""
_AGAIN_SECONDS: Final = 0.1
_SPARE_BYTES: Final = 64 * 1024**2
"""Free space that copies of good batches leave."""


class Job(NamedTuple):
    """A recovery to do. `began` and `until`, its deadline, are seconds of time.monotonic.

    `judges`: lost records hold the start, so partitions that are left are judged, too.
    """

    log_dirs: Sequence[str]
    policy: Policy
    rate: Rate
    machine: Machine
    began: float
    until: float
    at_ms: int
    place: Path | None
    owner_stopped: bool
    judges: bool
    tell: Tell

    @property
    def seconds_left(self) -> float:
        return self.until - time.monotonic()


@dataclass
class Recovered:
    """The result by partition: `done`; `left` to the broker, and `lost` records, with why.

    Of those `untold` nothing says whether they lose records. `failed`: an error of ours left some.
    """

    done: set[PartitionKey] = field(default_factory=set)
    left: dict[PartitionKey, str] = field(default_factory=dict)
    lost: dict[PartitionKey, str] = field(default_factory=dict)
    untold: set[PartitionKey] = field(default_factory=set)
    runs: list[str] = field(default_factory=list)
    copied_bytes: int = 0
    left_bytes: int = 0
    failed: bool = False
    alone_seconds: float = 0.0
    ours_seconds: float = 0.0

    def leave(self, loads: Iterable[Load], why: str) -> None:
        """Leave partitions to the broker."""
        for load in loads:
            self.left[load.where] = why
            self.left_bytes += load.log_bytes

    def judge(self, planned: Collection[PartitionKey], lost: Mapping[PartitionKey, str]) -> None:
        """Take over what the plan of partitions says that they lose."""
        self.untold.difference_update(planned)
        for where in planned:
            self.lost.pop(where, None)
        self.lost.update(lost)


def recover_logs(executor: Executor, job: Job) -> Recovered:
    """Recover what is recovered here sooner than by the broker.

    Call it in `alone`. Brokers cannot start meanwhile. Raises Locked if one runs, Refused where a
    lock proves nothing; NotPermitted, StorageFailed.
    """
    areas = {log_dir: work_area(log_dir, job.place) for log_dir in job.log_dirs}
    with ExitStack() as held:
        for log_dir in job.log_dirs:
            held.enter_context(hold_shared(log_dir, job.owner_stopped))
        units = _units(job.log_dirs, job.policy)
        loads = loads_of(unit for own in units.values() for unit in own)
        choice = choose(loads, job.rate, job.machine)
        _tell_choice(job, loads, choice)
        found = Recovered(alone_seconds=choice.alone)
        if job.judges:
            until = job.until - _STOP_SECONDS
            found.lost, found.untold = judge_ends(LogStages(executor), units, until)
            choice = with_here(choice, found.untold)
        found.leave(choice.left, "the broker is as quick")
        found.left.update(_not_listed(units))
        began = time.monotonic()
        _Slices(executor, job, areas, units, found).work(choice)
        found.ours_seconds = time.monotonic() - began
        if found.untold:
            job.tell("not-judged", level="warning", partitions=len(found.untold))
    return found


def judge_stopped(
    executor: Executor, log_dirs: Sequence[str], policy: Policy, until: float
) -> Judged:
    """Judge what a start loses where the broker has stopped cleanly, up to `until`.

    Raises Refused for logs of a dialect and for copies, StorageFailed.
    """
    units, stages = _units(log_dirs, policy), LogStages(executor)
    until -= _STOP_SECONDS
    return judge_last_segments(stages, units, judge_ends(stages, units, until), until)


def _not_listed(units: Mapping[PartitionKey, Sequence[Unit]]) -> dict[PartitionKey, str]:
    """Return why partitions could not be listed: links, or directories that cannot be read."""
    whys = ((key, unit) for key, own in units.items() for unit in own if unit.claims is None)
    return {key: unit.findings[0].reason for key, unit in whys}


def _units(log_dirs: Sequence[str], policy: Policy) -> dict[PartitionKey, list[Unit]]:
    units: dict[PartitionKey, list[Unit]] = {}
    for unit in units_in(log_dirs, "*", policy=policy, none_is_fine=True):
        if unit.partition_dir:
            units.setdefault(unit.key.partition, []).append(unit)
    return units


def _tell_choice(job: Job, loads: Sequence[Load], choice: Choice) -> None:
    job.tell(
        "estimated",
        partitions=len(loads),
        bytes=sum(load.log_bytes for load in loads),
        here=len(choice.here),
        left=len(choice.left),
        seconds_here=round(choice.ours, 2),
        seconds_of_the_rest=round(choice.rest, 2),
        seconds_of_the_broker_alone=round(choice.alone, 2),
    )


class _Slices(NamedTuple):
    """The work on slices of partitions, one after the other."""

    executor: Executor
    job: Job
    areas: Mapping[str, WorkArea]
    units: dict[PartitionKey, list[Unit]]
    found: Recovered

    def work(self, choice: Choice) -> None:
        """Recover the chosen partitions as long as time is left and it saves time."""
        with reading_ahead(list(self._logs(choice.here))) as ahead:
            self._work(choice, ahead)

    def _logs(self, loads: Iterable[Load]) -> Iterator[Path]:
        for load in loads:
            yield from (unit.log for unit in self.units[load.where] if unit.recovery)

    def _work(self, choice: Choice, ahead: ReadAhead) -> None:
        rest, ours, seconds, number = list(choice.here), OURS, _FIRST_SECONDS, 0
        machine = self.job.machine
        while rest:
            count = next_slice(rest, seconds, ours, machine)
            now, rest = rest[:count], rest[count:]
            if self.job.seconds_left < _STOP_SECONDS + our_seconds(now[:1], ours, machine):
                self.found.leave([*now, *rest], "the time was up")
                return
            took = self._one(now, number)
            ahead.used(sum(load.log_bytes for load in now))
            ours, number = learned(ours, now, took, machine), number + 1
            seconds = min(seconds * 4, _MOST_SECONDS)
            if rest and not self._is_worth(rest, ours, choice.alone):
                needed = [load for load in rest if load.where in self.found.untold]
                rest = [load for load in rest if load.where not in self.found.untold]
                self.found.leave(rest, "the broker is as quick, by the speed of this disk")
                rest = needed

    def _is_worth(self, rest: Sequence[Load], ours: Ours, alone: float) -> bool:
        rate, machine = self.job.rate, self.job.machine
        took = time.monotonic() - self.job.began
        return is_worth(rest, rate, machine, ours, took=took, alone=alone)

    def _one(self, loads: Sequence[Load], number: int) -> float:
        """Recover one slice. Return the seconds that it took. Errors leave it to the broker."""
        began = time.monotonic()
        try:
            self._recover(loads, number)
        except KafkatsError as e:
            self.found.failed = True
            self.found.leave([one for one in loads if one.where not in self.found.done], str(e))
            self.job.tell("failed", level="warning", error=str(e), kind=type(e).__name__)
        return time.monotonic() - began

    def _recover(self, loads: Sequence[Load], number: int) -> None:
        keys = [load.where for load in loads]
        planned = self._plan(keys, RecoverOptions(credit=True))
        if any(one.short for one in room_of(planned.plan)) and self._cut(planned):
            planned = self._plan(keys, RecoverOptions(credit=True))
        blocked = _blocked(planned)
        self.found.judge(keys, _lost(planned))
        short = [one.log_dir for one in room_of(planned.plan) if one.short]
        if short:
            self.found.leave(loads, f"{short[0]}: too little free space")
            return
        log_dirs = dict.fromkeys(load.log_dir for load in loads)
        kept = {log_dir: self._kept(log_dir, blocked, number) for log_dir in log_dirs}
        outcomes = self._applied(planned, kept)
        for load in loads:
            why = blocked.get(load.where) or outcomes.get(load.where, "")
            if why:
                self.found.leave([load], why)
            else:
                self.found.done.add(load.where)

    def _cut(self, planned: Planned) -> bool:
        """Cut torn tails without undo, for lack of room. Return whether there were any."""
        cut = cut_tails(planned)
        if cut:
            paths = [str(Path(key.log_dir, key.partition_dir)) for key in cut]
            self.job.tell("cut", level="warning", bytes=sum(cut.values()), partitions=paths)
            again = list(units_in(paths, "*", policy=self.job.policy))
            for key in cut:
                self.units[key] = [unit for unit in again if unit.key.partition == key]
        return bool(cut)

    def _plan(self, keys: Iterable[PartitionKey], options: RecoverOptions) -> Planned:
        units = [unit for key in keys for unit in self.units[key]]
        stages = LogStages(self.executor, VerifyOptions(held=True))  # by recover_logs
        return look_and_plan(stages, units, self.job.policy, options)

    def _kept(self, log_dir: str, blocked: Mapping[PartitionKey, str], number: int) -> KeptRun:
        """Return a folder for the plan and the run of a log directory, with copies."""
        area = self.areas[log_dir]
        own = {key: why for key, why in blocked.items() if key.log_dir == log_dir}
        return self._copied(new_run(area, self.job.at_ms, number), area, own)

    def _copied(
        self, kept: KeptRun, area: WorkArea, blocked: Mapping[PartitionKey, str]
    ) -> KeptRun:
        """Copy the good batches that the broker's recovery deletes, if there is room and time."""
        named = [area.root for area in self.areas.values()]
        earlier = list(kept_runs(map(str, named), self.job.place))
        keys = [
            key for key in blocked if key in self.units and not _is_copied(self.units[key], earlier)
        ]
        size = sum(unit.bytes for key in keys for unit in self.units[key] if unit.recovery)
        if not size or self.job.seconds_left < _STOP_SECONDS + size / 1e9:
            return kept
        with storage(kept.folder, "asking for its free space"):
            free = shutil.disk_usage(kept.folder).free
        if free < size + _SPARE_BYTES:
            self.job.tell("not-copied", level="warning", bytes=size, free_bytes=free)
            return kept
        options = RecoverOptions(copy_readable=str(kept.readable))
        kept = keep(kept, "it has copies of batches that the broker deletes", area)
        try:
            again = self._plan(keys, options)
        finally:  # a kill before this leaves the note: the first copy may be there
            if not kept.has_copies():
                kept = keep(kept, "", area)
        copied = pc.sum(again.beside["recovery"]["copied_bytes"]).as_py() or 0
        if copied:
            self.found.copied_bytes += copied
            self.job.tell("copied", bytes=copied, folder=str(kept.readable))
        return kept

    def _applied(self, planned: Planned, kept: Mapping[str, KeptRun]) -> dict[PartitionKey, str]:
        """Apply a plan. Return why partitions were not recovered.

        Each log directory has a run of its own, on its disk: a run on a disk that is lost would
        leave the partitions of other disks half done, and nobody could end it.
        """
        parts = dict(of_log_dirs(planned))
        runs = {log_dir: self._run_of(part) for log_dir, part in parts.items()}
        runs = {log_dir: run for log_dir, run in runs.items() if run.directories}
        late = self.job.seconds_left < _STOP_SECONDS  # planning took longer than expected
        for log_dir, folder in kept.items():
            if late or log_dir not in runs:
                _remove(folder)
        if late:
            places = (where for run in runs.values() for where in directories(run))
            return dict.fromkeys(places, "the time was up")
        if not runs:
            return {}
        approved = [self._approved(parts[one], run, kept[one], one) for one, run in runs.items()]
        files = [stop_file(one.folder) for one in approved]
        with _stopped_at(self.job.until - _STOP_SECONDS, files):
            actions = apply_together(self.executor, approved, holder=HOLDER)
        for log_dir in runs:
            self.found.runs.append(str(kept[log_dir].run))
        return _failures(actions)

    def _run_of(self, part: Planned) -> Run:
        return run_of(part.plan, place=self.job.place, owner_stopped=self.job.owner_stopped)

    def _approved(self, part: Planned, run: Run, kept: KeptRun, log_dir: str) -> Approved:
        """Write the plan of a log directory, and whether a person has to purge its run."""
        if why := _worth_keeping(part):
            keep(kept, "; ".join(filter(None, (kept.keep, why))), self.areas[log_dir])
        write_plan(part.plan, kept.plan, {name: (one,) for name, one in part.beside.items()})
        return Approved(part.plan, kept.plan, run, kept.run)


def _is_copied(units: Sequence[Unit], earlier: Iterable[KeptRun]) -> bool:
    """Return whether an earlier recovery has copies of a partition as it still is.

    A broker that does not start is started again and again.
    """
    where = units[0]
    changed_ns = max((file.ctime_ns for one in units for file in one.files[:1] if file), default=0)
    return any(
        one.at_ms * 1_000_000 > changed_ns
        and place_of(str(one.readable), where.log_dir, where.partition_dir).exists()
        for one in earlier
    )


def _blocked(planned: Planned) -> dict[PartitionKey, str]:
    """Return the partitions that a plan leaves alone, and why."""
    items = planned.plan.items
    rows = items.filter(pc.equal(items["action"], "blocked"))
    return {
        partition_of(row): str(row["reason"])
        for row in rows.select(["log_dir", "partition_dir", "reason"]).to_pylist()
    }


def _lost(planned: Planned) -> dict[PartitionKey, str]:
    """Return the logs that lack records at their end, and which."""
    rows = planned.beside["recovery"]
    rows = rows.filter(pc.not_equal(rows["lost"], ""))
    return {
        partition_of(row): str(row["lost"])
        for row in rows.select(["log_dir", "partition_dir", "lost"]).to_pylist()
    }


def _worth_keeping(planned: Planned) -> str:
    """Return why a person has to purge what a plan cuts, "" for torn bytes and zeros."""
    rows: Sequence[Mapping[str, Any]] = planned.beside["recovery"].to_pylist()
    below = [row for row in rows if row["cut_bytes"] and row["behind_high_watermark"] > 0]
    if below:
        return f"a cut of {below[0]['partition_dir']} lies below the high watermark"
    planned_rows = {(r["log_dir"], r["partition_dir"]) for r in rows if r["cut_bytes"]}
    stops = planned.segments.select(["log_dir", "partition_dir", "stop", "recovery"]).to_pylist()
    for row in stops:
        where = (row["log_dir"], row["partition_dir"])
        stop = row["stop"] if row["recovery"] and where in planned_rows else ""
        if stop and stop not in HARMLESS:
            return f"a cut of {row['partition_dir']} may hold a whole batch ({stop})"
    return ""


def _failures(actions: pa.Table) -> dict[PartitionKey, str]:
    """Return why partitions were not recovered, from rows of facts.ACTIONS."""
    failed: dict[PartitionKey, str] = {}
    not_credited: dict[str, str] = {}
    rows = actions.select(["log_dir", "partition_dir", "outcome", "error"]).to_pylist()
    for row in rows:
        if row["error"] and row["partition_dir"] == ROOT:
            not_credited[row["log_dir"]] = row["error"]
        elif row["error"] and row["partition_dir"] != ROOT_FIRST:
            failed[partition_of(row)] = row["error"]
    for row in rows:
        if row["log_dir"] in not_credited and row["partition_dir"] not in (ROOT, ROOT_FIRST):
            failed.setdefault(partition_of(row), not_credited[row["log_dir"]])
    return failed


@contextmanager
def _stopped_at(moment: float, files: Sequence[Path]) -> Generator[None]:
    """Make files at a moment (time.monotonic), if the body still runs then.

    They are made again until the body ends: it makes the folders, and clears an earlier stop.
    """
    ended = threading.Event()

    def stop() -> None:
        left = min(max(moment - time.monotonic(), 0.0), threading.TIMEOUT_MAX)
        while not ended.wait(left):
            for file in files:
                with suppress(OSError):
                    file.write_text("the time was up", encoding="utf-8")
            left = _AGAIN_SECONDS

    stopping = threading.Thread(target=stop, daemon=True)
    stopping.start()
    try:
        yield
    finally:
        ended.set()
        stopping.join(_AGAIN_SECONDS)


def _remove(kept: KeptRun) -> None:
    """Remove the folder of a recovery that changed nothing, unless it has copies."""
    if not kept.keep:
        with suppress(OSError):
            shutil.rmtree(kept.folder)
