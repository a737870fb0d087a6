"""The estimate of what clients cost the brokers, as a plan's summary has it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from kafkats import paths
from kafkats.counts import counted, size_text
from kafkats.errors import UsageError
from kafkats.migration.client_costs import (
    PhaseCost,
    check_clients,
    forecast_phases,
    measured,
)
from kafkats.migration.clients import Clients, read_clients
from kafkats.plans.units import Unit
from kafkats.text import Flag, Text


class Estimate(NamedTuple):
    """The estimate for programs, and for people."""

    summary: dict[str, object]
    sentences: list[str]


def read_mix(path: Path, to_magic: int, dialect: str | None = None) -> Clients:
    """Read the file of clients, for brokers that know both formats; none knows a dialect.

    Raises UsageError with the line of what is wrong, StorageFailed.
    """
    if dialect:
        raise UsageError(
            Text(Flag("--clients"), f": no broker and no client knows the dialect {dialect}")
        )
    clients = read_clients(path)
    try:
        check_clients(clients, to_magic)
    except UsageError as e:
        raise UsageError(e.reason, path=path) from e
    return clients


def estimate(clients: Clients, units: Sequence[Unit], to_magic: int) -> Estimate:
    """Return the estimate for the topics of the units."""
    stored: Counter[str] = Counter()
    for unit in units:
        name = paths.parse_partition(unit.partition_dir)
        if name is not None and unit.base_offset >= 0:
            stored[name.topic] += unit.bytes
    without = sorted(topic for topic in stored if clients.of(topic) is None)
    phases = forecast_phases(clients, stored, to_magic)
    costs = measured(clients.kafka)
    source = f"measured on Kafka {costs.kafka}, {costs.machine}, {costs.date}"
    summary: dict[str, object] = {
        "estimate": source,
        "phases": [_row(phase) for phase in phases],
        "topics_without_clients": without,
    }
    sentences = [_sentence(phase) for phase in phases]
    if sentences:
        sentences.append(f"these are estimates: CPU time per GB {source}")
    if without:
        named = f"{', '.join(without[:3])}{' ...' if len(without) > 3 else ''}"
        sentences.append(
            f"the file of clients has no glob for {counted(len(without), 'topic')}: {named}"
        )
    return Estimate(summary, sentences)


def _row(phase: PhaseCost) -> dict[str, str | int | float]:
    names = phase._fields[2:-1]
    numbers = {name: round(value) for name, value in zip(names, phase[2:-1], strict=True)}
    return {
        "phase": phase.phase,
        "per": phase.basis,
        **numbers,
        "cpu_seconds": round(phase.cpu_seconds, 1),
    }


def _sentence(phase: PhaseCost) -> str:
    per = "a day" if phase.basis == "day" else "for the bytes that are stored now"
    return (
        f"{phase.phase}, {per}: leaders convert {size_text(round(phase.converted_bytes))} of"
        f" {size_text(round(phase.produced_bytes))} produced, and recompress"
        f" {size_text(round(phase.recompressed_bytes))};"
        f" {size_text(round(phase.zero_copy_lost_bytes))} of"
        f" {size_text(round(phase.read_bytes))} read lose zero-copy;"
        f" {phase.cpu_seconds:,.0f} CPU seconds more"
    )
