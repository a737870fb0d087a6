"""Lookup tables of partition directories."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from kafkats import tables
from tests.builders.partitions import Grown


def run(
    table: Path, some: Iterable[Grown], begin: int, end: int, step: int = 60_000, **more: Any
) -> tables.Written:
    return tables.build(table, [one.unit for one in some], begin, end, step_ms=step, **more)


def rows_of(table: Path) -> list[dict[str, Any]]:
    return list(tables.read(table).rows.to_pylist())


def files(table: Path) -> dict[str, bytes]:
    return {
        path.name: path.read_bytes() for path in sorted(table.iterdir()) if path.name != ".lock"
    }
