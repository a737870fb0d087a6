"""The operation `recover` (kafkats.plans.operation)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from kafkats.config.given import Given, stored
from kafkats.config.options import MissingRecords, Topics
from kafkats.config.settings_read import INDEXES
from kafkats.counts import counted, size_text
from kafkats.plans.operation import Decide, Operation, Planned, Stages, always
from kafkats.recovery.options import Recover
from kafkats.recovery.words import BELOW, UNMARKED

if TYPE_CHECKING:
    from kafkats.config.policy import Policy
    from kafkats.plans.rows import Header
    from kafkats.plans.units import Unit


def _prepare(given: Given, policy: Policy) -> Decide:
    from kafkats.recovery.look import RecoverOptions
    from kafkats.recovery.plan import look_and_plan

    asked = given.of(Recover)
    copies = str(asked.copy_readable.absolute()) if asked.copy_readable else ""
    options = stored(
        RecoverOptions, asked, given.of(MissingRecords), given.of(Topics), copy_readable=copies
    )

    def decide(stages: Stages, units: Sequence[Unit]) -> Planned:
        return look_and_plan(stages, units, policy, options)

    return decide


def _sentences(header: Header) -> Iterator[str]:
    totals = header["totals"]
    added = counted(totals["segments_added"], "empty segment")
    yield (
        f"a broker would recover {counted(totals['recovery_segments'], 'segment')}"
        f" ({size_text(totals['recovery_bytes'])}) from the recovery points on at its start"
        + f"; after apply it recovers {added} instead"
        * bool(totals["segments_added"])
    )
    if totals["cut_bytes"]:
        yield (
            f"{size_text(totals['cut_bytes'])} behind the last good batches are cut, as by a broker"
            " at its start; undo restores them"
        )
    if totals.get("zero_bytes"):
        yield (
            f"{size_text(totals['zero_bytes'])} of zeros behind the last good batches are cut:"
            " space that was set aside, no records"
        )
    if totals["dropped_segments"]:
        yield (
            f"LOST by this: {counted(totals['dropped_segments'], 'segment')}"
            f" ({size_text(totals['dropped_bytes'])}) behind a corrupt one, as by Kafka's recovery"
        )
    if totals.get("copied_bytes"):
        yield (
            f"{size_text(totals['copied_bytes'])} of good batches behind a corrupt place are copied"
            f" to {header['options']['copy_readable']}"
        )
    if totals.get("markers_removed"):
        yield (
            f"{counted(totals['markers_removed'], 'clean-shutdown marker')} removed, as logs are"
            f" cut below offsets that files name: without it {UNMARKED}"
        )
    if totals["behind_high_watermark"]:
        yield (
            f"{counted(totals['behind_high_watermark'], 'log')} will end below the high"
            f" watermark: {BELOW}"
        )
    if totals["blocked"]:
        yield (
            f"NOT recovered by this plan: {counted(totals['blocked'], 'partition')}; a broker"
            " does it itself at its start, with what that loses"
        )


OPERATION: Final = Operation(
    "recover",
    "Plan the recovery after an unclean stop. It cuts torn tails, rebuilds what Kafka rebuilds, and"
    " ends each log so that a broker starts at once.",
    (Recover, MissingRecords),
    always(INDEXES),
    _prepare,
    "kafkats.recovery.stage",
    "recovered",
    proof="kafkats.recovery.proof",
    sentences=_sentences,
    totals=(
        "recovery_segments",
        "recovery_bytes",
        "segments_added",
        "cut_bytes",
        "dropped_segments",
        "dropped_bytes",
        "behind_high_watermark",
    ),
    proves_log_end=True,
    recovers=True,
    flushes=True,
)
