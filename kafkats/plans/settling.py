"""Look at files beside a running broker, and check the result against a listing of the same moment.

A broker rolls, deletes and replaces segments while they are read. An alarm counts only if the
listing is still valid after the look. Otherwise the directory is listed and looked at again, a
limited number of times.

`settled` is for one unit. Searches list a partition directory themselves and use `logdir.steady`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, Generic, NamedTuple, TypeVar

from kafkats import paths
from kafkats.errors import KafkatsError, Vanished
from kafkats.findings import DEFECTS, Finding
from kafkats.logdir.partition import PAUSES
from kafkats.logdir.steady import ctime_ns
from kafkats.plans.facts import directory_row, with_findings
from kafkats.plans.rows import SegmentRow
from kafkats.plans.units import Unit, list_again

T = TypeVar("T")

_Places = dict[tuple[str, str], int]
"""The inode of an alarm's file by (kind, file), -1 without one."""
_KEPT_CHANGING: Final = (
    "but the directory changed during every look: look again when its broker is less busy"
)


class Settled(NamedTuple, Generic[T]):
    """The result of a look, and its listing.

    `gone`: a running broker has deleted or replaced the segment or directory meanwhile.
    """

    unit: Unit
    seen: T
    findings: tuple[Finding, ...]
    gone: bool = False


def settled(unit: Unit, look: Callable[[Unit], tuple[T, Sequence[Finding]]]) -> Settled[T]:
    """Look at `unit`, again while there are alarms and its listing has changed meanwhile.

    An alarm is a finding of damage or danger, or `vanished`. Beside a running broker it counts when
    it comes twice in a row for the same listing. If the directory changes during every look, an
    alarm counts when all looks raised it for one unchanged file; others become `transient`. Raises
    what `look` raises.
    """
    seen, findings = look(unit)
    if not findings:
        return Settled(unit, seen, ())
    constant, confirmed = _places(unit, findings), not unit.live
    for pause in PAUSES:
        alarms = _places(unit, findings)
        if not alarms or not unit.partition_dir:
            return Settled(unit, seen, tuple(findings))
        now = _listed_now(unit)
        if now is None:
            return Settled(unit, seen, (_vanished(unit),), gone=unit.live)
        same = _moment(now) == _moment(unit)
        if same and confirmed:
            return Settled(unit, seen, tuple(findings))
        time.sleep(pause)
        unit = now if same else _listed_now(unit) or now
        seen, findings = look(unit)
        held = _places(unit, findings)
        constant = {key: inode for key, inode in constant.items() if held.get(key) == inode}
        confirmed = not unit.live or (same and held == alarms)
    return Settled(unit, seen, tuple(_softened(f, constant) for f in findings))


def settled_row(
    unit: Unit,
    of_segment: Callable[[Unit], tuple[SegmentRow, Sequence[Finding]]],
    of_directory: Callable[[Unit], Sequence[Finding]],
) -> list[SegmentRow]:
    """Return the row of facts.SEGMENTS of a unit, none for a directory without findings."""
    if unit.base_offset >= 0:
        _, row, findings, _ = settled(unit, of_segment)
        return [with_findings(row, findings)]
    _, _, findings, _ = settled(unit, lambda now: (None, of_directory(now)))
    return [directory_row(unit.log_dir, unit.partition_dir, findings)] if findings else []


def _places(unit: Unit, findings: Sequence[Finding]) -> _Places:
    alarms = (f for f in findings if f.severity in DEFECTS or f.kind == "vanished")
    return {(f.kind, f.file): _inode(unit.directory / f.file) for f in alarms}


def _listed_now(unit: Unit) -> Unit | None:
    """Return the same unit as listed now, None when it is gone.

    Returns `unit` itself if its directory has not changed.
    """
    try:
        if not unit.live and ctime_ns(unit.directory) == unit.directory_ctime_ns:
            return unit if _same_files(unit) else _found(unit)
        return _found(unit)
    except Vanished:
        return None
    except KafkatsError:  # cannot be listed: the result of the look stands
        return unit


def _found(unit: Unit) -> Unit | None:
    return next((one for one in list_again(unit) if one.base_offset == unit.base_offset), None)


def _same_files(unit: Unit) -> bool:
    for kind, was in zip(paths.SEGMENT_KINDS, unit.files, strict=True):
        if was is None:
            continue
        try:
            st = unit.log.with_suffix(kind).lstat()
        except OSError:
            return False
        if (st.st_size, st.st_mtime_ns, st.st_ctime_ns, st.st_ino) != tuple(was):
            return False
    return True


def _moment(unit: Unit) -> tuple[object, ...]:
    """Return what two listings must have in common for a look between them to be consistent."""
    state = unit.live, unit.clean
    if unit.base_offset < 0:
        return unit.directory_ctime_ns, *state
    if unit.live and unit.active:  # it grows all the time
        return unit.next_base_offset, *state, tuple(file and file.inode for file in unit.files)
    return unit.next_base_offset, *state, unit.files


def _vanished(unit: Unit) -> Finding:
    name = unit.partition_dir if unit.base_offset < 0 else unit.log.name
    return Finding("vanished", name, "was listed, and was gone when it was read")


def _softened(finding: Finding, constant: _Places) -> Finding:
    if finding.severity not in DEFECTS or (finding.kind, finding.file) in constant:
        return finding
    return finding._replace(
        kind="transient", reason=f"{finding.kind}: {finding.reason}; {_KEPT_CHANGING}"
    )


def _inode(path: Path) -> int:
    try:
        return path.lstat().st_ino
    except OSError:
        return -1
