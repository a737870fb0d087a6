"""Hold a broker's start, or recover its logs before it where that is quicker."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from kafkats import paths
from kafkats.config.options import Vouched, WorkArea
from kafkats.errors import KafkatsError
from kafkats.execution.processors import processors
from kafkats.flow.dispatch import Work, seen
from kafkats.flow.kept_recoveries import finish, purge_due
from kafkats.flow.recovering import Job, Recovered, judge_stopped, recover_logs
from kafkats.flow.waiting import alone
from kafkats.logdir.acting import as_owner
from kafkats.plans.rows import PartitionKey
from kafkats.recovery.ahead import recovered_logs
from kafkats.recovery.before import Before, look_before
from kafkats.recovery.holding import Held, Owner, hold_words, of_kinds
from kafkats.recovery.meta_properties import Expected
from kafkats.recovery.noted import note
from kafkats.recovery.options import BeforeStart
from kafkats.recovery.outage import Machine
from kafkats.recovery.rates import measured_rate
from kafkats.recovery.rules import StartRule, start_rule
from kafkats.recovery.start import predict_start
from kafkats.releases import NEWEST

_LOOK_SECONDS: Final = 0.002
"""A second look takes that long for each partition."""
_LOOK_AGAIN: Final = 1.0
"""A second look that takes longer is left out, unless it is asked for: the broker looks, too."""
_LOOK_PART: Final = 0.5
"""Of the time that is left, for one that is asked for: how long it takes is an estimate, and a
process that takes too long tells nothing at all."""
_NAMED: Final = 20
"""Partitions that the result names."""


class _Standing:
    """One recovery before a start."""

    def __init__(self, work: Work) -> None:
        self.work = work
        self.asked = work.request.of(BeforeStart)
        self.hold = hold_words(self.asked.hold)
        self.began = time.monotonic()
        self.until = self.began + self.asked.within / 1000
        self.kafka = self.asked.release
        self.rule: StartRule = start_rule(self.kafka or NEWEST)
        self.place = work.request.of(WorkArea).place
        self.owner_stopped = work.request.of(Vouched).owner_stopped
        self.paths = [one.path for one in work.request.log_dirs]

    @property
    def judges(self) -> bool:
        return "loses-records" in self.hold

    def tell(self, event: str, **fields: Any) -> None:
        self.work.show.happened(event, fields)

    def before(self) -> Before:
        owner = Owner(self.asked.cluster_id or None, self.asked.node_id)
        return look_before(
            self.paths, self.kafka, owner, place=self.place, record=self.asked.record
        )


def perform(work: Work) -> None:
    """Look at the log directories, recover them, and note what they have.

    Ends with refused if a finding holds the start. Raises UsageError for an unknown release,
    and as `look_before`; errors of the recovery itself leave it to the broker.
    """
    one = _Standing(work)
    before = one.before()
    held = list(before.held)
    recovered = Recovered()
    if not of_kinds(held, one.hold):
        before, recovered = _recovered(one, before)
        if one.judges and not before.live:
            recovered.lost.update(_lost_of_stopped(one, before))
        held += _held_by(one, before, recovered)
        for failure in note(before.roots, before.noted, one.place, one.asked.record):
            one.tell("not-noted", level="warning", error=failure)
    holding = of_kinds(held, one.hold)
    work.done.log_dirs = seen(str(path) for path in one.paths)
    work.done.found = _found(before, held, holding, recovered)
    work.done.start = "no" if holding else "yes"
    work.done.end_with(3 if holding else 0)


def _recovered(one: _Standing, before: Before) -> tuple[Before, Recovered]:
    """Recover what stopped uncleanly. An error of ours leaves all to the broker.

    Root works as the log directories' owner. Waits for another recovery, and returns how they are
    after it.
    """
    named = [root.log_dir for root in before.roots]
    there = [root.log_dir for root in before.roots if root.state == "there"]
    executor, now_ms = one.work.executor, one.work.request.made_ms
    waiting = dict.fromkeys((*before.unclean, *before.busy))
    try:
        with as_owner(there, one.place):
            if before.live or not waiting:
                return before, _not_recovered(one, before, named)
            with alone(waiting, one.until):
                before = one.before() if before.busy else before
                if before.live or not before.unclean:
                    return before, _not_recovered(one, before, named)
                purge_due(executor, named, one.place, now_ms, one.tell, clean=False)
                finish(executor, named, one.place, one.tell, owner_stopped=one.owner_stopped)
                return before, recover_logs(executor, _job(one, before.unclean))
    except KafkatsError as e:
        level = "warning" if e.retryable else "error"  # a next start will end as this one
        one.tell("left-to-the-broker", level=level, error=str(e), kind=type(e).__name__)
        left = dict.fromkeys(_unclean(before), str(e))
        if one.judges:
            one.tell("not-judged", level="warning", partitions=len(left))
        size = _unclean_bytes(one, before)
        return before, Recovered(left=left, left_bytes=size, failed=bool(left))


def _lost_of_stopped(one: _Standing, before: Before) -> dict[PartitionKey, str]:
    """Return the records that a start loses where the broker has stopped cleanly, and which."""
    if not before.stopped:
        return {}
    policy = one.work.request.settings()
    try:
        judged = judge_stopped(one.work.executor, before.stopped, policy, one.until)
    except KafkatsError as e:
        one.tell("not-judged", level="warning", log_dirs=before.stopped, error=str(e))
        return {}
    if judged.untold:
        one.tell("not-judged", level="warning", partitions=len(judged.untold))
    return judged.lost


def _unclean(before: Before) -> Iterator[PartitionKey]:
    for one in before.looked:
        if (log_dir := one.start.log_dir) in before.unclean:
            yield from (PartitionKey(log_dir, name) for name in one.names.loaded)


def _unclean_bytes(one: _Standing, before: Before) -> int:
    """Return about how many bytes of logs the broker recovers, from their names."""
    size = 0
    for looked in before.looked:
        log_dir, points = (
            looked.start.log_dir,
            looked.root.checkpoints.get(paths.RECOVERY_POINT, {}),
        )
        for name in looked.names.loaded if log_dir in before.unclean else ():
            parsed = paths.parse_partition(name)
            point = points.get(parsed, 0) if parsed else 0
            logs = recovered_logs(Path(log_dir, name), point, one.rule, clean=False)
            size += sum(logs.values())
    return size


def _not_recovered(one: _Standing, before: Before, named: list[str]) -> Recovered:
    """Purge, unless another process works on the log directories."""
    if before.live:
        one.tell("a-broker-runs", level="warning", log_dirs=before.live)
    elif before.busy:
        one.tell("kafkats-works", level="warning", log_dirs=before.busy)
    else:
        now_ms = one.work.request.made_ms
        purge_due(one.work.executor, named, one.place, now_ms, one.tell, clean=before.clean)
    return Recovered()


def _job(one: _Standing, log_dirs: list[str]) -> Job:
    threads = one.asked.threads or one.rule.recovery_threads
    return Job(
        log_dirs,
        one.work.request.settings(),
        measured_rate(one.rule),
        Machine(processors(), threads),
        one.began,
        one.until,
        one.work.request.made_ms,
        one.place,
        one.owner_stopped,
        one.judges,
        one.tell,
    )


def _held_by(one: _Standing, before: Before, recovered: Recovered) -> list[Held]:
    """Return what the start would lose, and why the broker would not start."""
    held = [
        Held("loses-records", f"{where.log_dir}/{where.partition_dir}", why)
        for where, why in recovered.lost.items()
    ]
    words = _words(one, before, recovered)
    return held + [Held("will-not-start", "", word) for word in words]


def _words(one: _Standing, before: Before, recovered: Recovered) -> list[str]:
    """Return why the broker would not start: by a second look, if there is time for it."""
    there = [Path(root.log_dir) for root in before.roots if root.state != "absent"]
    asked, left = "will-not-start" in one.hold, one.until - time.monotonic()
    most = left * _LOOK_PART if asked else min(_LOOK_AGAIN, left)
    takes = recovered.left_bytes / 1e9 * measured_rate(one.rule).per_gigabyte
    takes += sum(root.partitions for root in before.roots) * _LOOK_SECONDS
    if not there or not (asked or recovered.done):
        return before.stopping
    if takes >= most:
        if asked:
            one.tell("not-predicted", level="warning", error="the time is too short")
        return before.stopping
    expected = Expected(one.asked.cluster_id, one.asked.node_id)
    try:
        start = predict_start(one.work.executor, there, one.kafka or NEWEST, expected=expected)
    except KafkatsError as e:
        one.tell("not-predicted", level="warning", error=str(e))
        return before.stopping
    words = list(start.words) if start.outcome == "stops" else []
    one.tell("predicted", outcome=start.outcome, words=words)
    return words


def _found(
    before: Before, held: list[Held], holding: list[Held], recovered: Recovered
) -> dict[str, Any]:
    left = sorted(recovered.left.items())
    return {
        "start": not holding,
        "findings": [finding._asdict() | {"holds": finding in holding} for finding in held],
        "clean": before.clean,
        "partitions": sum(root.partitions for root in before.roots),
        "recovered": len(recovered.done),
        "left": len(recovered.left),
        "failed": recovered.failed,
        "left_partitions": [
            {"log_dir": where.log_dir, "partition_dir": where.partition_dir, "why": why}
            for where, why in left[:_NAMED]
        ],
        "lost": len(recovered.lost),
        "copied_bytes": recovered.copied_bytes,
        "runs": recovered.runs,
        "seconds": round(recovered.ours_seconds, 2),
        "seconds_of_the_broker_alone": round(recovered.alone_seconds, 2),
    }
