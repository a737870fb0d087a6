"""Write the folder of a plan."""

from __future__ import annotations

from pathlib import Path

from kafkats.flow.apply import refuse_unpermitted
from kafkats.plans.operation import Planned
from kafkats.reserving import Planning


def write(planned: Planned, planning: Planning, folder: Path) -> None:
    """Write the plan's folder. Raises NotPermitted where its files could not be given their
    attributes, StorageFailed.
    """
    refuse_unpermitted(planned.plan)
    planning.write(planned.plan, folder, **planned.beside)
