"""The proof of a plan by its operation, on the stages of this flow."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Final

import pyarrow as pa

from kafkats.config import Policy
from kafkats.config.settings import TopicSettings
from kafkats.execution import Executor
from kafkats.flow.looking import LogStages
from kafkats.generations import DEFAULT_RULE, RULES
from kafkats.inspect.verify import VerifyOptions
from kafkats.operations import operation
from kafkats.plans.facts import SEGMENTS
from kafkats.plans.operation import Proving
from kafkats.plans.plan import Plan
from kafkats.plans.proof import Proof
from kafkats.plans.units import Unit

_SETTINGS: Final = ("index_interval_bytes", "segment_index_bytes")

_Built = tuple[str, int, int]
"""The rule and the settings that an index was built with."""


def prove(
    executor: Executor,
    plan: Plan,
    folder: Path,
    units: Iterable[Unit],
    options: VerifyOptions,
    *,
    later: Collection[tuple[str, str]] = (),
) -> Proof:
    """Prove what the plan in `folder` wrote. In the partitions of `later` another run has written
    since.

    Indexes are held to the rule and the settings of the plan, with which it was approved; `options`
    says how the rest is read. Raises CorruptFile, CorruptPlan, StorageFailed.
    """
    proves = operation(plan.operation)
    if not proves.proved_by_settings:
        stages = LogStages(executor, options)
        return proves.prove(Proving(stages, plan, folder, units, later))
    listed = list(units)
    parts = [
        proves.prove(
            Proving(
                LogStages(executor, _options(built, options)),
                replace(plan, items=items),
                folder,
                listed,
                later,
            )
        )
        for built, items in _by_settings(plan.items).items()
    ]
    return Proof(
        pa.concat_tables([part.segments for part in parts] or [SEGMENTS.empty_table()]),
        sum(part.files for part in parts),
        sum(part.equal for part in parts),
        [path for part in parts for path in part.not_equal],
        [reason for part in parts for reason in part.reasons],
    )


def _by_settings(items: pa.Table) -> dict[_Built, pa.Table]:
    """Return the items in parts: files that were built with the same rule and settings."""
    names = ("rule", *_SETTINGS)
    built = list(zip(*(items[name].to_pylist() for name in names), strict=True))
    return {
        one: items.filter(pa.array([other == one for other in built]))
        for one in dict.fromkeys(built)
    }


def _options(built: _Built, options: VerifyOptions) -> VerifyOptions:
    rule, *sizes = built
    given = {key: size for key, size in zip(_SETTINGS, sizes, strict=True) if size >= 0}
    policy = Policy(overrides=TopicSettings().model_copy(update=given))
    return replace(options, rule=rule if rule in RULES else DEFAULT_RULE.name, policy=policy)
