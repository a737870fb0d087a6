"""The identities of a plan's log directories: `volumes.json` in the folders of a plan and its run.

A plan may be applied on another day, by another host. The digest does not cover the file: it
approves changes, and identities only refuse. A folder without the file, as of an earlier kafkats,
still refuses a log directory that is empty or missing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from pydantic import ConfigDict, TypeAdapter

from kafkats.errors import Refused, exists
from kafkats.logdir.volume import Volume, check_mounted, check_volume, volume_at, volumes_at
from kafkats.paths import META_PROPERTIES
from kafkats.plans.files import read_json, typed, write_json

VOLUMES: Final = "volumes.json"
_STRICT: Final = ConfigDict(strict=True)


def note_volumes(folder: Path, log_dirs: Iterable[str]) -> None:
    """Write the identities of these log directories into a folder. Raises StorageFailed."""
    write_volumes(folder, volumes_at(log_dirs))


def write_volumes(folder: Path, volumes: Mapping[str, Volume]) -> None:
    """Write identities by path, if there are any. Raises StorageFailed."""
    path = folder / VOLUMES
    if volumes or exists(path, "looking for identities of volumes"):
        write_json(path, {log_dir: volume._asdict() for log_dir, volume in volumes.items()})


def read_volumes(folder: Path) -> dict[str, Volume]:
    """Return the identities in a folder of a plan or a run, {} without any.

    Raises CorruptPlan, StorageFailed.
    """
    path = folder / VOLUMES
    if not exists(path, "looking for identities of volumes"):
        return {}
    return typed(read_json(path), TypeAdapter(dict[str, Volume], config=_STRICT), path)


def check_volumes(folder: Path, log_dirs: Iterable[str]) -> None:
    """Raise Refused unless these are the log directories that the plan or run in `folder` saw.

    Nothing is written or locked. Raises CorruptPlan, StorageFailed.
    """
    for refusal in other_volumes(folder, log_dirs).values():
        raise refusal


def other_volumes(folder: Path, log_dirs: Iterable[str]) -> dict[str, Refused]:
    """Return the log directories that are not what the plan or run in `folder` saw, and why.

    A directory that has lost its meta.properties is known by its path (`unidentified`). Other
    paths are left to whoever opens them. Raises as `check_volumes` otherwise.
    """
    listed = read_volumes(folder)
    found = {}
    for log_dir in log_dirs:
        if not Path(log_dir).is_absolute() or "\0" in log_dir:
            continue
        try:
            check_mounted(log_dir)
            if volume_at(log_dir) is not None:
                check_volume(log_dir, listed)
        except Refused as e:
            found[log_dir] = e
    return found


def unidentified(folder: Path, log_dirs: Iterable[str]) -> list[str]:
    """Return a remark for each log directory that has lost what identified it for a plan or run.

    Raises CorruptPlan, StorageFailed.
    """
    listed = read_volumes(folder)
    return [
        f"{log_dir}: has no readable {META_PROPERTIES}, and goes by its path; before it was"
        f" {listed[log_dir]}"
        for log_dir in log_dirs
        if log_dir in listed and "\0" not in log_dir and volume_at(log_dir) is None
    ]
