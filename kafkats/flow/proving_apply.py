"""The proof at the end of an apply: every file that it wrote is read again from the disk."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from kafkats.config import Policy
from kafkats.config.settings import TopicSettings
from kafkats.errors import KafkatsError
from kafkats.execution import Executor
from kafkats.flow.ending import note_proved
from kafkats.flow.proving import prove
from kafkats.generations import DEFAULT_RULE, RULES
from kafkats.inspect.verify import VerifyOptions
from kafkats.logdir.workarea import ROOT
from kafkats.operations import operation
from kafkats.plans.facts import SEGMENTS
from kafkats.plans.plan import Plan
from kafkats.plans.proof import Proof
from kafkats.plans.units import list_units

_SETTINGS: Final = ("index_interval_bytes", "segment_index_bytes")

_Built = tuple[str, int, int]
"""The rule and the settings that an index was built with."""


def prove_apply(
    executor: Executor, plan: Plan, plan_folder: Path, folder: Path, summary: Mapping[str, Any]
) -> Proof | None:
    """Prove what was just applied of a plan; `folder` is the run's, which gets a `proof.json`.

    None where there is nothing to prove: a run that was proved before and has written nothing since
    may have been changed by a broker. A proof that cannot be made names its reason, as a file that
    is not as planned.
    """
    fresh = "done" in summary["outcomes"] or not (folder / "proof.json").exists()
    if not summary["files"] or not fresh:
        return None
    try:
        proof = _prove(executor, plan, plan_folder)
        if not proof.not_equal:
            note_proved(folder, files=proof.files, undone=0)
    except KafkatsError as e:
        reason = f"could not be proved: {e}"
        return Proof(SEGMENTS.empty_table(), int(summary["files"]), 0, [reason], [reason])
    return proof


def _prove(executor: Executor, plan: Plan, plan_folder: Path) -> Proof:
    columns = (plan.items[name].to_pylist() for name in ("action", "log_dir", "partition_dir"))
    written = {
        Path(log_dir, partition_dir)
        for action, log_dir, partition_dir in zip(*columns, strict=True)
        if action != "blocked" and partition_dir != ROOT
    }
    listed = list_units(sorted(written))
    if not operation(plan.operation).proved_by_settings:
        return prove(executor, plan, plan_folder, listed, VerifyOptions())
    units = list(listed)
    parts = [
        prove(executor, part, plan_folder, units, _options(built))
        for built, part in _by_settings(plan).items()
    ]
    return Proof(
        pa.concat_tables([part.segments for part in parts] or [SEGMENTS.empty_table()]),
        sum(part.files for part in parts),
        sum(part.equal for part in parts),
        [path for part in parts for path in part.not_equal],
        [reason for part in parts for reason in part.reasons],
    )


def _by_settings(plan: Plan) -> dict[_Built, Plan]:
    """The plan in parts: files that were built with the same rule and settings."""
    names = ("rule", *_SETTINGS)
    built = list(zip(*(plan.items[name].to_pylist() for name in names), strict=True))
    return {
        one: replace(plan, items=plan.items.filter(pa.array([other == one for other in built])))
        for one in dict.fromkeys(built)
    }


def _options(built: _Built) -> VerifyOptions:
    """The plan's own settings, whatever they are: it was approved with them."""
    rule, *sizes = built
    given = {key: size for key, size in zip(_SETTINGS, sizes, strict=True) if size >= 0}
    policy = Policy(overrides=TopicSettings().model_copy(update=given))
    return VerifyOptions(rule=rule if rule in RULES else DEFAULT_RULE.name, policy=policy)
