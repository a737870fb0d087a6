"""The scenes on a forgetful disk, stopped at every moment."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from kafkats.logdir.changeset import purge, resume, undo
from kafkats.logdir.identity import Attributes
from kafkats.logdir.workarea import WorkArea
from tests.crash.forgetful import Content, ForgetfulDisk, Inode
from tests.crash.scene import (
    APART,
    LIVE,
    PARTITION,
    RUN,
    XATTRS,
    Seen,
    change,
    folder,
    look,
    new_bytes,
)

Act = Callable[[ForgetfulDisk], object]


def make(scene: str) -> tuple[ForgetfulDisk, WorkArea]:
    """The counterpart of `real.make_area`."""
    disk, root = ForgetfulDisk(), Path("/data/kafka-logs")
    for path in (root.parent, root, root / PARTITION):
        disk.make_dir(path)
    for i, (name, data) in enumerate(LIVE.items()):
        content = Content(data, 10**17 + i, Attributes(0o640 if i % 2 else 0o604, 7, 8, XATTRS))
        disk._name(root / PARTITION / name, disk._new(Inode(content)))
    disk.sync_all()
    return disk, WorkArea(root, Path("/data/.kafkats/kafka-logs"), scene not in APART, 0o750, 7, 8)


def acts(scene: str, area: WorkArea) -> dict[str, Act]:
    """What is done, by name, in the order in which it can be done."""
    return {
        "commit": lambda disk: change(scene, area, disk),
        "undo": lambda disk: undo(area, PARTITION, RUN, disk=disk),
        "purge": lambda disk: purge(area, PARTITION, RUN, disk=disk),
    }


def moments(disk: ForgetfulDisk, act: Act) -> list[ForgetfulDisk]:
    """The disk as it is before each effect of `act`, and after the last one: what kill -9 would leave there."""
    found = []
    running = disk.snapshot()
    running.before_effect = lambda *_: found.append(running.snapshot())
    act(running)
    return [*found, running.snapshot()]


def effects(disk: ForgetfulDisk, act: Act) -> list[str]:
    """The effects of `act`, in words."""
    found: list[str] = []
    running = disk.snapshot()
    running.before_effect = lambda verb, *paths: found.append(in_words(Path("/data"), verb, *paths))
    act(running)
    return found


def in_words(base: Path, verb: str, *paths: Path) -> str:
    """An effect with its paths made short and the same on every disk."""
    places = {
        "live": base / "kafka-logs" / PARTITION,
        "run": base / ".kafkats/kafka-logs" / PARTITION / "runs" / RUN,
        "partition": base / ".kafkats/kafka-logs" / PARTITION,
        "area": base / ".kafkats",
        "parent": base,
    }
    short = []
    for path in paths:
        name, near = next(
            (name, place) for name, place in places.items() if path.is_relative_to(place)
        )
        short.append(
            name if path == near else f"{name}/{path.relative_to(near)}".replace("0" * 17, "…")
        )
    return f"{verb.replace('_', ' ')} {' -> '.join(short)}"


def finishes(scene: str, area: WorkArea, disk: ForgetfulDisk, before: dict[str, Seen]) -> None:
    """From here, a rerun completes the change, and undo brings back what was there, directly or after the rerun."""
    direct = disk.snapshot()
    undo(area, PARTITION, RUN, disk=direct)
    assert look(area, direct) == before
    if resume(area, PARTITION, RUN, disk=disk).state == "nothing":
        change(scene, area, disk)
    assert {name: seen.data for name, seen in look(area, disk).items()} == new_bytes(scene)
    undo(area, PARTITION, RUN, disk=disk)
    assert look(area, disk) == before
    assert disk.names(folder(area)) == sorted(before)
