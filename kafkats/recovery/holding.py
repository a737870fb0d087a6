"""Decide before a broker's start whether it is held back, from what its log directories show.

Pure: nothing is read here. `kafkats.recovery.before` collects the facts.

    other-broker      the directory belongs to another cluster or node: the broker would refuse it,
                      or serve and delete another broker's records
    absent            there is no directory, and a record of ours says that it had partitions
    emptied           it is empty, and a record of ours says that it had partitions
    lacks-partitions  its checkpoints name partitions whose directories are gone
    sets-aside        4.0 and later take the partitions of a cluster with ZooKeeper for foreign ones
    will-not-start    preflight predicts that the broker does not start
    loses-records     the start loses records that files name, below or above the high watermark

A broker makes an absent directory again, serves empty logs, and as a leader makes its followers
truncate theirs. The first five are held by default. A new broker, an added disk and a replaced one
start: nothing says that their directories had partitions.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Final, Literal, NamedTuple, get_args

from kafkats.counts import counted

Kind = Literal[
    "other-broker", "absent", "emptied", "lacks-partitions", "sets-aside", "will-not-start",
    "loses-records",
]  # fmt: skip
KINDS: Final[tuple[Kind, ...]] = get_args(Kind)
DEFAULT: Final = KINDS[:5]
NONE: Final = "none"
ALL_DEFAULT: Final = "default"
HOLD_WORDS: Final = (*KINDS, ALL_DEFAULT, NONE)
"""What --hold takes."""
_NAMED: Final = 5
"""Partitions that a sentence names."""


class Held(NamedTuple):
    """A finding about a log directory, "" for the broker as a whole, and what to do about it."""

    kind: Kind
    log_dir: str
    reason: str
    remedy: str = ""


class Disk(NamedTuple):
    """The file system of a log directory: its mount point, and what tells it from others.

    `fsid` is the id that statvfs gives it, 0 where that is not the file system's own. `uuid` is
    "" where it is not known. `root` is the directory of the file system that is mounted.
    """

    mount: str
    fsid: int
    uuid: str = ""
    root: str = "/"


class Noted(NamedTuple):
    """A log directory at an earlier start, as our record has it."""

    partitions: int
    cluster: str | None
    node: int | None
    directory: str | None
    disk: Disk | None
    record: str
    """The file of the record."""


class Root(NamedTuple):
    """A log directory before a start.

    `partitions` counts its partition directories. `missing` are partitions whose directories are
    gone though the checkpoints name them. `metadata_only`: it is KRaft's own. `set_aside` counts
    partitions that the broker takes for foreign ones. `unread`: what it has is not known.
    """

    log_dir: str
    state: Literal["there", "empty", "absent", "unread"]
    partitions: int = 0
    cluster: str | None = None
    node: int | None = None
    directory: str | None = None
    has_meta: bool = False
    has_checkpoints: bool = False
    missing: tuple[str, ...] = ()
    metadata_only: bool = False
    set_aside: int = 0
    disk: Disk | None = None


class Owner(NamedTuple):
    """The broker that will start, as its configuration names it; None for what it does not say."""

    cluster: str | None = None
    node: int | None = None


def holds(roots: Sequence[Root], owner: Owner, noted: Mapping[str, Sequence[Noted]]) -> list[Held]:
    """Return the findings about log directories. `noted` has the records by log directory."""
    found = [*_other_brokers(roots, owner)]
    disks = [one.disk for ones in noted.values() for one in ones if one.disk is not None]
    for root in roots:
        known = [one for one in noted.get(root.log_dir, ()) if one.partitions]
        lost = next((one for one in known if _is_gone(root, one, disks)), None)
        if lost is not None:
            found.append(_gone(root, lost))
        elif root.missing:
            found.append(_lacking(root))
        if root.set_aside:
            found.append(_setting_aside(root))
    return found


def not_named(
    roots: Sequence[Root], noted: Mapping[str, Sequence[Noted]], named: Collection[str]
) -> list[tuple[str, Noted]]:
    """Return this broker's log directories with partitions that a record names and nobody else.

    `named` are the paths of the others, by whatever links. These hold no start: a disk may be taken
    out of log.dirs.
    """
    own = {(root.cluster, root.node) for root in roots if root.node is not None}
    return [
        (log_dir, one)
        for log_dir, found in noted.items()
        for one in found[:1]
        if log_dir not in named and one.partitions and (one.cluster, one.node) in own
    ]


def of_kinds(found: Iterable[Held], hold: Collection[str]) -> list[Held]:
    """Return the findings that hold the start back."""
    return [one for one in found if one.kind in hold]


def hold_words(words: Sequence[str]) -> tuple[Kind, ...]:
    """Return the kinds that --hold names, the default ones without any word.

    Raises ValueError for an unknown word.
    """
    unknown = [word for word in words if word not in HOLD_WORDS]
    if unknown:
        raise ValueError(f"{unknown[0]!r} is none of {', '.join(HOLD_WORDS)}")
    if NONE in words and len(set(words)) > 1:
        raise ValueError(f"{NONE!r} excludes other words")
    named = {*words, *(DEFAULT if ALL_DEFAULT in words or not words else ())}
    return tuple(kind for kind in KINDS if kind in named)


def _other_brokers(roots: Sequence[Root], owner: Owner) -> Iterator[Held]:
    """Yield log directories of another cluster or node than the configuration's, or the others'."""
    clusters = [root.cluster for root in roots if root.cluster]
    cluster = owner.cluster or max(clusters, key=clusters.count, default=None)
    for root in roots:
        if root.node is not None and owner.node is not None and root.node != owner.node:
            what = f"node {root.node}, and this is node {owner.node}"
        elif root.cluster and root.cluster != cluster:
            what = f"cluster {root.cluster}, and this is cluster {cluster}"
        else:
            continue
        yield Held(
            "other-broker",
            root.log_dir,
            f"its meta.properties names {what}: mount the broker's own disk here",
        )


def _is_gone(root: Root, noted: Noted, disks: Collection[Disk]) -> bool:
    """Return whether a log directory lacks all of what a record says that it had.

    A disk that was replaced is another file system at the same mount point, or was formatted with
    a new directory id. `disks` are all that records name.
    """
    if root.partitions or root.metadata_only or root.state == "unread":
        return False
    if root.state == "absent":
        return not _is_replaced(root.disk, noted.disk, disks)
    if root.has_checkpoints:
        return False  # its broker has deleted or moved every partition
    if root.has_meta:
        return root.directory is not None and root.directory == noted.directory
    return not _is_replaced(root.disk, noted.disk, disks)


def _is_replaced(now: Disk | None, was: Disk | None, disks: Collection[Disk]) -> bool:
    """Return whether a new file system is mounted where the noted one was.

    A mount that failed leaves the directory below, on another mount. In a container it leaves the
    mount point, with a folder of the host's own file system. A file system that a record names
    elsewhere is not new: the disks have been swapped.
    """
    if now is None or was is None or now.mount != was.mount or now.mount == "/" or now.root != "/":
        return False
    elsewhere = (disk for disk in disks if disk.mount != now.mount)
    return _differs(now, was) and all(_differs(now, disk) for disk in elsewhere)


def _differs(now: Disk, was: Disk) -> bool:
    """Return whether these are certainly two file systems."""
    if now.uuid and was.uuid:
        return now.uuid != was.uuid
    return now.fsid not in (0, was.fsid)


def _gone(root: Root, noted: Noted) -> Held:
    kind: Kind = "absent" if root.state == "absent" else "emptied"
    what = "there is no such directory" if kind == "absent" else "it has no partition"
    reason = (
        f"{what}, and it had {counted(noted.partitions, 'partition')} before: is its disk mounted?"
        " A broker would serve empty logs"
    )
    remedy = f"if they are meant to be gone, delete {noted.record}, or {_start_once(kind)}"
    return Held(kind, root.log_dir, reason, remedy)


def _lacking(root: Root) -> Held:
    names = ", ".join(root.missing[:_NAMED])
    more = len(root.missing) - _NAMED
    rest = f" and {more} more" if more > 0 else ""
    return Held(
        "lacks-partitions",
        root.log_dir,
        f"its checkpoints name {counted(len(root.missing), 'partition')} whose"
        f" {'directory is' if len(root.missing) == 1 else 'directories are'} gone: {names}{rest}."
        " A broker would begin empty logs: put the directories back, or let other replicas lead",
        "if you moved them out yourself, to fetch them from their leaders,"
        f" {_start_once('lacks-partitions')}",
    )


def _setting_aside(root: Root) -> Held:
    return Held(
        "sets-aside",
        root.log_dir,
        "its meta.properties is of a cluster with ZooKeeper: 4.0 and later set its"
        f" {counted(root.set_aside, 'partition')} aside as -stray, and serve empty logs",
        "migrate the cluster to KRaft with 3.9 first: kafkats help kafka-4",
    )


def _start_once(kind: Kind) -> str:
    return f"start once with --hold {','.join(one for one in DEFAULT if one != kind)}"
