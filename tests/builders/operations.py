"""An operation on one log directory, in this process: look, apply, undo."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa

from kafkats.flow.apply import apply_partition, partition_works, rounds, summarize, with_unfinished
from kafkats.flow.ending import end_partition
from kafkats.inspect.inventory import inventory_units
from kafkats.inspect.verify import VerifyOptions, verify_unit
from kafkats.plans.facts import ACTIONS, SEGMENTS
from kafkats.plans.plan import Plan, make_plan
from kafkats.plans.run import directories, run_of
from kafkats.plans.units import list_units


def verified(root: Path, **options: Any) -> pa.Table:
    """Read everything: rows of SEGMENTS."""
    rows = [verify_unit(unit, VerifyOptions(**options)) for unit in list_units([root])]
    return pa.Table.from_batches(rows, schema=SEGMENTS)


def inventoried(root: Path) -> pa.Table:
    """Read the ends of the files: rows of SEGMENTS."""
    return pa.Table.from_batches([inventory_units(list(list_units([root])))], schema=SEGMENTS)


def applied_rows(plan: Plan, folder: Path | None = None, place: Path | None = None) -> pa.Table:
    """Apply a plan, round by round: rows of ACTIONS. `folder` is the plan's, `place` the work area's."""
    done: list[pa.Table] = []
    for some in rounds(partition_works(plan, run_of(plan, place=place), folder)):
        batches = [apply_partition(work) for work in with_unfinished(some, done)]
        done.append(pa.Table.from_batches(batches, schema=ACTIONS))
    return pa.concat_tables(done or [ACTIONS.empty_table()])


def applied(plan: Plan) -> dict[str, Any]:
    """Apply a plan: the summary."""
    return summarize(applied_rows(plan))


def undone(plan: Plan, place: Path | None = None, **options: Any) -> list[dict[str, Any]]:
    """Undo what a plan's apply did: what was done in each directory."""
    run = run_of(plan, place=place)
    return [end_partition(run, "undo", *where, **options) for where in directories(run)]


def altered(plan: Plan, wrong: dict[str, object]) -> Plan:
    """Return a plan of other items, with a digest that holds: only what they say can give them away."""
    items = [item | wrong for item in plan.items.to_pylist()]
    return make_plan(plan.operation, {}, {}, pa.Table.from_pylist(items, schema=plan.items.schema))
