"""A plan of retention, what its guards keep, and the plan without them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Final, NamedTuple

import pyarrow as pa

from kafkats.config import Policy
from kafkats.execution import Executor
from kafkats.flow.planning import Planned, over_guard, retain, suspect_shares
from kafkats.plans.units import Unit
from kafkats.retention.plan import RetainOptions
from kafkats.retention.summary import board

_LOOKED_INTO: Final = 200
"""Segments with implausible timestamps: all of each is read."""


class Retained(NamedTuple):
    """`planned` within the guards, which keep `over_guard` segments; `beyond` is the plan without
    guards.
    """

    planned: Planned
    over_guard: int
    beyond: Planned | None


def retain_and_beyond(
    executor: Executor,
    units: Sequence[Unit],
    options: RetainOptions,
    policy: Policy,
    *,
    inside_segments: bool,
    beyond: bool,
    suspects: bool,
) -> Retained:
    """Plan which segments to delete.

    With `beyond` also plan without the policy's guards, from the same facts, where a guard keeps
    something. With `suspects` a table of implausible timestamps is written beside the plans. Raises
    as `planning.retain`.
    """
    decide = partial(retain, executor, units, policy=policy, inside_segments=inside_segments)
    planned = decide(options)
    kept = over_guard(planned.plan)
    without = None
    if beyond and kept:
        without = decide(replace(options, over_guard=True), segments=planned.segments)
    if suspects:
        rows = board(planned.beside["retention"], options.now_ms)
        worst = sorted(rows, key=lambda row: -int(row["pinned_bytes"]))[:_LOOKED_INTO]
        shares = suspect_shares(executor, worst)
        planned = _beside(planned, shares)
        without = _beside(without, shares) if without else None
    return Retained(planned, kept, without)


def _beside(planned: Planned, shares: pa.Table) -> Planned:
    return planned._replace(beside={**planned.beside, "suspects": shares})
