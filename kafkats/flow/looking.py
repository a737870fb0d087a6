"""Stages that read log directories. Each returns one table, with rows in the order of its units."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import Final, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from kafkats.config.options import Topics
from kafkats.config.policy import Policy
from kafkats.execution.executor import Executor
from kafkats.flow.dispatch import Work, seen
from kafkats.inspect.inventory import inventory_units
from kafkats.inspect.known import known_rows, read_report
from kafkats.inspect.tails import LOOKED, look_at_tails, look_whole
from kafkats.inspect.verify import VerifyOptions, verify_unit
from kafkats.plans.depths import DEPTHS, Looked
from kafkats.plans.dialects import no_topic, units_in
from kafkats.plans.facts import SEGMENTS
from kafkats.plans.rows import PartitionKey, keys_of
from kafkats.plans.units import Unit, list_partitions, list_units, segments_in

Listing: TypeAlias = Callable[[Collection[PartitionKey]], Iterable[Unit]]
"""Lists the units of directories, as far as a request names them."""
ASKED: Final = "asked for"
KNOWN: Final = "from the report"
CHANGED: Final = "not in the report, or changed since"
_AT_ONCE: Final = 500
"""Segments that one call looks at, where only their ends are read: each takes a tenth of a
millisecond, and a table of their rows some milliseconds.
"""
_TAIL_BYTES: Final = 64 * 1024
"""Read of a segment's files then, about; for an inventory _END_BYTES."""
_END_BYTES: Final = 16 * 1024
_READ_ALL: Final = VerifyOptions()


def units_of(work: Work, *, policy: Policy | None = None) -> list[Unit]:
    """Return the units of the request's log directories, which the result then has. Raises as
    `units_in`.
    """
    request = work.request
    paths, topics = [str(one.path) for one in request.log_dirs], request.of(Topics).topics
    fine = request.no_topic_is_fine
    units = units_in(paths, topics, policy=policy, none_is_fine=fine)
    work.done.log_dirs = seen(sorted({unit.log_dir for unit in units}))
    return units


def listing_of(work: Work) -> Listing:
    """Return a function that lists units of directories, if they are among the request's; the
    result then has its log directories.

    Logs of a dialect are among them: their plan knows their format. Raises as `units_in`.
    """
    request = work.request
    paths, topics = [str(one.path) for one in request.log_dirs], request.of(Topics).topics
    found = {where.log_dir for where in list_partitions(paths, topics=topics)}
    if not found and topics != "*" and not request.no_topic_is_fine:
        raise no_topic(topics)
    work.done.log_dirs = seen(sorted(found))
    return lambda wanted: list_units(paths, topics=topics, only=wanted)


@dataclass(frozen=True)
class LogStages:
    """The stages of plans.operation.Stages. `options` are those of a proof."""

    executor: Executor
    options: VerifyOptions = _READ_ALL

    def verify(
        self, units: Sequence[Unit], *, rule: str | None = None, policy: Policy | None = None
    ) -> pa.Table:
        """Read everything: facts.SEGMENTS of depth full."""
        options = self.options if rule is None else replace(self.options, rule=rule)
        options = options if policy is None else replace(options, policy=policy)
        do = partial(verify_unit, options=options)
        return read_whole(self.executor, units, do, SEGMENTS, deep=options.deep)

    def look(
        self,
        units: Sequence[Unit],
        *,
        rule: str,
        policy: Policy,
        depth: str,
        report: Path | None = None,
    ) -> Looked:
        """Look to `depth`, or take over what a report tells and read the rest whole."""
        options = replace(self.options, rule=rule, policy=policy)
        if report is None:
            return look(self.executor, units, options, depth=depth)
        return look_with_report(self.executor, units, options, read_report(report))

    def ends(self, units: Iterable[Unit]) -> pa.Table:
        """Read the ends of logs and indexes: facts.SEGMENTS of depth tail."""
        return read_ends(
            self.executor, "inventory", tuple(units), inventory_units, SEGMENTS, each=_END_BYTES
        )


