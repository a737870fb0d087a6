"""Apply an approved plan of any operation.

One unit of work is one partition directory. The operation stages its new files, and
`logdir.changeset` commits them; no other code changes the directory. `kafkats.operations` has the
module that stages, for each operation.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Collection, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from kafkats.errors import (
    Changed,
    CorruptPlan,
    KafkatsError,
    Locked,
    NotEqual,
    Refused,
    exists,
    storage,
)
from kafkats.execution.executor import is_last_attempt
from kafkats.hashes import algorithm_of, hash_file
from kafkats.logdir.changeset import commit, resume
from kafkats.logdir.disk import DISK
from kafkats.logdir.identity import identify, permitted
from kafkats.logdir.journal import Journal, Note, read_journal
from kafkats.logdir.lease import Lease, claim, is_fenced
from kafkats.logdir.lock import hold_shared
from kafkats.logdir.resume_checks import check_home
from kafkats.logdir.swap import stands
from kafkats.logdir.tails import is_cut
from kafkats.logdir.workarea import (
    ROOT,
    ROOT_FIRST,
    Site,
    WorkArea,
    clear_folder,
    site,
    work_area,
)
from kafkats.operations import operation
from kafkats.paths import CLEAN_SHUTDOWN, LOCK, OFFSET_CHECKPOINTS
from kafkats.plans.columns import batch_of
from kafkats.plans.facts import ACTIONS
from kafkats.plans.plan import Plan
from kafkats.plans.rows import (
    ActionRow,
    Item,
    PartitionKey,
    grouped,
    item_rows,
    partition_of,
    partitions_of,
)
from kafkats.plans.run import FINISHED, PartitionWork, Run, journal_of, run_of, stop_file
from kafkats.result import ALREADY

_LOOK_S: Final = 0.2
_NEWER_S: Final = 600.0
"""How long a fenced attempt waits for the newer one."""
_ERRORS: Final = 20
"""Errors that a summary names."""
_ACTIONS: Final = ("add", "replace", "truncate", "remove", "update")


def partition_works(plan: Plan, run: Run, folder: Path | None = None) -> list[PartitionWork]:
    """Return the plan's work by partition directory: each is changed as a whole, with one journal.

    `folder` is the run's: a partition whose proof fails stops the others by a file in it. Raises
    CorruptPlan for items that no operation plans, since a digest only proves approval.
    """
    writer = operation(plan.operation).writes()
    by_directory: dict[PartitionKey, list[Item]] = {}
    for item in item_rows(plan.items):
        if item["action"] != "blocked":
            _check_item(item, truncates=operation(plan.operation).recovers)
            writer.check_item(item)
            by_directory.setdefault(journal_of(item), []).append(item)
    for (log_dir, partition), items in by_directory.items():
        if len({item["file"] for item in items}) != len(items):
            raise CorruptPlan("a plan that names a file twice", path=Path(log_dir, partition))
    stop = str(stop_file(folder)) if folder else ""
    return [
        PartitionWork(
            plan.operation,
            plan.header["options"],
            *where,
            run.run_id,
            run.place,
            run.owner_stopped,
            tuple(items),
            stop,
            _beside(where, by_directory),
        )
        for where, items in by_directory.items()
    ]


def _beside(
    where: PartitionKey, by_directory: Mapping[PartitionKey, list[Item]]
) -> tuple[Item, ...]:
    """Return the items of the same log directory that a work has to know of.

    For ROOT these are the updates of partitions, which are written into the log directory's own
    files; for a partition, the removal of the clean-shutdown marker.
    """
    if where.partition_dir != ROOT:
        first = where._replace(partition_dir=ROOT_FIRST)
        return () if where == first else tuple(by_directory.get(first, ()))
    return tuple(
        item
        for other, items in by_directory.items()
        if other.log_dir == where.log_dir and other.partition_dir != ROOT
        for item in items
        if item["action"] == "update" and item["file"] in OFFSET_CHECKPOINTS
    )


def rounds(works: Sequence[PartitionWork]) -> list[list[PartitionWork]]:
    """Return the works in rounds that may run in parallel, in the order of `round_of`."""
    order = [[work for work in works if round_of(work.partition_dir) == n] for n in range(3)]
    return [together for together in order if together]


def with_unfinished(
    works: Sequence[PartitionWork], done: Iterable[pa.Table]
) -> Sequence[PartitionWork]:
    """Return the works of a round, those of ROOT with the partitions that are not finished.

    `done` has the rows of facts.ACTIONS of earlier rounds. A partition without any row is not
    finished.
    """
    if not any(work.partition_dir == ROOT and work.beside for work in works):
        return works
    places = [*PartitionKey._fields, "outcome"]
    finished = {
        partition_of(row)
        for rows in done
        for row in grouped(rows, places).to_pylist()
        if row["outcome"] in FINISHED
    }
    return [work._replace(unfinished=_unfinished(work, finished)) for work in works]


def _unfinished(work: PartitionWork, finished: Collection[PartitionKey]) -> tuple[str, ...]:
    if work.partition_dir != ROOT:
        return ()
    left = {partition_of(item) for item in work.beside}.difference(finished)
    return tuple(sorted(where.partition_dir for where in left))


def round_of(partition_dir: str) -> int:
    """Return when a run changes a directory: 0, 1 or 2. An undo takes the opposite order.

    The log dirs' own files describe the partitions. So a clean-shutdown marker is removed before
    the partitions are changed, and checkpoints are written afterwards.
    """
    return {ROOT_FIRST: 0, ROOT: 2}.get(partition_dir, 1)


def _check_item(item: Item, *, truncates: bool) -> None:
    partition, file = item["partition_dir"], item["file"]
    marker = item["action"] == "remove" and file == CLEAN_SHUTDOWN
    own = partition == ROOT and (item["action"] == "update" or marker)
    inside = own or Path(partition).name == partition
    place = item["log_dir"]
    if not Path(place).is_absolute() or any("\0" in name for name in (place, partition, file)):
        raise CorruptPlan(
            f"not a log directory and a file in it: {place!r}, {partition!r}, {file!r}"
        )
    if item["base_offset"] < 0 or not inside or Path(file).name != file:
        raise CorruptPlan(f"not a file of a partition directory: {file!r} in {partition!r}")
    if item["action"] == "truncate" and not truncates:
        raise CorruptPlan(f"{file}: this operation truncates no log")
    if item["action"] not in _ACTIONS or (item["before"] is None) != (
        item["action"] in ("add", "update")
    ):
        raise CorruptPlan(
            f"{file}: action {item['action']!r} does not go with what was there before"
        )


def refuse_unpermitted(plan: Plan) -> None:
    """Check before the approval that this user may give new files the attributes of the old ones.

    Raises NotPermitted, Vanished when a directory is gone, StorageFailed.
    """
    for work in partition_works(plan, run_of(plan)):
        written = [item["file"] for item in work.items if item["action"] != "remove"]
        permitted(work.directory, written)


def apply_partition(work: PartitionWork) -> pa.RecordBatch:
    """Build the partition's new files beside it and swap them in. Return rows of facts.ACTIONS.

    An error is in the rows. Then nothing in this partition was changed, or a repeated apply resumes
    it. If the executor tries again, retryable errors are raised instead.
    """
    began = time.monotonic()
    notes: Mapping[str, Note] = {}
    try:
        _refuse_stopped(work)
        (outcome, notes), error, kind = _apply(work), "", ""
    except KafkatsError as e:
        if e.retryable and not is_last_attempt():
            raise
        outcome = "refused" if isinstance(e, Refused) else "failed"
        error, kind = str(e), type(e).__name__
        if isinstance(e, NotEqual) and work.stop_file:
            error += _stop_others(work.stop_file, error)
    seconds = (time.monotonic() - began) / len(work.items)
    rows: list[ActionRow] = [
        {
            "log_dir": work.log_dir,
            "partition_dir": item["partition_dir"],
            "file": item["file"],
            "base_offset": item["base_offset"],
            "action": item["action"],
            "reason": item["reason"],
            "outcome": outcome,
            "error": error,
            "before_bytes": item["before"]["size"] if item["before"] else -1,
            "after_bytes": item["after_bytes"],
            "read_bytes": item["log_valid_bytes"],
            "seconds": seconds,
            "sha256": item["after_sha256"],
            "records": -1,
            "parity_before": "",
            "parity_after": "",
            "kind": kind,
            **notes.get(item["file"], Note()),
        }
        for item in work.items
    ]
    return batch_of(rows, ACTIONS)


def _stop_others(stop_file: str, error: str) -> str:
    """Stop the run's other partitions. Return a text to add to the error if that fails."""
    try:
        with storage(stop_file, "stopping the run"):
            Path(stop_file).write_text(error, encoding="utf-8", errors="backslashreplace")
    except KafkatsError as e:
        return f"; and the run's other partitions were not told to stop: {e}"
    return ""


