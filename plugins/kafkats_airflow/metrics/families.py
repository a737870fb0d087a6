"""The metrics: names, types and labels, and their samples from a snapshot of the reports.

All are gauges: each is the state of something now, also if it is a time. Times are seconds since
the epoch, so that an age is `time() - METRIC`. No sample has a timestamp of its own.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple, TypeAlias

from prometheus_client import CollectorRegistry
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector
from prometheus_client.samples import Sample

from kafkats_airflow.metrics.reading import Snapshot, partitions, snapshot
from kafkats_airflow.reading.volumes import Row
from kafkats_airflow.runs.overview import Overview

OUTCOMES: Final = ("success", "dry_run", "rejected", "failed")


class Metric(NamedTuple):
    """A gauge. Bytes are those on the disk that the report saw, of one replica."""

    name: str
    labels: tuple[str, ...]
    text: str


_OF_VOLUME: Final = ("volume", "broker")
_OF_PARTITION: Final = ("volume", "broker", "partition")
UNKNOWN: Final = "unknown"
"""The label `broker` of a volume whose broker no policy and no meta.properties names."""
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
        "rejected or failed; failed until a later run ends well, where a dry run does not count "
        "for one that was to write; else 0",
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
        ("volume", "broker",
        "severity", "kind"), "Findings of severity damage or danger, until a look at least as "
        "deep finds none; absent for kinds without one",
    ),
    Metric(
        "kafkats_look_timestamp_seconds",
        ("volume", "broker",
        "depth"), "When a run last looked for defects at all topics to a depth: tail (the ends "
        "of files), full or deep; absent once a later look was at least as deep",
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


Folders: TypeAlias = Callable[[], Mapping[str, Path]]
"""Returns the folder of all runs of each set of DAGs, by its name: "" for the deployment's own."""


class Reports(Collector):
    """Reads the folders of all runs at each scrape. One scrape reads at a time.

    Samples of a set with a name have it as the label `set`.
    """

    def __init__(self, folders: Folders, *, by_partition: bool = False) -> None:
        self.folders, self.by_partition = folders, by_partition
        self._one_at_a_time = threading.Lock()

    def collect(self) -> Iterator[GaugeMetricFamily]:
        every = _Gauges().families
        with self._one_at_a_time:
            for name, folder in self.folders().items():
                for family in self._of(folder).families.values():
                    every[family.name].samples += [_labelled(one, name) for one in family.samples]
        yield from every.values()

    def _of(self, folder: Path) -> _Gauges:
        seen, gauges = snapshot(folder), _Gauges()
        _of_folder(gauges, seen)
        for row in seen.volumes:
            volume = _Volume(gauges, row)
            _of_volume(volume, row)
            if self.by_partition:
                _of_partitions(volume, row, folder)
        return gauges


def _labelled(sample: Sample, name: str) -> Sample:
    return sample._replace(labels={**sample.labels, "set": _printable(name)}) if name else sample


def registry(folders: Folders, *, by_partition: bool = False) -> CollectorRegistry:
    """Return a registry that has the metrics of these folders, and nothing else."""
    found = CollectorRegistry(auto_describe=False)
    found.register(Reports(folders, by_partition=by_partition))
    return found


class _Gauges:
    def __init__(self) -> None:
        self.families = {
            one.name: GaugeMetricFamily(one.name, one.text, labels=one.labels) for one in METRICS
        }

        self.named: set[tuple[str, str]] = set()
        """The volumes that have samples, by path and broker."""

    def add(self, name: str, value: float, *labels: str) -> None:
        self.families[name].add_metric([_printable(label) for label in labels], value)


class _Volume:
    """The gauges of one volume: as of 0.2 with its broker, and for one release without it, too.

    Volumes with one path have one series without a broker: that of the one in most trouble.
    """

    def __init__(self, gauges: _Gauges, row: Row) -> None:
        self.families = gauges.families
        path, owner = row.place.path, _owner(row)
        while (path, owner) in gauges.named:  # of another cluster, or without any name
            owner += f" {row.place.directory_id or 'too'}"
        self.labels = [{"volume": path, "broker": owner}]
        if (path, "") not in gauges.named:
            self.labels.append({"volume": path})
        gauges.named |= {(path, owner), (path, "")}

    def add(self, name: str, value: float, **more: str) -> None:
        family = self.families[name]
        for labels in self.labels:
            every = {key: _printable(label) for key, label in (labels | more).items()}
            family.add_sample(name, every, value)


