"""The volumes of a run, by the connection that reaches them.

Volumes that differ in `owner_stopped` or `work_area` are in separate groups. So are volumes of
different brokers, in DAGs that handle one broker at a time.
"""

from __future__ import annotations

import fnmatch
import json
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import suppress
from functools import partial
from itertools import product
from pathlib import Path
from typing import Final, NamedTuple

from kafkats.config.policy import Volume
from kafkats.errors import KafkatsError, UsageError
from kafkats_airflow import checks
from kafkats_airflow.forms.values import RunParams
from kafkats_airflow.runs.folders import readable, with_digest

_LONGEST: Final = 200


class Group(NamedTuple):
    """The volumes of one application. `broker` is "" if the DAG does not separate brokers."""

    connection: str
    broker: str
    stopped: bool
    work_area: str
    """Where undo material goes; "" for beside each log directory."""
    log_dirs: list[str]
    name: str
    """Names its folder: no other group of the policy has the same."""


Key = tuple[str, str, bool, str]
"""Connection, broker, owner_stopped, work_area: what tells groups apart."""


class Named(NamedTuple):
    """A volume as files of runs name it. `label` is its path; where another volume of the policy
    has the same path, also its broker. `name` is that in the policy, "" without one.
    """

    label: str
    broker: str
    name: str
    connection: str
    path: str


def named(volumes: Sequence[Volume]) -> list[Named]:
    """Return the volumes of a policy with labels that tell them apart."""
    paths = Counter(str(one.path) for one in volumes)
    brokers = Counter((str(one.path), one.broker) for one in volumes)
    found = []
    for one in volumes:
        path, broker = str(one.path), one.broker
        if (not broker and paths[path] > 1) or brokers[path, broker] > 1:
            broker = " ".join(filter(None, [broker, f"by {one.connection}"]))
        label = path if paths[path] == 1 else labelled(path, broker)
        found.append(Named(label, broker, one.name or "", one.connection, path))
    return found


def labelled(path: str, broker: str) -> str:
    """Return the label of a volume whose path another one has, too."""
    return f"{path} (broker {broker})"


def path_of(label: str, broker: str) -> str:
    """Return the path in a label."""
    return label.removesuffix(labelled("", broker)) if broker else label


def by_group(params: RunParams) -> dict[str, dict[str, Named]]:
    """Return {group: {path: volume}} of the run's policy, for every way to group volumes; {} for a
    run without one.

    Raises as `groups_of`.
    """
    found: dict[str, dict[str, Named]] = {}
    if "policy" not in params:
        return found
    volumes = checks.policy_of(params).volumes
    for by_broker, writes in product((True, False), repeat=2):
        keys = [_key_of(one, by_broker=by_broker, writes=writes) for one in volumes]
        names = _names(dict.fromkeys(keys))
        for key, one in zip(keys, named(volumes), strict=True):
            found.setdefault(names[key], {})[one.path] = one
    return found


def volumes_at(params: RunParams, connection: str) -> dict[str, Named]:
    """Return {path: volume} of the run's policy on a connection. Raises as `groups_of`."""
    every = named(checks.policy_of(params).volumes)
    return {one.path: one for one in every if one.connection == connection}


def groups_of(params: RunParams, *, by_broker: bool = False, writes: bool = True) -> list[Group]:
    """Group the volumes of the run into applications; `writes`: also by owner_stopped and
    work_area.

    Raises UsageError if the policy cannot be read or has no such volume.
    """
    key_of = partial(_key_of, by_broker=by_broker, writes=writes)
    volumes = checks.policy_of(params).volumes
    names = _names(dict.fromkeys(map(key_of, volumes)))
    groups: dict[Key, Group] = {}
    for volume in _chosen(volumes, listed(params["volumes"])):
        key = key_of(volume)
        groups.setdefault(key, Group(*key, [], names[key])).log_dirs.append(str(volume.path))
    return list(groups.values())


def _key_of(volume: Volume, *, by_broker: bool, writes: bool) -> Key:
    area = str(volume.work_area) if writes and volume.work_area else ""
    broker = volume.broker if by_broker else ""
    return volume.connection, broker, writes and volume.owner_stopped, area


def chosen_volumes(params: RunParams) -> list[Named]:
    """Return the volumes of the run; all of the policy if the form has no `volumes`.

    Raises as `groups_of`.
    """
    volumes = checks.policy_of(params).volumes
    chosen = _chosen(volumes, listed(params.get("volumes")))
    every = zip(volumes, named(volumes), strict=True)
    return [one for volume, one in every if any(volume is other for other in chosen)]


def labels_of(params: RunParams, place: Path) -> dict[str, str]:
    """Return {path: label} of an application, of the paths that other volumes have, too.

    `place` lies in the folder of the application. A policy that cannot be read
    labels nothing: a task fails with its own words.
    """
    with suppress(KafkatsError):
        found = by_group(params).get(place.parent.name, {})
        return {path: one.label for path, one in found.items() if one.label != path}
    return {}


def listed(given: Sequence[str] | None) -> list[str]:
    """Return the words of a list param. A form gives None, or an empty line for a removed word."""
    return [word for line in given or [] if (word := line.strip())]


def _names(keys: Iterable[Key]) -> dict[Key, str]:
    """Name a folder for each key. A name gets a digest if it is not unique or not a safe path."""

    def text(key: Key) -> str:
        return "-".join(filter(None, [key[0], key[1], "owner-stopped" if key[2] else "", key[3]]))

    every = list(keys)
    read = [readable(text(key)) for key in every]
    plain = [
        name
        for name in read
        if read.count(name) == 1 and not name.startswith(".") and len(name) <= _LONGEST
    ]
    return {
        key: name if name in plain else with_digest(text(key), json.dumps(key))
        for key, name in zip(every, read, strict=True)
    }


def _chosen(volumes: Sequence[Volume], wanted: Sequence[str]) -> list[Volume]:
    """Return the volumes whose path or broker matches one of the globs; all without a glob."""

    def matches(volume: Volume, glob: str) -> bool:
        return fnmatch.fnmatchcase(str(volume.path), glob) or fnmatch.fnmatchcase(
            volume.broker, glob
        )

    for glob in wanted:
        if not any(matches(volume, glob) for volume in volumes):
            raise UsageError(f"no volume of the policy has a path or broker like {glob!r}")
    chosen = [v for v in volumes if not wanted or any(matches(v, glob) for glob in wanted)]
    if not chosen:
        raise UsageError("the policy has no volumes")
    return chosen