def _refuse_stopped(work: PartitionWork) -> None:
    if work.partition_dir == ROOT and work.options.get("credit"):
        return  # what is finished counts
    if work.stop_file and exists(work.stop_file, "looking whether the run was stopped"):
        raise Refused("the run was stopped by another partition; nothing was changed here")


def _apply(work: PartitionWork) -> tuple[str, Mapping[str, Note]]:
    area = work_area(work.log_dir, work.place)
    _refuse_unplanned(work)
    _refuse_marked(work)
    with hold_shared(work.log_dir, work.owner_stopped):
        before = resume(
            area, work.partition_dir, work.run_id, owner_stopped=work.owner_stopped
        ).state
        if before != "nothing":
            return _finished(area, work, before)
        lease = claim(area, work.partition_dir, work.run_id)
        try:
            return _changed(work, lease)
        except KafkatsError as e:
            # A newer attempt removes what this one has staged, which may then fail in any way.
            if is_last_attempt() or not is_fenced(lease):
                raise
            return _by_newer_attempt(area, work, e)


def _changed(work: PartitionWork, lease: Lease) -> tuple[str, Mapping[str, Note]]:
    with _staging(lease):
        staged = operation(work.operation).writes().stage_partition(work, lease)
        if not staged.changes:
            return "nothing", staged.notes
        commit(
            work.directory.resolve(),
            staged.changes,
            staged.unchanged,
            lease,
            notes=staged.notes,
            owner_stopped=work.owner_stopped,
        )
    return "done", staged.notes


