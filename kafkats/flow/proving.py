"""The proof of what was written: each file is read again from the disk, and must be as planned.

An apply proves its own files at its end (`prove_apply`), and verify or certify those of a plan or
of runs. Runs are named from the earliest to the latest. Where a later one wrote the same file, the
later one counts. What a run did is read from its journals beside the log directories, so a run
whose report was never written is proved too; what was undone is left out. A run that is proved, and
has reached all of its directories, gets a `proof.json`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence, Set
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeAlias

import pyarrow as pa

from kafkats.config.policy import Policy
from kafkats.config.settings import TopicSettings
from kafkats.counts import counted
from kafkats.errors import CorruptPlan, KafkatsError, exists
from kafkats.execution.executor import Executor
from kafkats.flow.ending import (
    ENDED_AS,
    check_area,
    check_journals,
    note_proved,
    over_directories,
    phase_of,
)
from kafkats.flow.looking import Listing, LogStages
from kafkats.generations import DEFAULT_RULE, RULES
from kafkats.inspect.options import ProofOptions
from kafkats.inspect.verify import VerifyOptions
from kafkats.logdir.workarea import ROOT
from kafkats.operations import operation
from kafkats.plans.columns import batch_of
from kafkats.plans.facts import SEGMENTS
from kafkats.plans.files import read_json
from kafkats.plans.operation import Proving
from kafkats.plans.parts import open_plan
from kafkats.plans.plan import AnyPlan, Plan
from kafkats.plans.proof import Proof
from kafkats.plans.rows import (
    Item,
    PartitionKey,
    item_rows,
    keys_of,
    partition_of,
    partitions_of,
)
from kafkats.plans.run import FINISHED, UNDONE, Run, journal_of, places_by_outcome, read_run, run_of
from kafkats.plans.units import Unit, list_units
from kafkats.plans.volumes import check_volumes

_SETTINGS: Final = ("index_interval_bytes", "segment_index_bytes")

_Built = tuple[str, int, int]
"""The rule and the settings that an index was built with."""
File = tuple[str, str, str]
Keep: TypeAlias = Callable[[pa.Table], None]
"""Gets what a proof has read, facts.SEGMENTS of some partitions at a time."""


class Done(NamedTuple):
    """The directories that a run wrote in, and those where it was interrupted or undone, or did not
    do all, if anything.
    """

    wrote: set[PartitionKey]
    interrupted: list[PartitionKey]
    undone: list[PartitionKey]
    left: set[PartitionKey]


def prove_written(
    executor: Executor,
    written: ProofOptions,
    listing: Listing,
    options: VerifyOptions,
    keep: Keep,
) -> Proof:
    """Prove what a plan or runs wrote. The proof has no segments: `keep` gets them. Raises as
    `prove` and `prove_runs`.
    """
    if written.of_plan is None:
        return prove_runs(executor, written.of_run, listing, options, keep)
    proof = _NOTHING
    for piece in open_plan(written.of_plan).pieces():
        units = listing(partitions_of(piece.items))
        one = prove(executor, piece, written.of_plan, units, options)
        keep(one.segments.cast(SEGMENTS))
        proof = _and(proof, one)
    return proof


def check_written(written: ProofOptions) -> None:
    """Raise Refused where a path is another volume than the one that was written."""
    if written.of_plan is not None:
        check_volumes(written.of_plan, run_of(open_plan(written.of_plan)).directories)
    for folder in written.of_run:
        check_volumes(folder, read_run(folder).directories)


def prove_apply(
    executor: Executor, plan: AnyPlan, plan_folder: Path, folder: Path, summary: Mapping[str, Any]
) -> Proof | None:
    """Prove what was just applied of a plan; `folder` is the run's, which gets a `proof.json`.

    None where there is nothing to prove: a run that was proved before and has written nothing since
    may have been changed by a broker. A proof that cannot be made names its reason, as a file that
    is not as planned.
    """
    fresh = "done" in summary["outcomes"] or not (folder / "proof.json").exists()
    if not summary["files"] or not fresh:
        return None
    try:
        proof = _NOTHING
        for piece in plan.pieces():
            units = list_units(_written(piece))
            proof = _and(proof, prove(executor, piece, plan_folder, units, VerifyOptions()))
        if not proof.not_equal:
            note_proved(folder, files=proof.files, undone=0)
    except KafkatsError as e:
        reason = f"could not be proved: {e}"
        return Proof(SEGMENTS.empty_table(), int(summary["files"]), 0, [reason], [reason])
    return proof


def _written(plan: Plan) -> list[Path]:
    """Return the partition directories in which a plan writes, sorted."""
    columns = (plan.items[name].to_pylist() for name in ("action", "log_dir", "partition_dir"))
    return sorted({
        Path(log_dir, partition_dir)
        for action, log_dir, partition_dir in zip(*columns, strict=True)
        if action != "blocked" and partition_dir != ROOT
    })


def prove(
    executor: Executor,
    plan: Plan,
    folder: Path,
    units: Iterable[Unit],
    options: VerifyOptions,
    *,
    later: Collection[PartitionKey] = (),
) -> Proof:
    """Prove what the plan in `folder` wrote. In the partitions of `later` another run has written
    since.

    Indexes are held to the rule and the settings of the plan, with which it was approved; `options`
    says how the rest is read. Raises CorruptFile, CorruptPlan, StorageFailed.
    """
    proves = operation(plan.operation)
    if not proves.proved_by_settings:
        stages = LogStages(executor, options)
        return proves.prove(Proving(stages, plan, folder, units, later))
    listed = list(units)
    parts = []
    for built, items in _by_settings(plan.items).items():
        stages = LogStages(executor, _options(built, options))
        part = replace(plan, items=items)
        parts.append(proves.prove(Proving(stages, part, folder, listed, later)))
    return _together(parts)


_NOTHING: Final = Proof(SEGMENTS.empty_table(), 0, 0, [], [])


def _and(one: Proof, other: Proof) -> Proof:
    """Return two proofs in one, without segments: nobody has room for those of a large plan."""
    none = _NOTHING.segments
    return _together([part._replace(segments=none) for part in (one, other)])


def _together(parts: Sequence[Proof]) -> Proof:
    return Proof(
        pa.concat_tables(part.segments.cast(SEGMENTS) for part in (_NOTHING, *parts)),
        sum(part.files for part in parts),
        sum(part.equal for part in parts),
        [path for part in parts for path in part.not_equal],
        [reason for part in parts for reason in part.reasons],
    )


def _by_settings(items: pa.Table) -> dict[_Built, pa.Table]:
    """Return the items in parts: files that were built with the same rule and settings."""
    names = ("rule", *_SETTINGS)
    built = list(zip(*(items[name].to_pylist() for name in names), strict=True))
    return {
        one: items.filter(pa.array([other == one for other in built]))
        for one in dict.fromkeys(built)
    }


def _options(built: _Built, options: VerifyOptions) -> VerifyOptions:
    rule, *sizes = built
    given = {key: size for key, size in zip(_SETTINGS, sizes, strict=True) if size >= 0}
    policy = Policy(overrides=TopicSettings().model_copy(update=given))
    return replace(options, rule=rule if rule in RULES else DEFAULT_RULE.name, policy=policy)


def prove_runs(
    executor: Executor,
    folders: Sequence[Path],
    listing: Listing,
    options: VerifyOptions,
    keep: Keep,
) -> Proof:
    """Prove these runs, the latest first; `keep` gets the last look at each segment. Raises
    CorruptPlan for a run without its plan beside it, and as `prove`.
    """
    proof, later = _NOTHING, Later(set(), set(), {})
    for folder in reversed(folders):
        first = folder is folders[0]
        more = _prove_run(executor, folder, listing, options, keep, later, first=first)
        proof = _and(more, proof)
    return proof


class Later(NamedTuple):
    """The files and directories that later runs wrote. `looked` has the base offsets of the
    segments that their proofs read, by partition.
    """

    files: set[File]
    places: set[PartitionKey]
    looked: dict[PartitionKey, set[int]]

    def unseen(self, segments: pa.Table) -> pa.Table:
        """Return the last row of each segment that was not read for a later run."""
        last = {key: number for number, key in enumerate(keys_of(segments))}
        rows = [
            number
            for key, number in last.items()
            if key.base_offset not in self.looked.get(key.partition, ())
        ]
        return segments.take(pa.array(sorted(rows), pa.int64())).cast(SEGMENTS)

    def add(self, plan: Plan, wrote: set[PartitionKey], segments: pa.Table) -> None:
        """Add what a run wrote of a plan, and what was read for its proof."""
        self.files.update(_files(plan.items, wrote))
        for key in keys_of(segments):
            self.looked.setdefault(key.partition, set()).add(key.base_offset)


def _prove_run(
    executor: Executor,
    folder: Path,
    listing: Listing,
    options: VerifyOptions,
    keep: Keep,
    later: Later,
    *,
    first: bool,
) -> Proof:
    """Prove a run. It counts as a later one then, unless it is the `first` one."""
    run = read_run(folder)
    plan_folder = plan_of(run, folder)
    done = what_was_done(executor, run, folder)
    left = done.left - later.places  # a later run has done what this one left
    proof, missed = _NOTHING, 0
    for piece in open_plan(plan_folder).pieces():
        part = _part(piece, done.wrote, later.files, later.places)
        units = listing(partitions_of(part.items))
        one = prove(executor, part, plan_folder, units, options, later=later.places)
        keep(later.unseen(one.segments))
        proof = _and(proof, one)
        missed += len(_files(piece.items, left)) if left else 0
        if not first:
            later.add(piece, done.wrote, one.segments)
    half = [
        f"{Path(*where)}: {folder.name} was interrupted; apply it again, or undo it"
        for where in done.interrupted
    ]
    if left:
        where = f"{counted(missed, 'file')} in {counted(len(left), 'directory')}"
        half.append(f"{folder.name}: {where} not done; apply it again, or undo it")
    if not proof.not_equal and not half:
        note_proved(folder, files=proof.files, undone=len(done.undone))
    later.places.update(done.wrote)
    wrong, reasons = [*proof.not_equal, *half], [*proof.reasons, *half]
    return proof._replace(not_equal=wrong, reasons=reasons)


def _files(rows: pa.Table, wrote: set[PartitionKey]) -> set[File]:
    """Return the files that a plan writes in these directories."""
    return {
        (row["log_dir"], row["partition_dir"], row["file"])
        for row in item_rows(rows)
        if row["action"] != "blocked" and journal_of(row) in wrote
    }


def plan_of(run: Run, folder: Path) -> Path:
    """The folder of the run's plan, which lies beside it. Raises CorruptPlan."""
    folder = folder.resolve()  # `.` has no name and no parent
    beside = [one for one in sorted(folder.parent.glob(f"*-{run.digest[:16]}")) if one != folder]
    beside += [folder.with_name("plan"), folder.with_name("over-guard"), folder.with_suffix("")]
    for one in beside:
        if (one / "plan.json").is_file() and read_json(one / "plan.json").get(
            "digest"
        ) == run.digest:
            return one
    raise CorruptPlan(f"its plan with digest {run.digest[:16]} does not lie beside it", path=folder)


