"""The burn-down of a migration: bytes by magic over all runs with reports in a folder."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict

if TYPE_CHECKING:
    import pyarrow as pa

    from kafkats.logdir.strict_json import Json


class MagicBytes(TypedDict):
    """The bytes of one magic, in a census."""

    magic: int
    bytes: int


def write_burn_down(folder: Path, *others: Path) -> None:
    """Write burn-down.json and burn-down.png into a run's folder, from the runs beside it and those
    in `others`."""
    from kafkats.migration.plot import magic_bytes, plot_burn_down
    from kafkats.plans.files import write_json

    history = _history(folder.parent, *others)
    points = [{"at_ms": at_ms, "bytes": magic_bytes(census)} for at_ms, census in history]
    write_json(folder / "burn-down.json", {"points": points})
    plot_burn_down(history, folder / "burn-down.png")


def _history(*folders: Path) -> list[tuple[int, pa.Table]]:
    """Return (epoch milliseconds, bytes by magic of all volumes seen so far) at the begin and the
    end of every run in `folders`.

    Earlier versions had the runs of all DAGs in one folder.
    """
    from kafkats.plans.files import read_json

    reported = [path for folder in folders for path in folder.glob("*/report.json")]
    runs = sorted(
        (*times_ms, path.parent)
        for path in reported
        if (path.parent / "census.parquet").exists() and (times_ms := _times(read_json(path)))
    )
    known: dict[str, list[MagicBytes]] = {}
    points = []
    for began_ms, ended_ms, at in runs:
        for moment_ms, name in ((began_ms, "census-before"), (ended_ms, "census")):
            seen = _by_volume(at / f"{name}.parquet")
            if name == "census-before" and not seen.keys() - known.keys():
                continue  # as the run before had left it
            known |= seen
            points.append((moment_ms, _table(row for rows in known.values() for row in rows)))
    return points


def _times(report: Mapping[str, Json]) -> tuple[int, int] | None:
    """Return when a run began and ended, None for a report without it, and for one that failed
    before it counted anything.
    """
    times_ms = report.get("times_ms") if report.get("volumes") else []
    given = times_ms if isinstance(times_ms, list) else []
    numbers = [one for one in given if isinstance(one, int)]
    return (numbers[0], numbers[1]) if len(numbers) == len(given) == 2 else None


def _by_volume(path: Path) -> dict[str, list[MagicBytes]]:
    """Return the bytes of each magic per volume: all that a burn-down needs of a census."""
    from kafkats.migration.census import CENSUS as SCHEMA
    from kafkats.plans.facts import read_table
    from kafkats.plans.rows import grouped

    summed = grouped(read_table(path, SCHEMA), ["log_dir", "magic"], [("bytes", "sum")])
    volumes: dict[str, list[MagicBytes]] = {}
    for row in summed.to_pylist():
        sizes: MagicBytes = {"magic": row["magic"], "bytes": row["bytes_sum"]}
        volumes.setdefault(row["log_dir"], []).append(sizes)
    return volumes


def _table(rows: Iterable[MagicBytes]) -> pa.Table:
    import pyarrow as pa

    return pa.Table.from_pylist(
        list(rows), schema=pa.schema([("magic", pa.int8()), ("bytes", pa.int64())])
    )
