"""The operation `retain` (kafkats.plans.operation)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from kafkats.config.given import Given
from kafkats.config.options import MissingRecords
from kafkats.config.settings_read import INDEXES
from kafkats.counts import counted, size_text
from kafkats.generations import RETENTION_RULES, rule_remarks
from kafkats.paths import LEADER_EPOCH, LOG_START, SEGMENT_KINDS
from kafkats.plans.operation import Decide, Joined, Operation, Parts, Planned, Stages
from kafkats.retention.options import HELD, Beyond, Retain

if TYPE_CHECKING:
    from kafkats.config.policy import Policy
    from kafkats.plans.deciding import Decided, Settling
    from kafkats.plans.rows import Header
    from kafkats.plans.units import Unit

READS: Final = frozenset({
    "cleanup.policy", "retention.ms", "retention.bytes", "remote.storage.enable",
    "message.format.version", "kafkats.legal.hold", "kafkats.guard.max.share",
    "kafkats.guard.max.bytes", "kafkats.implausible.timestamps",
    "kafkats.keep.segments",
})  # fmt: skip
INSIDE_READS: Final = READS | INDEXES
"""The topic settings that a retention inside segments reads."""


def _reads(given: Given) -> frozenset[str]:
    return INSIDE_READS if given.of(Retain).inside_segments else READS


def _prepare(given: Given, policy: Policy) -> Decide:
    from kafkats.retention.expired_heads import check_options
    from kafkats.retention.looking import retain_and_beyond, retain_options

    inside = given.of(Retain).inside_segments
    options = retain_options(given, given.of(MissingRecords))
    check_options(options, inside_segments=inside)

    def decide(stages: Stages, units: Sequence[Unit]) -> Planned:
        return retain_and_beyond(
            stages,
            units,
            options,
            policy,
            inside_segments=inside,
            beyond=given.of(Beyond).beyond_guard is not None,
            suspects=given.reported,
        )

    return decide


def _prepare_group(given: Given, policy: Policy) -> Decide:
    from kafkats.retention.in_parts import prepare

    return prepare(given, policy)


def _join(given: Given, notes: Sequence[Mapping[str, Any]]) -> Joined:
    from kafkats.retention.in_parts import join

    return join(given, notes)


def _settle(work: Settling) -> tuple[Sequence[Decided], Sequence[Decided]]:
    from kafkats.retention.in_parts import settle

    return settle(work)


def _sentences(header: Header) -> Iterator[str]:
    totals = header["totals"]
    ours = f"{size_text(totals['freed_bytes'])} in {counted(totals['segments'], 'segment')}"
    yield (
        f"{ours} to delete; purge then frees them; a broker with these settings would delete"
        f" {size_text(totals['kafka_bytes'])} in {counted(totals['kafka_segments'], 'segment')}"
        if totals["kafka_segments"]
        else f"{ours} to delete"
    )
    if totals.get("heads"):
        yield (
            f"{totals['heads']} of them are expired first parts of segments. apply writes the"
            f" rest, {size_text(totals['write_bytes'])}, again; it is on the disk twice until purge"
        )
    for veto, count in sorted(totals["vetoes"].items()):
        yield f"kept: {counted(count, 'segment')}: {veto}"
    if totals["blocked_segments"]:
        yield (
            f"{size_text(totals['blocked_bytes'])} in"
            f" {counted(totals['blocked_segments'], 'segment')} expired behind one that has not:"
            " kafkats simulate retain names it"
        )
    elif not totals["segments"]:
        yield "kafkats simulate retain gives the reason for each partition"


def _remarks(header: Header) -> Sequence[str]:
    return rule_remarks(str(header["options"]["rule"]))


def _flaw(header: Header) -> str:
    known = header["options"].get("rule") in RETENTION_RULES
    return "" if known else "its options name no rule of retention"


OPERATION: Final = Operation(
    "retain",
    "Plan which segments to delete, as a broker would. The output says why the others are kept.",
    (Retain, Beyond, MissingRecords),
    _reads,
    _prepare,
    "kafkats.retention.stage",
    "deleted",
    verb="delete",
    proof="kafkats.retention.proof",
    follows=(*SEGMENT_KINDS[1:], LEADER_EPOCH, LOG_START),
    sentences=_sentences,
    remarks=_remarks,
    totals=(
        "freed_bytes",
        "kafka_bytes",
        "kafka_segments",
        "blocked_bytes",
        "blocked_segments",
        "vetoes",
    ),
    flaw=_flaw,
    parts=Parts(
        lambda given: not given.of(Retain).inside_segments,
        lambda _: True,
        _join,
        _prepare_group,
        _settle,
        HELD,
    ),
    by_topic=True,
    flushes=True,
)
