"""Parts of a plan, written as the tasks write them."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

from kafkats.errors import storage
from kafkats.plans.facts import write_table
from kafkats.plans.parts import Part, part_of
from kafkats.plans.replacing import PARTS, part_file


def write_part(folder: Path, items: pa.Table) -> Part:
    """Write a part of the plan in `folder`. Raises StorageFailed."""
    part = part_of(items)
    with storage(folder, "writing the plan"):
        (folder / PARTS).mkdir(parents=True, exist_ok=True)
    write_table(part_file(folder, part.digest), items)
    return part
