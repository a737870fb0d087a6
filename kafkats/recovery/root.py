"""Predict what a broker finds in its log directories before it loads a partition.

    names              a directory that is not named like a partition stops it
    .lock              held by another process: it stops
    meta.properties    of another cluster or node, or different in two log directories: it stops
    checkpoints        unreadable: they count as empty, or the log directory goes offline
    the marker         its broker epoch is what the controller is told (3.7 and later)

Source: LogManager, MetaPropertiesEnsemble, before 3.7 BrokerMetadataCheckpoint.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from kafkats import paths
from kafkats.errors import BadInput, Vanished
from kafkats.findings import Finding
from kafkats.logdir.lock import lock_state
from kafkats.logdir.properties import MetaProperties, read_clean_shutdown
from kafkats.logdir.root import LogDir, RootNames, list_root, read_root
from kafkats.recovery.checkpoints import OFFSETS, read_failure
from kafkats.recovery.facts import RootStart
from kafkats.recovery.rules import StartRule
from kafkats.recovery.words import (
    bad_directory,
    held_lock,
    inconsistent,
    wrong_cluster,
    wrong_node,
)


class Expected(NamedTuple):
    """The broker's configuration: its cluster and its node, "" and None if not given."""

    cluster_id: str = ""
    node_id: int | None = None


class Looked(NamedTuple):
    """One log directory: the contents, and the prediction."""

    root: LogDir
    names: RootNames
    start: RootStart


def look_at_root(path: Path, rule: StartRule) -> Looked:
    """Return one log directory by itself. Raises Vanished, StorageFailed."""
    names = list_root(path)
    root = read_root(path, names)
    lock = lock_state(path).state
    live = lock == "held"
    meta = root.meta
    start = RootStart(
        str(path),
        "loads",
        live=live,
        clean=root.clean_shutdown and not live,
        marker_epoch=_marker_epoch(path, rule) if root.clean_shutdown else None,
        cluster_id=(meta and meta.cluster_id) or "",
        node_id=meta.node_id if meta else None,
        directory_id=(meta and meta.directory_id) or "",
        findings=root.findings,
    )
    stops = [bad_directory(str(path / f.file), f.file) for f in root.findings if _stops(f)]
    stops += [
        bad_directory(str(path / name), name)
        for name in names.partitions
        if (parsed := paths.parse_partition(name))
        and parsed.state
        and parsed.state not in rule.states
    ]
    stops += _unreadable_properties(root, names)
    stops += [held_lock(str(path))] if lock == "shared" else []
    if stops:
        return Looked(root, names, replace(start, outcome="stops", words=tuple(stops)))
    return Looked(root, names, _with_checkpoints(start, path, names, rule))


def _stops(finding: Finding) -> bool:
    return finding.kind == "stops-the-broker"


def _marker_epoch(path: Path, rule: StartRule) -> int | None:
    if not rule.marker_epoch:
        return None
    try:
        return read_clean_shutdown(path / paths.CLEAN_SHUTDOWN)
    except (BadInput, Vanished):
        return None


def _unreadable_properties(root: LogDir, names: RootNames) -> list[str]:
    if root.meta is not None or paths.META_PROPERTIES not in names.files:
        return []
    reasons = [f.reason for f in root.findings if f.file == paths.META_PROPERTIES]
    return [f"{root.path / paths.META_PROPERTIES}: {reason}" for reason in reasons]


def _with_checkpoints(start: RootStart, path: Path, names: RootNames, rule: StartRule) -> RootStart:
    """Return `start` with what unreadable checkpoints do."""
    words, fails = [], False
    for name in paths.OFFSET_CHECKPOINTS:
        failure = read_failure(rule, path / name, OFFSETS) if name in names.files else None
        if failure is not None:
            words.append(f"Error while reading checkpoint file {path / name}: {failure.words}")
            fails |= not failure.bad_number and rule.checkpoint != "empty"
    return replace(start, outcome="offline" if fails else "loads", words=tuple(words))


def words_of_all(roots: Sequence[Looked], rule: StartRule, expected: Expected) -> list[str]:
    """Return why the broker does not start, from what its log directories say together."""
    metas = [(str(one.root.path), one.root.meta) for one in roots if one.root.meta]
    words = _differing(metas, rule)
    for path, meta in metas:
        file = f"{path}/{paths.META_PROPERTIES}"
        if expected.cluster_id and meta.cluster_id not in (None, expected.cluster_id):
            words += wrong_cluster(rule, file, expected.cluster_id, str(meta.cluster_id))
        if expected.node_id is not None and meta.node_id not in (None, expected.node_id):
            words += wrong_node(rule, file, expected.node_id, meta.node_id)
    return words


def _differing(metas: Sequence[tuple[str, MetaProperties]], rule: StartRule) -> list[str]:
    if len(metas) < 2:
        return []
    words: list[str] = []
    first = metas[0][1]
    directories: dict[str, str] = {}
    for path, meta in metas:
        file = f"{path}/{paths.META_PROPERTIES}"
        if (meta.cluster_id, meta.node_id) != (first.cluster_id, first.node_id):
            words += inconsistent(rule, file, first, meta)
        if rule.marker_epoch and meta.directory_id:
            before = directories.setdefault(meta.directory_id, path)
            if before != path:
                words.append(
                    f"Duplicate directory ID {meta.directory_id} found. It was the ID of {before},"
                    f" but also of {path}"
                )
    return words


def told_epoch(roots: Sequence[Looked], rule: StartRule) -> int:
    """Return the broker epoch that the controller is told, -1 for an unclean stop.

    All log directories must have a marker with the same epoch.
    """
    if not rule.marker_epoch or any(one.start.live for one in roots):
        return -1
    epochs = {one.start.marker_epoch for one in roots}
    if len(epochs) != 1 or any(one.start.outcome != "loads" for one in roots):
        return -1
    found = epochs.pop()
    return -1 if found is None else found
