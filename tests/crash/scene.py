"""Seven small changesets, to be done on a real or a forgetful disk, and what may be true after a crash in them.

indexes   the .log stays: a .timeindex and an .index replaced, a missing .timeindex added
apart     the same with the work area on another file system
logs      one segment rewritten with its indexes, the next one removed
split     one segment cut: its head stays, what was behind becomes a new one, both too short for an .index
head      the same, and the head goes
cut       a .log cut in place, with its indexes, and another segment removed
torn      the same with the work area on another file system
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import NamedTuple

from kafkats.errors import storage
from kafkats.logdir.changeset import Outcome, commit
from kafkats.logdir.disk import Disk
from kafkats.logdir.identity import Attributes, FileIdentity
from kafkats.logdir.lease import Lease, claim
from kafkats.logdir.staging import Change, Remove, Replace, Truncate
from kafkats.logdir.workarea import WorkArea, site

PARTITION = "topic-0"
RUN = "run-1"
A, M, B = "00000000000000000000", "00000000000000000060", "00000000000000000100"
XATTRS = (("user.tier", b"hot"),)

LIVE = {
    f"{A}.log": b"old log of a",
    f"{A}.index": b"old index of a",
    f"{A}.timeindex": b"old time index of a",
    f"{A}.txnindex": b"",
    f"{B}.log": b"old log of b",
    f"{B}.index": b"old index of b",
    "leader-epoch-checkpoint": b"0\n0\n",
}
INDEXES = {
    f"{A}.timeindex": b"new time index of a",
    f"{A}.index": b"new index",
    f"{B}.timeindex": b"new time index of b",
}
LOGS = {
    f"{A}.log": b"new log of a",
    f"{A}.index": b"new index of a!",
    f"{A}.timeindex": b"new time index of a",
    f"{A}.txnindex": None,
    f"{B}.log": None,
    f"{B}.index": None,
}
SPLIT: dict[str, bytes | None] = {
    f"{A}.log": b"old log ",
    f"{A}.index": None,
    f"{A}.timeindex": b"new time index of a",
    f"{M}.log": b"of a",
}
HEAD: dict[str, bytes | None] = {
    **{name: None for name in LIVE if name.startswith(A)},
    f"{M}.timeindex": b"new time index of a",
    f"{M}.log": b"of a",
}
CUT: dict[str, bytes | None] = {
    f"{A}.log": b"old log ",
    f"{A}.index": b"new index of a!",
    f"{A}.timeindex": b"new time index of a",
    f"{A}.txnindex": None,
    f"{B}.log": None,
    f"{B}.index": None,
}
SCENES: dict[str, dict[str, bytes | None]] = {
    "indexes": dict(INDEXES),
    "apart": dict(INDEXES),
    "logs": LOGS,
    "split": SPLIT,
    "head": HEAD,
    "cut": CUT,
    "torn": dict(CUT),
}
CHANGE_LOGS = ("logs", "split", "head", "cut", "torn")
CUTS = ("cut", "torn")
APART = ("apart", "torn")


class Seen(NamedTuple):
    """All of a live file that undo must bring back, but for the inode."""

    data: bytes
    mtime_ns: int
    attributes: Attributes


def begin(
    scene: str, area: WorkArea, disk: Disk
) -> tuple[list[Change], dict[str, FileIdentity], Lease]:
    """Claim and stage."""
    lease = claim(area, PARTITION, RUN, disk=disk)
    directory = area.root / PARTITION
    changes: list[Change] = []
    for name, data in SCENES[scene].items():
        before = disk.identify(directory / name)
        if scene in CUTS and name == f"{A}.log" and before and data:
            changes.append(Truncate(name, before, len(data)))
        elif data is not None:
            with storage(lease.staged(name), "build the new file"):
                disk.write(lease.staged(name), data)
            changes.append(
                Replace(name, lease.staged(name), before, hashlib.sha256(data).hexdigest())
            )
        elif before is not None:
            changes.append(Remove(name, before))
    unchanged = {
        name: disk.identify(directory / name) for name in LIVE if name not in SCENES[scene]
    }
    return changes, {name: identity for name, identity in unchanged.items() if identity}, lease


def change(scene: str, area: WorkArea, disk: Disk) -> Outcome:
    """Claim, stage and commit."""
    changes, unchanged, lease = begin(scene, area, disk)
    return commit(area.root / PARTITION, changes, unchanged, lease, disk=disk)


def look(area: WorkArea, disk: Disk) -> dict[str, Seen]:
    """Every live file by name, our temporary ones left out."""
    seen = {}
    directory = area.root / PARTITION
    for name in disk.names(directory):
        identity = disk.identify(directory / name)
        if identity is not None and not (name.startswith(".kafkats-") and name.endswith(".tmp")):
            seen[name] = Seen(
                disk.read(directory / name), identity.mtime_ns, disk.attributes(directory / name)
            )
    return seen


def new_bytes(scene: str) -> dict[str, bytes]:
    """What is live after the commit."""
    return {name: data for name, data in {**LIVE, **SCENES[scene]}.items() if data is not None}


def check_never_stale(scene: str, area: WorkArea, disk: Disk) -> None:
    """What must hold at every moment, and after every crash.

    Every file is the old one, or the new one, or, when a .log changes, a missing index; none is torn. And no index
    lies beside the other .log than its own.
    """
    live = {name: seen.data for name, seen in look(area, disk).items()}
    for name in {*LIVE, *SCENES[scene]}:
        old, new = LIVE.get(name), SCENES[scene].get(name, LIVE.get(name))
        allowed = (
            [old, new, None] if scene in CHANGE_LOGS and name.endswith("index") else [old, new]
        )
        if scene in CUTS and name == f"{A}.log" and not _is_torn(live[name], old):
            continue  # while its tail comes back, its indexes are gone
        assert live.get(name) in allowed, f"{name} is {live.get(name)!r}"
    assert live.keys() <= {*LIVE, *SCENES[scene]}
    if scene not in CHANGE_LOGS:
        return
    if scene == "split":
        assert (
            live[f"{A}.log"][:8] + live.get(f"{M}.log", live[f"{A}.log"][8:]) == b"old log of a"
        ), "records are gone"
    if scene == "head":
        assert live.get(f"{A}.log", b"old log ")[8:] + live.get(f"{M}.log", b"") in (
            b"of a",
            b"of aof a",
        ), "records are gone"
    for base in (A, M, B):
        log = live.get(f"{base}.log")
        for kind in (".index", ".timeindex", ".txnindex"):
            index = live.get(base + kind)
            side = LIVE if log == LIVE.get(f"{base}.log") else {**LIVE, **SCENES[scene]}
            assert index is None or index == side.get(base + kind), (
                f"stale {base}{kind}: {index!r} beside {log!r}"
            )


def _is_torn(log: bytes, old: bytes | None) -> bool:
    """Return whether a log is not one that a kill or a power failure can leave of a cut or its undo."""
    tail = (old or b"")[8:].ljust(len(log) - 8, b"\0")
    return log[:8] != b"old log " or any(
        a not in (0, b) for a, b in zip(log[8:], tail, strict=False)
    )


def check_nothing_lost(scene: str, area: WorkArea, disk: Disk) -> None:
    """Every old file is live, or kept for undo."""
    live = look(area, disk)
    place = site(area, PARTITION, RUN)
    there = {*disk.names(place.undo), *disk.names(place.directory)}
    for name in SCENES[scene]:
        if scene in CUTS and name == f"{A}.log":
            tails = [one for one in disk.names(place.run) if one.startswith("tail-")]
            saved = [
                disk.read(place.run / one / name)
                for one in tails
                if name in disk.names(place.run / one)
            ]
            assert live[name].data == LIVE[name] or LIVE[name][8:] in saved, "a tail is lost"
            continue
        if name in LIVE and live.get(name, Seen(b"-", 0, None)).data != LIVE[name]:  # type: ignore[arg-type]
            assert place.kept(name).name in there, f"the old {name} is lost"
            assert disk.read(place.kept(name)) == LIVE[name]


def folder(area: WorkArea) -> Path:
    return area.root / PARTITION
