"""Directories of brokers that were killed, and their recovery in this process."""

from __future__ import annotations

import shutil
from collections.abc import Collection
from pathlib import Path

from kafkats.config.policy import Policy
from kafkats.execution.local import LocalExecutor
from kafkats.flow.looking import LogStages
from kafkats.generations import RULES
from kafkats.plans.operation import Planned
from kafkats.plans.units import list_units
from kafkats.recovery.look import RecoverOptions
from kafkats.recovery.plan import look_and_plan
from tests.golden import Case, Unpacked, case, forget_others

KEYS = ("index.interval.bytes", "segment.index.bytes")


def policy_of(of: Case, cleanup: str = "") -> Policy:
    """The settings that the topics were created with, and a cleanup.policy of all of them."""
    topics = {
        topic: {key: int(made["config"][key]) for key in KEYS if key in made.get("config", {})}
        for topic, made in of.info["topics"].items()
    }
    defaults = {"cleanup.policy": cleanup} if cleanup else {}
    return Policy.model_validate({"topics": topics, "defaults": defaults})


def plan_of(
    root: Path,
    of: Case,
    *,
    like_kafka: bool = False,
    accept: bool = False,
    copies: Path | None = None,
    cleanup: str = "",
    mend_magic: bool = False,
    credit: bool = False,
) -> Planned:
    """Plan the recovery of a root that brokers of the case's version left."""
    rules = (r for r in RULES.values() if r.for_brokers)
    rule = next(r.name for r in rules if r.first_offset == of.first_offset_rule())
    options = RecoverOptions(
        rule,
        like_kafka=like_kafka,
        accept_loss=("offsets",) if accept else (),
        copy_readable=str(copies or ""),
        mend_magic=mend_magic,
        credit=credit,
    )
    stages = LogStages(LocalExecutor(1))
    policy = policy_of(of, cleanup)
    return look_and_plan(stages, list(list_units([root])), policy, options)


def some_of(golden: Unpacked, name: str, partitions: Collection[str], to: Path) -> Path:
    """Copy some partitions of a case's `before` to the new folder `to`, with the root's own files."""
    source = golden(name, "before")
    to.mkdir(parents=True)
    for path in source.iterdir():
        if path.name in partitions:
            shutil.copytree(path, to / path.name)
        elif path.is_file():
            shutil.copy2(path, to / path.name)
    forget_others(to)
    return to


CRASHED = case("crash-4.3.1")
