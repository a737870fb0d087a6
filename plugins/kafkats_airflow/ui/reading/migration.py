"""A migration's report: bytes of each magic over time, its brokers, who loses zero-copy."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from pydantic import BaseModel

from kafkats_airflow.reading.files import Unreadable, model
from kafkats_airflow.runs.steps import LostZeroCopy

CENSUS: Final = "census.parquet"
"""Only reports of a migration have it."""
_MOST_TOPICS: Final = 200


class Point(BaseModel):
    """The bytes of magic 0, 1 and 2 at a time (epoch ms), of all volumes seen until then."""

    at_ms: int
    bytes: list[int]


class BurnDown(BaseModel):
    """burn-down.json."""

    points: list[Point]


class Broker(BaseModel):
    """A broker in the ledger: where it stands, what is next, and what it waits for."""

    broker: str
    status: str
    phase: str = ""
    at: str = ""
    by: str = ""
    next: str = ""
    waits_for: str = ""


class Magic(BaseModel):
    """The bytes of magic 0, 1 and 2 on the volumes of the run, before and after it."""

    before: list[int]
    after: list[int]


class Report(BaseModel):
    """report.json of a phase."""

    outcome: str
    phase: str
    times_ms: list[int] = []
    brokers: list[Broker] = []
    ledger: str = ""
    magic_bytes: Magic
    loses_zero_copy: list[LostZeroCopy] = []
    certificates: list[str] = []
    statements: list[str] = []


class Converted(BaseModel):
    """The bytes of a topic on a volume that a broker of 0.10 to 3.9 converts for old fetches."""

    log_dir: str
    topic: str
    bytes: int
    fetch_0_1_converted: int
    fetch_2_3_converted: int
    zstd_bytes: int


class ZeroCopy(BaseModel):
    """zero-copy.json."""

    topics: list[Converted]


def report_of(folder: Path) -> Report | Unreadable | None:
    """Return the report of a phase, None if the run has none."""
    return model(folder / "report.json", Report)


def points_of(folder: Path, report: Report) -> list[Point] | Unreadable:
    """Return the burn-down up to this run. Earlier versions kept only the run's own two points."""
    found = model(folder / "burn-down.json", BurnDown)
    if isinstance(found, BurnDown):
        return found.points
    if found is not None:
        return found
    sizes = (report.magic_bytes.before, report.magic_bytes.after)
    return [Point(at_ms=at, bytes=size) for at, size in zip(report.times_ms, sizes, strict=False)]


def converted_of(folder: Path) -> list[Converted] | Unreadable | None:
    """Return the topics of which old fetches get converted batches, the most bytes first."""
    found = model(folder / "zero-copy.json", ZeroCopy)
    if not isinstance(found, ZeroCopy):
        return found
    losing = [one for one in found.topics if one.fetch_2_3_converted or one.fetch_0_1_converted]
    losing.sort(key=lambda one: (-one.fetch_2_3_converted, -one.fetch_0_1_converted, one.topic))
    return losing[:_MOST_TOPICS]
