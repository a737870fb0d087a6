"""Prune: delete the time indexes of closed segments, which a broker rebuilds at its start."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from kafkats.config.given import Given, stored
from kafkats.config.option import Option, Options, Size
from kafkats.config.policy import Policy
from kafkats.errors import CorruptPlan, exists
from kafkats.logdir.lease import Lease
from kafkats.logdir.staging import Remove
from kafkats.paths import TIME_INDEX, segment_file
from kafkats.plans.missing import options_of
from kafkats.plans.operation import Decide, Operation, Planned, Proving, Stages, always
from kafkats.plans.plan import ITEMS, item_of, make_plan, totals_of
from kafkats.plans.proof import Proof, path_of, writes_of
from kafkats.plans.rows import Header, Item, replaced_file, segment_rows
from kafkats.plans.run import PartitionWork, Staged
from kafkats.plans.units import Unit


class Prune(Options):
    at_least: Size = Option("Only files of this size", "--at-least").default(1)


@dataclass(frozen=True)
class PruneOptions:
    at_least: int = Prune.model_construct().at_least


def check_item(item: Item) -> None:
    if item["action"] != "remove" or not item["file"].endswith(TIME_INDEX):
        raise CorruptPlan(f"{item['file']}: action {item['action']!r} is unknown here")


def stage_partition(work: PartitionWork, lease: Lease) -> Staged:
    return Staged([Remove(one["file"], replaced_file(one)) for one in work.items], {})


def _prepare(given: Given, policy: Policy) -> Decide:
    options = stored(PruneOptions, given.of(Prune))

    def decide(stages: Stages, units: Sequence[Unit]) -> Planned:
        segments = stages.ends(units)
        items: list[Item] = []
        for row in segment_rows(segments):
            old = row["timeindex"]
            if old and not row["active"] and old["size"] >= options.at_least:
                file = segment_file(row["base_offset"], TIME_INDEX)
                item = item_of(row, file, "last-offset", "remove", "a broker rebuilds it")
                items.append(item | {"before": old, "after_bytes": 0, "settings_from": "default"})
        table = pa.Table.from_pylist(items, schema=ITEMS)
        totals = totals_of(table, segments, changed=len(items), read_bytes=0, write_bytes=0)
        return Planned(make_plan("prune", options_of(options), totals, table), segments, {})

    return decide


def prove(request: Proving) -> Proof:
    writes = writes_of(request.plan)
    wrong = [path_of(one) for one in writes if exists(Path(path_of(one)), "proving")]
    return Proof(
        request.stages.ends(request.units), len(writes), len(writes) - len(wrong), wrong, wrong
    )


def _sentences(header: Header) -> list[str]:
    return [f"{header['totals']['files']} time indexes go"]


OPERATION = Operation(
    "prune",
    "Plan which time indexes to delete.",
    (Prune,),
    always(frozenset()),
    _prepare,
    "kafkats.pruning.operation",
    "pruned",
    proof="kafkats.pruning.operation",
    sentences=_sentences,
)