def _by_newer_attempt(
    area: WorkArea, work: PartitionWork, error: KafkatsError
) -> tuple[str, Mapping[str, Note]]:
    """Wait until a newer attempt has changed the partition, and return how it ended.

    Spark may run a task twice at a time, and takes the first answer: one that is fenced has none.
    Raises Locked if the newer attempt does not end in _NEWER_S: it may have been killed, and
    nothing is wrong with the partition.
    """
    until = time.monotonic() + _NEWER_S
    place = site(area, work.partition_dir, work.run_id)
    while time.monotonic() < until:
        with storage(place.run, "looking for a newer attempt's journal"):
            journal = read_journal(place, DISK)
        if journal is not None and journal.phase != "intent":
            return _finished(area, work, "already")
        time.sleep(_LOOK_S)
    raise Locked(
        "a newer attempt has taken the partition over and does not end", path=work.directory
    ) from error


def _refuse_unplanned(work: PartitionWork) -> None:
    """Raise Changed, before a `.lock` is created, if the plan's partition directory is missing.

    Raises Refused for a link: it may lead to another file system, or to another partition.
    """
    root, directory = Path(work.log_dir), work.directory
    with storage(directory, "looking for the partition"):
        if round_of(work.partition_dir) == 1 and directory.is_symlink():
            raise Refused(
                "the partition directory is a symbolic link; nothing was changed", path=directory
            )
        if not os.path.lexists(root / LOCK) and not directory.is_dir():
            raise Changed(
                "the plan's partition directory is not there; nothing was locked or changed",
                path=directory,
            )


def _refuse_marked(work: PartitionWork) -> None:
    """Raise Refused while there is a clean-shutdown marker that the plan removes before."""
    for item in work.beside:
        marker = Path(work.log_dir, item["file"])
        if item["file"] == CLEAN_SHUTDOWN and exists(marker, "looking for the marker"):
            raise Refused(
                "the clean-shutdown marker is still there, or again; nothing was changed here",
                path=marker,
            )


@contextmanager
def _staging(lease: Lease) -> Generator[None]:
    """Remove the staged files if nothing was committed: they take as much space as the live ones.

    This includes files of earlier attempts, which were killed or are fenced. With a journal the
    files are kept, since resume needs them.
    """
    place = lease.site
    _clear_staging(place, range(1, lease.epoch))
    try:
        yield
    finally:
        with suppress(KafkatsError):  # an error in flight takes precedence
            _clear_staging(place, (lease.epoch,))