def what_was_done(executor: Executor, run: Run, folder: Path) -> Done:
    """By the journals; where there is none, by the run's report. An undone run has nothing left.

    Raises CorruptPlan for journals that `run.json` does not name, KafkatsError where there are
    neither journals nor a report, and as `phase_of`.
    """
    for log_dir in run.directories:
        check_journals(run, log_dir)
    table = over_directories(executor, "read journals", run, partial(_ended_as, run), ENDED_AS)
    phases = {partition_of(row): row["phase"] for row in table.to_pylist()}
    unbegun = {where for where, phase in phases.items() if not phase}
    left = unbegun - _reported(folder)
    for log_dir in {where.log_dir for where in left}:
        check_area(run, log_dir)
    wrote = {where for where, phase in phases.items() if phase in {"done", "purged"}}
    wrote |= unbegun - left
    undone = not wrote and exists(folder / UNDONE, "looking whether the run was undone")
    return Done(
        wrote,
        [where for where, phase in phases.items() if phase in {"intent", "undo"}],
        [where for where, phase in phases.items() if phase == "undone"],
        set() if undone else left,
    )


def _ended_as(run: Run, where: PartitionKey) -> pa.RecordBatch:
    row = dict(zip(ENDED_AS.names, (*where, phase_of(run, *where)), strict=True))
    return batch_of([row], ENDED_AS)


def _reported(folder: Path) -> Set[PartitionKey]:
    """Directories in which every file is as it was to be, by the report."""
    try:
        left = places_by_outcome(folder, lambda outcome: outcome not in FINISHED)
        return places_by_outcome(folder, lambda outcome: outcome in FINISHED) - left
    except KafkatsError:  # the apply was killed before it could write one
        return set()


def _part(
    plan: Plan, wrote: set[PartitionKey], files: set[File], places: set[PartitionKey]
) -> Plan:
    """The plan with only what the run did, and no later one did again."""

    proves_log_end = operation(plan.operation).proves_log_end

    def counts(row: Item) -> bool:
        where = journal_of(row)
        if row["action"] == "blocked" or where not in wrote or (*where, row["file"]) in files:
            return False
        return not proves_log_end or where not in places

    rows = plan.items.select(["log_dir", "partition_dir", "file", "action"])
    keep = [counts(row) for row in item_rows(rows)]
    return replace(plan, items=plan.items.filter(pa.array(keep, pa.bool_())))
