"""The operation `rebuild` (kafkats.plans.operation)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from kafkats.config.given import Given, stored
from kafkats.config.options import MissingRecords, Topics
from kafkats.config.settings_read import INDEXES
from kafkats.counts import counted, size_text
from kafkats.errors import UsageError
from kafkats.plans.operation import (
    Decide,
    Operation,
    Planned,
    Stages,
    always,
)
from kafkats.rebuild.options import Rebuild
from kafkats.text import Flag

if TYPE_CHECKING:
    from kafkats.config.policy import Policy
    from kafkats.plans.rows import Header
    from kafkats.plans.units import Unit

_ORIGINS: Final = {
    "inferred": "inferred from other index files",
    "default": "taken as Kafka's default",
}


def _prepare(given: Given, policy: Policy) -> Decide:
    from kafkats.generations import RULES
    from kafkats.plans.contradictions import interval_remarks
    from kafkats.plans.depths import looked_sentences
    from kafkats.rebuild.plan import RebuildOptions, check_options, plan_rebuild

    asked = given.of(Rebuild)
    if asked.depth == "tail" and "depth" in given.named and (asked.all or asked.from_report):
        raise UsageError(
            *(Flag("--depth"), " tail goes neither with ", Flag("--all"), " nor "),
            *(Flag("--from"), ": both need whole segments"),
        )
    options = stored(RebuildOptions, asked, given.of(MissingRecords), given.of(Topics))
    check_options(options)
    # Each entry counts where sound indexes are written, too, and by a rule of no broker.
    depth = "full" if options.all or not RULES[options.rule].for_brokers else asked.depth

    def decide(stages: Stages, units: Sequence[Unit]) -> Planned:
        looked = stages.look(
            units, rule=options.rule, policy=policy, depth=depth, report=asked.from_report
        )
        plan = plan_rebuild(looked.segments, options)
        return Planned(
            plan,
            looked.segments,
            {"depths": looked.depths},
            interval_remarks(plan, looked.segments),
            {"looked_bytes": looked.read_bytes, "known_segments": looked.known},
            sentences=looked_sentences(looked, asked.from_report),
        )

    return decide


def _sentences(header: Header) -> Iterator[str]:
    from kafkats.plans.depths import depth_sentences

    totals = header["totals"]
    yield from depth_sentences(totals.get("depths", {}), totals.get("indexes_not_compared", 0))
    if totals["recovery_segments"]:
        yield (
            "no clean-shutdown marker: whatever is rebuilt, the broker's next start recovers"
            f" {counted(totals['recovery_segments'], 'segment')}"
            f" ({size_text(totals['recovery_bytes'])}) by itself"
        )
    origins = {word: count for word, count in totals["settings_from"].items() if word != "given"}
    if origins:
        how = ", ".join(
            f"{_ORIGINS[word]} for {counted(n, 'file')}" for word, n in sorted(origins.items())
        )
        yield f"index.interval.bytes was not given (--config or --policy): {how}"
    left = {severity: count for severity, count in totals["not_repaired"].items() if count}
    if left:
        counts = ", ".join(f"{count} {severity}" for severity, count in left.items())
        yield f"NOT repaired by this plan: {counts}; kafkats verify names them"


def _flaw(header: Header) -> str:
    from kafkats.plans.plan import SETTINGS_FROM

    unknown = header["totals"]["settings_from"].keys() - set(SETTINGS_FROM)
    return f"settings from {', '.join(sorted(unknown))}" if unknown else ""


OPERATION: Final = Operation(
    "rebuild",
    "Plan which index files to rebuild, and why. By default it reads the indexes and the end of"
    " each log, and whole segments only where these raise doubts.",
    (Rebuild, MissingRecords),
    always(INDEXES),
    _prepare,
    "kafkats.rebuild.plan",
    "rebuilt",
    sentences=_sentences,
    totals=("recovery_segments", "recovery_bytes", "settings_from", "not_repaired"),
    flaw=_flaw,
    proved_by_settings=True,
)