def _clear_staging(place: Site, epochs: Iterable[int]) -> None:
    with storage(place.run, "clearing what was staged"):
        if read_journal(place, DISK) is not None:
            return
        for epoch in epochs:
            clear_folder(place.tails(epoch), DISK)
        if place.area.linked:
            present = set(DISK.names(place.run))
            for folder in (place.staging(epoch) for epoch in epochs):
                if folder.name in present:
                    clear_folder(folder, DISK)
            return
        beginnings = tuple(f"{place.temporary}{epoch}~" for epoch in epochs)
        for name in DISK.names(place.directory):
            if name.startswith(beginnings):
                DISK.unlink(place.directory / name)


def _finished(area: WorkArea, work: PartitionWork, state: str) -> tuple[str, Mapping[str, Note]]:
    """Return how an earlier attempt of this run, which has a journal, ended."""
    place = site(area, work.partition_dir, work.run_id)
    journal = read_journal(place, DISK)
    if journal is None or journal.phase in {"undo", "undone"}:
        raise Changed("this run was undone; make a new plan", path=work.directory)
    _check_unchanged(work, place, journal)
    return "done" if state == "finished" else "already", journal.notes


def _check_unchanged(work: PartitionWork, place: Site, journal: Journal) -> None:
    """Raise Changed unless the files are still as the journal says."""
    with storage(work.log_dir, "looking whether it is the directory of an earlier attempt"):
        check_home(place, journal, DISK)
    for step in journal.steps:
        path = work.directory / step.name
        if is_cut(step):
            if stands(step, identify(path), "new"):
                continue
            raise Changed(_SINCE, path=path)
        with storage(path, "reading what an earlier attempt wrote"):
            now = _hash(path, step.sha256 or "") if step.sha256 or path.exists() else None
        if now != step.sha256:
            raise Changed(_SINCE, path=path)


_SINCE: Final = "this plan was applied before, and the file has changed since; make a new plan"


def _hash(path: Path, like: str) -> str:
    with path.open("rb", buffering=0) as file:
        return hash_file(file, algorithm_of(like, path))


class Tally:
    """Counts over tables of a run's ACTIONS. The rows of a partition are in one of them."""

    def __init__(self) -> None:
        self.files = self.written_bytes = self.partitions = self.left = 0
        """In the partitions `left` something was not done."""
        self.outcomes: Counter[str] = Counter()
        self.errors: set[str] = set()
        self.error_kinds: set[str] = set()

    def add(self, actions: pa.Table) -> None:
        """Count the rows of a table."""
        counted = grouped(actions, ["outcome"], [("file", "count")])
        self.outcomes.update({row["outcome"]: row["file_count"] for row in counted.to_pylist()})
        whole = pc.not_equal(actions["action"], "truncate")  # of these only the tail is saved
        done = actions.filter(pc.and_(pc.equal(actions["outcome"], "done"), whole))
        self.files += actions.num_rows
        self.partitions += len(partitions_of(actions))
        self.left += len(partitions_of(actions.filter(pc.not_equal(actions["error"], ""))))
        self.written_bytes += pc.sum(pc.max_element_wise(done["after_bytes"], 0)).as_py() or 0
        errors = self.errors | set(actions["error"].unique().to_pylist()) - {""}
        self.errors = set(sorted(errors)[:_ERRORS])
        self.error_kinds |= set(actions["kind"].unique().to_pylist()) - {"", None}


def summarize(actions: pa.Table, failure: KafkatsError | None = None) -> dict[str, Any]:
    """Return `summary_of` rows of ACTIONS."""
    tally = Tally()
    tally.add(actions)
    return summary_of(tally, failure)


def summary_of(tally: Tally, failure: KafkatsError | None = None) -> dict[str, Any]:
    """Return counts, bytes and the exit code of a run that has ended with `failure`, None if it
    has reached every partition.
    """
    outcomes = tally.outcomes
    summary: dict[str, Any] = {
        "files": tally.files,
        "outcomes": dict(sorted(outcomes.items())),
        "written_bytes": tally.written_bytes,
        "errors": sorted(tally.errors),
        "error_kinds": sorted(tally.error_kinds),
        "exit_code": 3 if "refused" in outcomes else 2 if "failed" in outcomes else 0,
    }
    if failure is not None:
        summary["errors"] = [str(failure), *summary["errors"]][:_ERRORS]
        summary["error_kinds"] = sorted({type(failure).__name__, *tally.error_kinds})
        summary["exit_code"] = max(summary["exit_code"], failure.exit_code)
    elif "already" in outcomes and set(outcomes) <= {"already", "nothing"}:
        summary["note"] = ALREADY
    return summary
