"""The operation `rebuild` (kafkats.plans.operation)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from kafkats.config.given import Given, stored
from kafkats.config.options import MissingRecords, Topics
from kafkats.config.settings_read import INDEXES
from kafkats.plans.operation import (
    Decide,
    Operation,
    Planned,
    Proving,
    Stages,
    Writer,
    always,
    size_text,
)
from kafkats.rebuild.options import Rebuild

if TYPE_CHECKING:
    from kafkats.config import Policy
    from kafkats.plans.proof import Proof
    from kafkats.plans.rows import Header
    from kafkats.plans.units import Unit

_ORIGINS: Final = {
    "inferred": "inferred from other index files",
    "default": "taken as Kafka's default",
}


def _prepare(given: Given, policy: Policy) -> Decide:
    from kafkats.plans.contradictions import interval_remarks
    from kafkats.rebuild.plan import RebuildOptions, check_options, plan_rebuild

    options = stored(RebuildOptions, given.of(Rebuild), given.of(MissingRecords), given.of(Topics))
    check_options(options)

    def decide(stages: Stages, units: Sequence[Unit]) -> Planned:
        segments = stages.verify(units, rule=options.rule, policy=policy)
        plan = plan_rebuild(segments, options)
        return Planned(plan, segments, {}, interval_remarks(plan, segments))

    return decide


def _writer() -> Writer:
    from kafkats.rebuild import plan

    return plan


def _prove(request: Proving) -> Proof:
    from kafkats.plans.proof import prove_written

    return prove_written(request)


def _sentences(header: Header) -> list[str]:
    totals, sentences = header["totals"], []
    if totals["recovery_segments"]:
        sentences.append(
            "no clean-shutdown marker: whatever is rebuilt, the broker's next start recovers"
            f" {totals['recovery_segments']} segments ({size_text(totals['recovery_bytes'])}) by"
            " itself"
        )
    origins = {word: count for word, count in totals["settings_from"].items() if word != "given"}
    if origins:
        how = ", ".join(f"{_ORIGINS[word]} for {n} files" for word, n in sorted(origins.items()))
        sentences.append(f"index.interval.bytes was not given (--config or --policy): {how}")
    left = {severity: count for severity, count in totals["not_repaired"].items() if count}
    if left:
        counts = ", ".join(f"{count} {severity}" for severity, count in left.items())
        sentences.append(f"NOT repaired by this plan: {counts}; kafkats verify names them")
    return sentences


def _flaw(header: Header) -> str:
    from kafkats.plans.plan import SETTINGS_FROM

    unknown = header["totals"]["settings_from"].keys() - set(SETTINGS_FROM)
    return f"settings from {', '.join(sorted(unknown))}" if unknown else ""


OPERATION: Final = Operation(
    "rebuild",
    "Plan which index files to rebuild, and say why.",
    (Rebuild, MissingRecords),
    always(INDEXES),
    _prepare,
    _writer,
    _prove,
    "rebuilt",
    sentences=_sentences,
    numbers=("recovery_segments", "recovery_bytes"),
    counts=("settings_from", "not_repaired"),
    flaw=_flaw,
    proved_by_settings=True,
)
