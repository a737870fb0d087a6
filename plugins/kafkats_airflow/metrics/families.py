"""The metrics: names, types and labels, and their samples from a snapshot of the reports.

All are gauges: each is the state of something now, also if it is a time. Times are seconds since
the epoch, so that an age is `time() - METRIC`. No sample has a timestamp of its own.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from prometheus_client import CollectorRegistry
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from kafkats_airflow.metrics.reading import Facts, Snapshot, partitions, snapshot
from kafkats_airflow.runs.overview import Overview

OUTCOMES: Final = ("success", "dry_run", "rejected", "failed")


class Metric(NamedTuple):
    """A gauge. Bytes are those on the disk that the report saw, of one replica."""

    name: str
    labels: tuple[str, ...]
    text: str


_OF_VOLUME: Final = ("volume",)
_OF_PARTITION: Final = ("volume", "partition")
METRICS: Final = (
    Metric("kafkats_folder_readable", (), "1 if the folder of all runs can be listed, else 0"),
    Metric(
        "kafkats_reports",
        ("state",),
        "Reports by state: read, older (without overview.json), unreadable",
    ),
    Metric(
        "kafkats_report_timestamp_seconds",
        ("dag",),
        "When the newest report of a DAG was written",
    ),
    Metric(
        "kafkats_last_outcome",
        ("dag",
        "outcome"), "1 for how the newest report of a DAG ended: success, dry_run, "
        "rejected or failed; else 0",
    ),
    Metric(
        "kafkats_volume_timestamp_seconds",
        _OF_VOLUME,
        "When a run last looked at all topics of a log directory",
    ),
    Metric("kafkats_volume_bytes", _OF_VOLUME, "Bytes of logs and indexes"),
    Metric("kafkats_volume_partitions", _OF_VOLUME, "Partition directories"),
    Metric("kafkats_volume_segments", _OF_VOLUME, "Segments"),
    Metric(
        "kafkats_defects",
        ("volume",
        "severity", "kind"), "Findings of severity damage or danger; absent for kinds "
        "without one",
    ),
    Metric("kafkats_reclaimable_bytes", _OF_VOLUME, "Bytes that retention deletes now"),
    Metric(
        "kafkats_pinned_bytes",
        _OF_VOLUME,
        "Bytes of expired segments that an earlier segment keeps",
    ),
    Metric(
        "kafkats_old_magic_ratio",
        _OF_VOLUME,
        "Share of bytes of batches in magic 0 or 1; absent until a run read at least 95 % "
        "of the bytes",
    ),
    Metric("kafkats_undo_runs", _OF_VOLUME, "RUNs that can be undone"),
    Metric("kafkats_undo_bytes", _OF_VOLUME, "Bytes of the files that an undo would put back"),
    Metric(
        "kafkats_undo_oldest_timestamp_seconds",
        _OF_VOLUME,
        "When the oldest RUN ended that can be undone; absent without one",
    ),
    Metric(
        "kafkats_partition_bytes",
        _OF_PARTITION,
        "Bytes of all segments' files (with KAFKATS_METRICS_PARTITIONS)",
    ),
    Metric(
        "kafkats_partition_reclaimable_bytes",
        _OF_PARTITION,
        "Bytes that retention would delete when it looked (with "
        "KAFKATS_METRICS_PARTITIONS)",
    ),
    Metric(
        "kafkats_partition_pinned_bytes",
        _OF_PARTITION,
        "Bytes of expired segments that an earlier segment keeps (with "
        "KAFKATS_METRICS_PARTITIONS)",
    ),
)  # fmt: skip
"""All of them; docs/operating.md has the same table."""


class Reports(Collector):
    """Reads the folder of all runs at each scrape. One scrape reads at a time."""

    def __init__(self, folder: Path, *, by_partition: bool = False) -> None:
        self.folder, self.by_partition = folder, by_partition
        self._one_at_a_time = threading.Lock()

    def collect(self) -> Iterator[GaugeMetricFamily]:
        with self._one_at_a_time:
            seen = snapshot(self.folder)
            gauges = _Gauges()
            _of_folder(gauges, seen)
            for log_dir, facts in sorted(seen.volumes.items()):
                _of_volume(gauges, log_dir, facts)
                if self.by_partition:
                    _of_partitions(gauges, log_dir, facts)
        yield from gauges.families.values()


def registry(folder: Path, *, by_partition: bool = False) -> CollectorRegistry:
    """Return a registry that has the metrics of this folder, and nothing else."""
    found = CollectorRegistry(auto_describe=False)
    found.register(Reports(folder, by_partition=by_partition))
    return found


class _Gauges:
    def __init__(self) -> None:
        self.families = {
            one.name: GaugeMetricFamily(one.name, one.text, labels=one.labels) for one in METRICS
        }

    def add(self, name: str, value: float, *labels: str) -> None:
        self.families[name].add_metric([_printable(label) for label in labels], value)


def _printable(label: str) -> str:
    """Return a label that UTF-8 can write: names on a disk may be any bytes."""
    return label.encode("utf-8", "backslashreplace").decode()


def _of_folder(gauges: _Gauges, seen: Snapshot) -> None:
    gauges.add("kafkats_folder_readable", float(seen.readable))
    for state, count in seen.reports.items():
        gauges.add("kafkats_reports", count, state)
    for dag_id, overview in sorted(seen.dags.items()):
        gauges.add("kafkats_report_timestamp_seconds", overview.written_ms / 1000, dag_id)
        ended = outcome_of(overview)
        for outcome in OUTCOMES:
            gauges.add("kafkats_last_outcome", float(outcome == ended), dag_id, outcome)


def outcome_of(overview: Overview) -> str:
    """Return how a run ended, as one of OUTCOMES."""
    if overview.failed:
        return "failed"
    if overview.dry_run:
        return "dry_run"
    return "rejected" if overview.outcome.startswith("rejected") else "success"


def _of_volume(gauges: _Gauges, log_dir: str, facts: Facts) -> None:
    if facts.written_ms:
        gauges.add("kafkats_volume_timestamp_seconds", facts.written_ms / 1000, log_dir)
    if (seen := facts.seen) is not None:
        gauges.add("kafkats_volume_bytes", seen.bytes or 0, log_dir)
        gauges.add("kafkats_volume_partitions", seen.partitions or 0, log_dir)
        gauges.add("kafkats_volume_segments", seen.segments or 0, log_dir)
        for severity in ("damage", "danger"):
            for kind, count in (seen.kinds or {}).get(severity, {}).items():
                gauges.add("kafkats_defects", count, log_dir, severity, kind)
    if facts.reclaimable is not None:
        gauges.add("kafkats_reclaimable_bytes", facts.reclaimable.now_bytes, log_dir)
        gauges.add("kafkats_pinned_bytes", facts.reclaimable.pinned_bytes, log_dir)
    if facts.magic_bytes is not None:
        old, every = sum(facts.magic_bytes[:2]), sum(facts.magic_bytes)
        gauges.add("kafkats_old_magic_ratio", old / every if every else 0.0, log_dir)
    gauges.add("kafkats_undo_runs", len(facts.undo), log_dir)
    gauges.add("kafkats_undo_bytes", sum(size for _, size in facts.undo), log_dir)
    if facts.undo:
        oldest = min(ended_ms for ended_ms, _ in facts.undo)
        gauges.add("kafkats_undo_oldest_timestamp_seconds", oldest / 1000, log_dir)


def _of_partitions(gauges: _Gauges, log_dir: str, facts: Facts) -> None:
    for one in partitions(facts, log_dir):
        where = (log_dir, one.name)
        gauges.add("kafkats_partition_bytes", one.bytes, *where)
        gauges.add("kafkats_partition_reclaimable_bytes", one.reclaimable_bytes, *where)
        gauges.add("kafkats_partition_pinned_bytes", one.pinned_bytes, *where)
