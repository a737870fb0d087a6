"""Plans in parts: the memory of a command or driver that plans, reads and applies a large plan.

Facts are synthesised where a task would look at files, 10 000 segments at a time. Every segment lacks
its time index; of a retention every segment has expired, and the run's guard keeps half of the bytes.
An apply changes nothing: its tasks return rows. The largest anonymous resident set (RssAnon) of the
process counts, with one such task in it. Each size runs in its own process.
By hand: `python -m bench.parts 10000000 2`, where 2 percent of the segments are to be changed, and
`python -m bench.parts 10000000 2 retain`.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from contextlib import redirect_stdout
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

import pyarrow as pa

from bench.harness import MB, ROOT, Figure, Figures, scratch
from bench.many import synthetic_facts
from bench.memory import most_while
from bench.retain import NOW, POLICY, aged_facts
from kafkats.cli.making import show_plan_rows
from kafkats.config.given import Given
from kafkats.config.options import MissingRecords
from kafkats.config.policy import Guard, Policy
from kafkats.execution.local import LocalExecutor
from kafkats.flow import applying, parting
from kafkats.flow.apply import summary_of
from kafkats.generations import INDEX_INTERVAL_BYTES, SEGMENT_INDEX_BYTES
from kafkats.plans.deciding import hand_over, scratch_in
from kafkats.plans.depths import DEPTHS
from kafkats.plans.directories import Directories
from kafkats.plans.disks import room_of
from kafkats.plans.facts import ACTIONS, summary
from kafkats.plans.parts import open_plan
from kafkats.plans.run import PartitionWork, run_of
from kafkats.rebuild.options import Rebuild
from kafkats.rebuild.plan import RebuildOptions, plan_rebuild
from kafkats.retention.in_parts import prepare
from kafkats.retention.options import Beyond, Retain

if TYPE_CHECKING:
    from kafkats.plans.operation import Stages

SIZES = (250_000, 1_000_000)
COMMAND_MB = 1000
"""The most that a command may take."""
SEGMENT_BYTES = 300
"""The most that a segment may take of it."""


HALF: Final = Guard.model_validate({"max.share": 0.5})
_SETTINGS: Final = (
    ("index_interval_bytes", INDEX_INTERVAL_BYTES),
    ("segment_index_bytes", SEGMENT_INDEX_BYTES),
)


class Most(NamedTuple):
    """The largest RssAnon of a step in bytes, and the files of the plan: the names in the output."""

    plan_bytes: int
    show_bytes: int
    apply_bytes: int
    files: int


def figures(*, small: bool = False) -> Figures:
    sizes = tuple(size // 50 for size in SIZES) if small else SIZES
    for operation in ("rebuild", "retain"):
        found = [_measured(size, operation) for size in sizes]
        yield from _growth(found, sizes, operation, small=small)


def _growth(
    found: Sequence[Most], sizes: tuple[int, int], operation: str, *, small: bool
) -> Figures:
    for step in ("plan", "show", "apply"):
        less, more = (getattr(one, f"{step}_bytes") for one in found)
        yield Figure(
            f"memory of {step}, {operation}, {sizes[1]:,} segments", more / MB, "MB", COMMAND_MB,
            at_least=False, detail=f"{less / MB:,.0f} MB for {sizes[0]:,}",
        )  # fmt: skip
        growth = max(more - less, 0) / (sizes[1] - sizes[0])
        yield Figure(
            "its growth per segment", growth, "B", None if small else SEGMENT_BYTES, at_least=False
        )


def _measured(segments: int, operation: str) -> Most:
    command = [sys.executable, "-m", "bench.parts", str(segments), "100", operation]
    said = subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True)
    found = Most(**json.loads(said.stdout))
    if operation == "rebuild" and found.files != segments:
        raise RuntimeError(f"not every segment was planned: {found.files} of {segments}")
    return found


def _decide(group: Directories, *, asked: parting.Asked, percent: int = 100) -> pa.RecordBatch:
    """Hand over a group as `parting.decide_group` does, from facts that nobody looked at."""
    facts = synthetic_facts(
        group.segments, percent, after=group.number * parting.PART_SEGMENTS // 1000
    )
    for name, value in (("rule", "last-offset"), *_SETTINGS):
        column = pa.array([value] * facts.num_rows, facts.schema.field(name).type)
        facts = facts.set_column(facts.column_names.index(name), name, column)
    plan = plan_rebuild(facts, RebuildOptions())
    rows = {name: facts[name] for name in ("log_dir", "partition_dir", "base_offset")}
    words = pa.array([""] * facts.num_rows)
    read = pa.array([64] * facts.num_rows)
    depths = pa.table({**rows, "depth": words, "reason": words, "read_bytes": read}).cast(DEPTHS)
    notes = {"looked": [facts.num_rows, 64 * facts.num_rows, 0], "sparser": []}
    return hand_over(group.number, plan, summary(facts), notes, {"depths": depths}, asked.scratch)


class _Seen:
    """Stages that have seen these facts."""

    def __init__(self, facts: pa.Table) -> None:
        self._facts = facts

    def ends(self, _: object) -> pa.Table:
        return self._facts


def _decide_retain(
    group: Directories, *, asked: parting.Asked, percent: int = 100
) -> pa.RecordBatch:
    """Hand over a group as `_decide`."""
    facts = aged_facts(group.segments, percent, after=group.number * parting.PART_SEGMENTS // 1000)
    planned = prepare(asked.given, asked.policy)(cast("Stages", _Seen(facts)), ())
    tables = planned.beside
    return hand_over(
        group.number, planned.plan, summary(facts), planned.notes, tables, asked.scratch
    )


def _change(work: PartitionWork) -> pa.RecordBatch:
    """Return the rows of an apply that has changed nothing."""
    zeros = {field.name: 0 for field in ACTIONS if field.type != pa.string()}
    empty = {field.name: "" for field in ACTIONS if field.type == pa.string()}
    same = ("log_dir", "partition_dir", "file", "base_offset", "action", "reason")
    rows: Sequence[dict[str, Any]] = [
        zeros | empty | {name: item[name] for name in same} | {"outcome": "done"}  # type: ignore[literal-required]
        for item in work.items
    ]
    return pa.RecordBatch.from_pylist(list(rows), schema=ACTIONS)


def plan(segments: int, folder: Path, percent: int, operation: str) -> None:
    """Decide and write a plan of so many segments, of which so many are to be changed."""
    of_part = parting.PART_SEGMENTS
    groups = [
        Directories(n, "/var/lib/kafka/data", (), of_part, tiered=False)
        for n in range(segments // of_part)
    ]
    retains = operation == "retain"
    models = (Retain, Beyond, MissingRecords) if retains else (Rebuild,)
    values = {
        name: field.get_default() for one in models for name, field in one.model_fields.items()
    }
    policy = POLICY.model_copy(update={"guard": HALF}) if retains else Policy()
    parting.decide_group = partial(_decide_retain if retains else _decide, percent=percent)
    with LocalExecutor(1) as executor, scratch_in(folder) as scratch_folder:
        asked = parting.Asked(operation, Given(values, NOW), policy, None, scratch_folder, False)
        parting.decide_groups(executor, groups, asked).write(folder)


def show(folder: Path) -> None:
    """Open the plan, and print its rows to nobody."""
    made = open_plan(folder)
    room_of(made)
    with open("/dev/null", "w", encoding="utf-8") as nobody, redirect_stdout(nobody):
        show_plan_rows(made, files=True)


def apply(folder: Path) -> None:
    """Open the plan, and write the report of its run."""
    made = open_plan(folder)
    vars(applying)["apply_partition"] = _change
    with (
        LocalExecutor(1) as executor,
        applying._applied(executor, made, run_of(made), folder, lambda: None) as changed,
    ):
        changed.keep(summary_of(changed.tally))


def main() -> None:
    segments, percent = int(sys.argv[1]), int([*sys.argv, "100"][2])
    operation = [*sys.argv, "", "rebuild"][3] or "rebuild"
    with scratch() as folder:
        of_steps = [most_while(partial(plan, segments, folder, percent, operation))]
        of_steps += [most_while(partial(step, folder)) for step in (show, apply)]
        files = open_plan(folder).header["totals"]["files"] + open_plan(folder).blocked
        print(json.dumps(Most(*of_steps, files=files)._asdict()))


if __name__ == "__main__":
    main()
