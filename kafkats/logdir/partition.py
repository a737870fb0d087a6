"""List one partition directory: the files of each segment, and foreign files.

This module reads only names and `lstat`, never contents. So it works beside a running broker and
takes a few microseconds per file. Between listing and looking a broker may roll, clean or delete. A
file that disappears is a finding `vanished`. An index is reported as an orphan only after a second
look.

The names that stop a broker follow Kafka's LogLoader (before 3.0: Log). It parses the text before
the first dot of every `.log`, `.index`, `.timeindex`, `.txnindex`, `.snapshot`, `.cleaned` and
`.swap` as a number, and fails to load the partition otherwise. 0.10 and older parse fewer of these
names. All brokers remove `.deleted` files unread.
"""

from __future__ import annotations

import os
import re
import stat
import time
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

from kafkats import errors, paths
from kafkats.findings import Finding

PARTITION_FILES: Final = (paths.LEADER_EPOCH, paths.PARTITION_METADATA)
"""The files of a partition directory that belong to no segment."""

_NUMBER: Final = re.compile(r"[+-]?[0-9]{1,20}")
_PARSED_BY_KAFKA: Final = (*paths.SEGMENT_KINDS, ".cleaned", ".swap")
_KINDS: Final = frozenset(paths.SEGMENT_KINDS)
_LAST_BASE: Final = f"{2**63 - 1:020d}"
_OTHERS: Final = frozenset(name + end for name in PARTITION_FILES for end in ("", ".tmp"))


class FileFacts(NamedTuple):
    """The result of `lstat` for one regular file. Times are in ns since the epoch.

    `hole` are the bytes of its size that have no block on the disk.
    """

    name: str
    size: int
    mtime_ns: int
    ctime_ns: int
    inode: int
    mode: int
    uid: int
    gid: int
    hole: int


class SegmentFiles(NamedTuple):
    """The files of one segment by kind (`paths.SEGMENT_KINDS`), always including the `.log`."""

    base_offset: int
    files: dict[str, FileFacts]

    @property
    def log(self) -> FileFacts:
        return self.files[paths.LOG]


@dataclass(frozen=True)
class PartitionDir:
    """The contents of one partition directory.

    `name` is None for a copy whose directory is not named `topic-partition`. `segments` are sorted
    by base offset; the last is the active one. `others` are the remaining known files: epochs,
    metadata, snapshots between segment bases, files with a suffix, and indexes without a log.
    `file` in `findings` is a name in this directory.
    """

    path: Path
    name: paths.PartitionName | None
    segments: tuple[SegmentFiles, ...]
    others: tuple[FileFacts, ...]
    findings: tuple[Finding, ...]
    ctime_ns: int
    """The directory's ctime before it was listed. It changes with every name that comes or goes."""

    @property
    def files(self) -> dict[str, FileFacts]:
        """The files of all segments, and the others, by name."""
        ours = (file for segment in self.segments for file in segment.files.values())
        return {file.name: file for file in (*self.others, *ours)}


def scan_partition(path: str | os.PathLike[str]) -> PartitionDir:
    """List the partition directory at `path`.

    A file that cannot be examined is a finding. Raises Vanished, or another StorageFailed, when the
    directory itself cannot be listed.
    """
    folder = path if isinstance(path, Path) else Path(path)
    families: dict[str, dict[str, FileFacts]] = {}
    others: list[FileFacts] = []
    findings: list[Finding] = []
    links: set[str] = set()
    with opened(folder) as handle, os.scandir(handle) as entries:
        ctime_ns = os.fstat(handle).st_ctime_ns
        for entry in entries:
            facts = _regular(entry) or _look(entry, findings, links)
            if facts is None:
                continue
            name = facts.name
            base, kind = name[:20], name[20:]
            if kind in _KINDS and (base in families or is_base(base)):
                families.setdefault(base, {})[kind] = facts
                continue
            parsed = paths.parse_segment_file(name)
            if parsed is None or name[20:21] != ".":
                _judge_name(name, facts, others, findings)
            else:
                others.append(facts)
                findings.append(Finding("transient", name, _TRANSIENT[parsed.suffix]))
    segments = _segments(folder, families, links, others, findings)
    return PartitionDir(
        folder,
        paths.parse_partition(folder.name),
        segments,
        tuple(sorted(others)),
        tuple(sorted(findings)),
        ctime_ns,
    )


