"""The units of work of a request that reads logs."""

from __future__ import annotations

import os
from collections.abc import Iterable

from kafkats.errors import UsageError
from kafkats.plans.dialects import read_as
from kafkats.plans.units import Unit, list_units


def units_in(
    log_dirs: Iterable[str | os.PathLike[str]],
    topics: str,
    dialect: str | None = None,
    *,
    proves: bool = False,
    none_is_fine: bool = False,
) -> list[Unit]:
    """Return the units of logs that are read as `dialect`, None for what shipped.

    `proves`: they are compared with a plan, which knows their format. Raises UsageError if no topic
    matches, unless `none_is_fine`; Refused for another dialect; as `units.list_units`.
    """
    listed = list_units(log_dirs, topics=topics)
    units = list(listed if proves else read_as(listed, dialect))
    matched = topics == "*" or any(unit.partition_dir for unit in units)
    if not matched and not none_is_fine:
        raise UsageError(f"no topic matches --topics {topics!r}: kafkats inventory lists them")
    return units
