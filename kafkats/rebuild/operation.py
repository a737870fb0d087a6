"""The operation `rebuild` (kafkats.plans.operation)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from kafkats.config.given import Given, stored
from kafkats.config.options import MissingRecords, Topics
from kafkats.config.settings_read import INDEXES
from kafkats.counts import counted, size_text
from kafkats.errors import UsageError
from kafkats.plans.operation import (
    Decide,
    Joined,
    Operation,
    Parts,
    Planned,
    Stages,
    always,
)
from kafkats.rebuild.options import Rebuild
from kafkats.text import Flag

if TYPE_CHECKING:
    from kafkats.config.policy import Policy
    from kafkats.logdir.strict_json import Json
    from kafkats.plans.rows import Header
    from kafkats.plans.units import Unit

_ORIGINS: Final = {
    "inferred": "inferred from other index files",
    "default": "taken as Kafka's default",
}


def _prepare(given: Given, policy: Policy) -> Decide:
    from kafkats.plans.contradictions import noted
    from kafkats.plans.depths import reading_of
    from kafkats.rebuild.plan import RebuildOptions, check_options, plan_rebuild

    asked = given.of(Rebuild)
    if asked.depth == "tail" and "depth" in given.named and (asked.all or asked.from_report):
        raise UsageError(
            *(Flag("--depth"), " tail goes neither with ", Flag("--all"), " nor "),
            *(Flag("--from"), ": both need whole segments"),
        )
    options = stored(RebuildOptions, asked, given.of(MissingRecords), given.of(Topics))
    check_options(options)
    depth = _depth(given)

    def decide(stages: Stages, units: Sequence[Unit]) -> Planned:
        looked = stages.look(
            units, rule=options.rule, policy=policy, depth=depth, report=asked.from_report
        )
        plan = plan_rebuild(looked.segments, options)
        notes: Mapping[str, Json] = {
            "looked": list(reading_of(looked)),
            **noted(plan, looked.segments),
        }
        said = _join(given, [notes])
        beside = {"depths": looked.depths}
        return Planned(
            plan, looked.segments, beside, said.remarks, said.more, None, said.sentences, notes
        )

    return decide


def _depth(given: Given) -> str:
    """Return how segments are looked at: each entry counts where sound indexes are written, too,
    and by a rule of no broker.
    """
    from kafkats.generations import RULES

    asked = given.of(Rebuild)
    return "full" if asked.all or not RULES[asked.rule].for_brokers else asked.depth


def _join(given: Given, notes: Sequence[Mapping[str, Any]]) -> Joined:
    from kafkats.plans.contradictions import noted_remarks
    from kafkats.plans.depths import Reading, looked_sentences

    looked = Reading(*map(sum, zip(*(one["looked"] for one in notes), strict=True)))
    return Joined(
        noted_remarks(notes),
        {"looked_bytes": looked.read_bytes, "known_segments": looked.known},
        looked_sentences(looked, given.of(Rebuild).from_report),
    )


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
    parts=Parts(
        lambda given: given.of(Rebuild).from_report is None,
        lambda given: _depth(given) == "tail",
        _join,
    ),
    proved_by_settings=True,
)