def _owner(row: Row) -> str:
    """Return the name of a volume's broker: that of the policy, else its node id."""
    place = row.place
    node = place.identity.node_id if place.identity else None
    return place.broker or place.name or (UNKNOWN if node is None else str(node))


def _printable(label: str) -> str:
    """Return a label that UTF-8 can write: names on a disk may be any bytes."""
    return label.encode("utf-8", "backslashreplace").decode()


def _of_folder(gauges: _Gauges, seen: Snapshot) -> None:
    gauges.add("kafkats_folder_readable", float(seen.readable))
    for state, count in seen.reports.items():
        gauges.add("kafkats_reports", count, state)
    for dag_id, overviews in sorted(seen.dags.items()):
        written_ms, ended = overviews[0].written_ms, last_outcome(overviews)
        gauges.add("kafkats_report_timestamp_seconds", written_ms / 1000, dag_id)
        for outcome in OUTCOMES:
            gauges.add("kafkats_last_outcome", float(outcome == ended), dag_id, outcome)


def last_outcome(overviews: Sequence[Overview]) -> str:
    """Return how the runs of a DAG ended, the newest first, as one of OUTCOMES.

    As on the page of all runs: a failure lasts until a later run ends well, and that of a run which
    was to write until a later one does that was to write.
    """
    well = written = False
    for one in overviews:
        ended = outcome_of(one)
        if ended == "failed" and not (well if one.dry_run else written):
            return ended
        well = well or ended != "failed"
        written = written or (ended != "failed" and not one.dry_run)
    return outcome_of(overviews[0])


def outcome_of(overview: Overview) -> str:
    """Return how a run ended, as one of OUTCOMES."""
    if overview.failed:
        return "failed"
    if overview.dry_run:
        return "dry_run"
    return "rejected" if overview.outcome.startswith("rejected") else "success"


def _of_volume(volume: _Volume, row: Row) -> None:
    last = row.mentioned if not row.older else row.seen and row.seen.source
    if last is not None:
        volume.add("kafkats_volume_timestamp_seconds", last.written_ms / 1000)
    if row.seen is not None:
        seen = row.seen.volume
        volume.add("kafkats_volume_bytes", seen.bytes or 0)
        volume.add("kafkats_volume_partitions", seen.partitions or 0)
        volume.add("kafkats_volume_segments", seen.segments or 0)
    for severity in ("damage", "danger"):
        for kind, count in row.kinds(severity).items():
            volume.add("kafkats_defects", count, severity=severity, kind=kind)
    for told in row.looks:
        if told.topics == "*" and (depth := told.volume.depth):
            at_ms = told.source.written_ms
            volume.add("kafkats_look_timestamp_seconds", at_ms / 1000, depth=depth)
    deleted = row.reclaimable.volume.reclaimable if row.reclaimable else None
    if deleted is not None:
        volume.add("kafkats_reclaimable_bytes", deleted.now_bytes)
        volume.add("kafkats_pinned_bytes", deleted.pinned_bytes)
    if row.formats is not None and row.formats.volume.is_whole:
        magics = row.formats.volume.magic_bytes or (0, 0, 0)
        old, every = sum(magics[:2]), sum(magics)
        volume.add("kafkats_old_magic_ratio", old / every if every else 0.0)
    volume.add("kafkats_undo_runs", len(row.undo))
    volume.add("kafkats_undo_bytes", row.undo_bytes())
    if row.undo:
        oldest = min(one.undo.ended_ms for one in row.undo)
        volume.add("kafkats_undo_oldest_timestamp_seconds", oldest / 1000)


def _of_partitions(volume: _Volume, row: Row, folder: Path) -> None:
    for one in partitions(row, folder):
        name = one.partition_dir
        volume.add("kafkats_partition_bytes", one.bytes, partition=name)
        volume.add("kafkats_partition_reclaimable_bytes", one.now_bytes, partition=name)
        volume.add("kafkats_partition_pinned_bytes", one.pinned_bytes, partition=name)
