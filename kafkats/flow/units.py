"""The units of work of a request that reads logs."""

from __future__ import annotations

import os
from collections.abc import Iterable

from kafkats.config import Policy
from kafkats.config.options import Topics
from kafkats.errors import UsageError
from kafkats.flow.dispatch import Work, seen
from kafkats.logdir.volume import refuse_copies
from kafkats.plans.dialects import read_as
from kafkats.plans.units import Unit, list_units
from kafkats.text import Command, Flag, Text


def units_of(work: Work, *, policy: Policy | None = None, proves: bool = False) -> list[Unit]:
    """Return the units of the request's log directories, which the result then has. Raises as
    `units_in`.
    """
    request = work.request
    paths, topics = [str(one.path) for one in request.log_dirs], request.of(Topics).topics
    fine = request.no_topic_is_fine
    units = units_in(paths, topics, policy=policy, proves=proves, none_is_fine=fine)
    work.done.log_dirs = seen(sorted({unit.log_dir for unit in units}))
    return units


def units_in(
    log_dirs: Iterable[str | os.PathLike[str]],
    topics: str,
    dialect: str | None = None,
    *,
    policy: Policy | None = None,
    proves: bool = False,
    none_is_fine: bool = False,
) -> list[Unit]:
    """Return the units of logs that are read as `dialect`, None for what shipped.

    `policy` names volumes. `proves`: the units are compared with a plan, which knows their format.
    Raises UsageError if no topic matches, unless `none_is_fine`; Refused for another dialect, and
    for copies that the policy does not name; as `units.list_units`.
    """
    listed = list_units(log_dirs, topics=topics)
    units = list(listed if proves else read_as(listed, dialect))
    if not proves:
        named = policy.named_paths() if policy else ()
        refuse_copies(sorted({unit.log_dir for unit in units}), named)
    matched = topics == "*" or any(unit.partition_dir for unit in units)
    if not matched and not none_is_fine:
        raise UsageError(
            Text(
                "no topic matches ",
                Flag("--topics"),
                f" {topics!r}: ",
                Command("inventory"),
                " lists them",
            )
        )
    return units