@contextmanager
def opened(folder: Path) -> Generator[int]:
    """Yield a handle of a partition directory: its entries are looked up in it, not by their paths.

    Raises Vanished, or another StorageFailed, for any error of the system inside the `with`, too.
    """
    with errors.storage(folder, "listing the partition directory"):
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            yield handle
        finally:
            os.close(handle)


def is_base(digits: str) -> bool:
    """Return whether these are the digits of a segment's base offset, of 20 characters."""
    return digits.isdecimal() and digits.isascii() and digits <= _LAST_BASE


def _regular(entry: os.DirEntry[str]) -> FileFacts | None:
    """Return the facts of a regular file, None for anything else."""
    try:
        st = entry.stat(follow_symlinks=False)
    except OSError:
        return None
    return file_facts(entry.name, st) if stat.S_ISREG(st.st_mode) else None


PAUSES: Final = (0.01, 0.03, 0.1, 0.3, 0.6, 1.0)
"""Seconds between looks at a directory that a running broker changes."""


def scan_at_rest(path: str | os.PathLike[str], *, live: bool) -> PartitionDir:
    """Scan a partition directory, again if a running broker rolls, deletes or swaps a segment.

    A state that persists is returned as it is. Raises as `scan_partition`.
    """
    for pause in PAUSES if live else ():
        try:
            partition = scan_partition(path)
        except errors.Vanished:  # created again meanwhile?
            if not Path(path).exists():
                raise
        else:
            if not any(_in_between(finding) for finding in partition.findings):
                return partition
        time.sleep(pause)
    return scan_partition(path)


def _in_between(finding: Finding) -> bool:
    return finding.kind in ("vanished", "orphan") or finding.file.endswith(".swap")


def log_bases(directory: Path) -> list[int]:
    """Return the sorted base offsets of the logs in a partition directory, links included.

    Raises Vanished, StorageFailed.
    """
    with errors.storage(directory, "listing the partition directory"):
        logs = {path.name: paths.parse_segment_file(path.name) for path in directory.iterdir()}
    return sorted(
        one.base_offset
        for name, one in logs.items()
        if one and name == paths.segment_file(one.base_offset)
    )


UNFINISHED: Final = "a broker has begun to replace segments here, and finishes it at its next start"


def unfinished_swaps(files: Iterable[str]) -> list[str]:
    """Return leftover `.cleaned` and `.swap` files: unfinished segment replacements of a broker."""
    return [file for file in files if file.endswith((".swap", ".cleaned"))]


def refuse_unfinished_swaps(partition: PartitionDir) -> None:
    """Raise Changed if a broker has begun to replace segments of the partition."""
    for name in unfinished_swaps(finding.file for finding in partition.findings):
        raise errors.Changed(UNFINISHED, path=partition.path / name)


def file_facts(name: str, st: os.stat_result) -> FileFacts:
    """Return `st` as FileFacts."""
    size = st.st_size
    hole = size - 512 * st.st_blocks
    return FileFacts(
        name,
        size,
        st.st_mtime_ns,
        st.st_ctime_ns,
        st.st_ino,
        st.st_mode,
        st.st_uid,
        st.st_gid,
        hole if hole > 0 else 0,  # quicker than max
    )


def printable(name: str) -> str:
    r"""Return `name` as encodable text: bytes that are not UTF-8 become `\xNN`."""
    return name if name.isascii() else os.fsencode(name).decode("utf-8", "backslashreplace")


def starts_with_number(name: str) -> bool:
    """Return whether Kafka's Long.parseLong accepts the text before the first dot."""
    digits = name.partition(".")[0]
    return bool(_NUMBER.fullmatch(digits)) and -(2**63) <= int(digits) < 2**63


_TRANSIENT: Final = {
    ".deleted": "a broker deletes it at its next start, or sooner",
    ".cleaned": "an unfinished cleaning: a broker deletes it at its next start",
    ".swap": "an unfinished swap: a broker completes it at its next start",
}


_NEEDED: Final = (paths.LOG, paths.TXN_INDEX)
"""Without these files consumers miss records or see aborted ones."""


