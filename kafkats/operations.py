"""The operations that plan and write, each described by its room (kafkats.plans.operation).

Everything that lists operations reads this module. It imports only what declares options.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from kafkats.errors import CorruptPlan
from kafkats.migration.operation import OPERATION as MIGRATE
from kafkats.plans.operation import Operation
from kafkats.rebuild.operation import OPERATION as REBUILD
from kafkats.recovery.operation import OPERATION as RECOVER
from kafkats.retention.operation import OPERATION as RETAIN
from kafkats.rolling.operation import OPERATION as ROLL
from kafkats.split.operation import OPERATION as SPLIT

OPERATIONS: Final[Mapping[str, Operation]] = {
    one.name: one for one in (REBUILD, RECOVER, MIGRATE, RETAIN, ROLL, SPLIT)
}


def operation(name: str) -> Operation:
    """Return an operation by the name in its plans. Raises CorruptPlan for an unknown one."""
    if name not in OPERATIONS:
        raise CorruptPlan(f"this kafkats cannot apply a plan of operation {name!r}")
    return OPERATIONS[name]