def look(
    executor: Executor, units: Sequence[Unit], options: VerifyOptions, *, depth: str
) -> Looked:
    """Look at `units` to `depth`: full; or tail, and at the segments in doubt as for full."""
    if depth != "tail":
        whole = _whole(executor, units, options)
        return _looked(whole, [ASKED] * whole.num_rows)
    do = partial(look_at_tails, options=options)
    tails = read_ends(executor, "tails", units, do, LOOKED, each=_TAIL_BYTES)
    doubts = tails["doubt"].to_pylist()
    doubted = tails.filter(pc.not_equal(tails["doubt"], ""))
    if not doubted.num_rows:
        return _looked(tails, doubts)
    by_key = {unit.key: unit for unit in units}
    again = _whole(executor, [by_key[key] for key in keys_of(doubted)], options)
    read = pc.add(again["read_bytes"], doubted["read_bytes"])
    again = again.set_column(LOOKED.names.index("read_bytes"), LOOKED.field("read_bytes"), read)
    return _looked(_in_place(tails, doubts, again), doubts)


def look_with_report(
    executor: Executor, units: Sequence[Unit], options: VerifyOptions, report: pa.Table
) -> Looked:
    """Take over the rows of a report (facts.SEGMENTS) that still hold, and read the rest whole."""
    known = known_rows(units, report, options)
    others = [unit for unit in units if unit.key not in known]
    seen = _whole(executor, others, options)
    rows = [{**row, "doubt": "", "read_bytes": 0} for row in known.values()]
    table = pa.concat_tables([seen, pa.Table.from_pylist(rows, schema=LOOKED)])
    at = {key: number for number, key in enumerate(keys_of(table))}
    order = [at[unit.key] for unit in units if unit.key in at]
    reasons = [CHANGED] * seen.num_rows + [KNOWN] * len(rows)
    looked = _looked(table.take(pa.array(order, pa.int64())), [reasons[n] for n in order])
    return looked._replace(known=len(known))


def _whole(executor: Executor, units: Sequence[Unit], options: VerifyOptions) -> pa.Table:
    do = partial(look_whole, options=options)
    return read_whole(executor, units, do, LOOKED, deep=options.deep)


def read_whole(
    executor: Executor,
    units: Sequence[Unit],
    do: Callable[[Unit], pa.RecordBatch],
    schema: pa.Schema,
    *,
    deep: bool,
) -> pa.Table:
    """Return the rows of `do`, which reads a segment whole, for each unit."""
    return executor.map(
        "verify",
        units,
        do,
        schema,
        size=bytes_of,
        threads=not deep,
        least=lambda unit: segments_in((unit,)),
    )


def read_ends(
    executor: Executor,
    stage: str,
    units: Sequence[Unit],
    do: Callable[[Sequence[Unit]], pa.RecordBatch],
    schema: pa.Schema,
    *,
    each: int,
) -> pa.Table:
    """Return the rows of `do`, which reads the ends of many segments, about `each` bytes of one."""
    # of one log directory each: no host may see two of them
    by_log_dir = (tuple(some) for _, some in groupby(units, lambda unit: unit.log_dir))
    chunks = [one[n : n + _AT_ONCE] for one in by_log_dir for n in range(0, len(one), _AT_ONCE)]
    return executor.map(
        stage, chunks, do, schema, size=lambda chunk: len(chunk) * each, least=segments_in
    )


def _in_place(tails: pa.Table, doubts: Iterable[str], again: pa.Table) -> pa.Table:
    """Return `tails` with the rows of `again`, in their order, in place of those in doubt."""
    order, following = [], tails.num_rows
    for number, doubt in enumerate(doubts):
        order.append(following if doubt else number)
        following += bool(doubt)
    return pa.concat_tables([tails, again]).take(pa.array(order, pa.int64()))


def _looked(table: pa.Table, reasons: Collection[str]) -> Looked:
    depths = (
        table
        .select([name for name in DEPTHS.names if name != "reason"])
        .append_column("reason", pa.array(reasons, pa.string()))
        .filter(pc.greater_equal(table["base_offset"], 0))
    )
    depths = depths.set_column(
        depths.column_names.index("depth"), "depth", pc.fill_null(depths["depth"], "")
    )
    read = pc.sum(table["read_bytes"]).as_py() or 0
    return Looked(table.select(SEGMENTS.names), depths.select(DEPTHS.names).cast(DEPTHS), read)


def bytes_of(unit: Unit) -> int:
    """Return the bytes of a segment's files."""
    return unit.bytes