def _leads_to_a_file(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_file()
    except OSError:
        return False


def _look(entry: os.DirEntry[str], findings: list[Finding], links: set[str]) -> FileFacts | None:
    """Return the facts of a regular file. Anything else becomes a finding."""
    try:
        st = entry.stat(follow_symlinks=False)
    except OSError as e:
        findings.append(gone_or_unreadable(entry.name, e))
        return None
    if stat.S_ISREG(st.st_mode):
        return file_facts(entry.name, st)
    name = printable(entry.name)
    if stat.S_ISLNK(st.st_mode):
        links.add(entry.name)
    segment = paths.parse_segment_file(entry.name)
    if segment and segment.kind in _NEEDED and not segment.suffix and not _leads_to_a_file(entry):
        findings.append(
            Finding(
                "unreadable", name, f"no regular file in the place of a segment's {segment.kind}"
            )
        )
    elif stat.S_ISLNK(st.st_mode):
        findings.append(
            Finding("stray", name, "a symbolic link: Kafka follows it, kafkats does not")
        )
    elif entry.name in PARTITION_FILES:
        findings.append(Finding("unreadable", name, "not a regular file"))
    elif stat.S_ISDIR(st.st_mode):
        findings.append(
            Finding("stray", name, "a directory inside a partition: brokers do not look at it")
        )
    else:
        findings.append(Finding("stray", name, "neither a file nor a directory"))
    return None


def gone_or_unreadable(name: str, error: OSError) -> Finding:
    """Return the finding for an entry that was listed but could not be examined."""
    if isinstance(error, FileNotFoundError):
        return Finding("vanished", printable(name), "was listed, and was gone a moment later")
    return Finding("unreadable", printable(name), error.strerror or str(error))


def _judge_name(
    name: str, facts: FileFacts, others: list[FileFacts], findings: list[Finding]
) -> None:
    """Classify a name that is not a segment's."""
    if name in _OTHERS:
        others.append(facts)
    elif name.endswith(_PARSED_BY_KAFKA) and not starts_with_number(name):
        reason = (
            f"{printable(name.partition('.')[0])!r} is not an offset: {_refusing(name)}"
            " with this name here"
        )
        findings.append(Finding("stops-the-broker", printable(name), reason))
    elif name.endswith(_PARSED_BY_KAFKA):
        findings.append(
            Finding(
                "stray", printable(name), "brokers write 20 digits: they would not read this file"
            )
        )
    elif name.endswith(".deleted"):
        findings.append(Finding("transient", printable(name), _TRANSIENT[".deleted"]))
    else:
        findings.append(Finding("stray", printable(name), "not a file that Kafka writes here"))


def _refusing(name: str) -> str:
    """Return which brokers do not start with a name without a number before the dot.

    Tried on six versions from 0.10.2 on.
    """
    if name.endswith(paths.LOG):
        return "no broker starts"
    return f"brokers from {'2.0' if name.endswith('.cleaned') else '1.1'} on do not start"


def _segments(
    folder: Path,
    families: dict[str, dict[str, FileFacts]],
    links: set[str],
    others: list[FileFacts],
    findings: list[Finding],
) -> tuple[SegmentFiles, ...]:
    """Return the families that have a log.

    Others go to `others`, and orphans to `findings` as well.
    """
    has_log = any(paths.LOG in files for files in families.values())
    segments = []
    for digits, files in sorted(families.items()):
        base = int(digits)
        if paths.LOG not in files and paths.segment_file(base) not in links:
            _look_again(folder, base, files, has_log, findings)
        if paths.LOG in files:
            segments.append(SegmentFiles(base, files))
        else:
            others.extend(files.values())
    return tuple(segments)


def _look_again(
    folder: Path, base: int, files: dict[str, FileFacts], has_log: bool, findings: list[Finding]
) -> None:
    """Look again for the unlisted log of `base`.

    It was created or deleted meanwhile, or is missing. A snapshot needs no segment of its own:
    brokers write one at each roll and one at the log end.
    """
    late = _facts_of(folder, paths.segment_file(base))
    if late is not None:
        files[paths.LOG] = late
        return
    for kind in [k for k in files if k != paths.SNAPSHOT or not has_log]:
        name = files[kind].name
        if _facts_of(folder, name) is None:
            del files[kind]
            findings.append(Finding("vanished", name, "was listed, and was gone a moment later"))
        else:
            findings.append(
                Finding(
                    "orphan", name, "there is no .log for it: a broker deletes it at its next start"
                )
            )


def _facts_of(folder: Path, name: str) -> FileFacts | None:
    try:
        st = (folder / name).lstat()
    except OSError:
        return None
    return file_facts(name, st) if stat.S_ISREG(st.st_mode) else None
