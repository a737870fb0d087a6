"""The segments that a start keeps without reading them, and what their ends show.

A broker does not look at them. So a prediction reads their ends as an inventory does, and compares
them with the next segment: what is missing there is lost whether the broker notices it or not.
"""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

from kafkats import paths
from kafkats.errors import KafkatsError
from kafkats.evidence.borders import Witness
from kafkats.evidence.looking import index_witnesses, orphan_witnesses
from kafkats.formats import v2
from kafkats.index.tail import read_tail
from kafkats.recovery.load import Load
from kafkats.segment.broker_walk import read_on
from kafkats.segment.facts import NOTHING_BEHIND, StopReason
from kafkats.segment.reader import open_source


class Gap(NamedTuple):
    """Offsets that are missing between the segment at `base_offset` and the next one."""

    base_offset: int
    end: int
    """The offset after the segment's last batch."""
    next_base_offset: int


class Torn(NamedTuple):
    """Bytes behind the last batch of a segment that no recovery reads and that is not the last."""

    base_offset: int
    stop: StopReason
    bytes_behind: int


class Borders(NamedTuple):
    """The gaps and the torn logs among the segments of one load, by base offset."""

    gaps: tuple[Gap, ...]
    torn: tuple[Torn, ...]


def borders_of(load: Load) -> Borders:
    """Return the gaps and torn logs. Reads the ends of logs that the load has not recovered.

    A log that cannot be read has neither: no broker reads it here.
    """
    gaps, torn = [], []
    for base, following in pairwise(load.bases):
        done = load.recoveries.get(base)
        if done is not None:
            end = max(done.next_offset, base)
        else:
            try:
                end, stop, behind = _end_of(load, base)
            except KafkatsError:
                continue
            if stop is not None:
                torn.append(Torn(base, stop, behind))
            if stop not in NOTHING_BEHIND:
                continue  # the bytes that follow may be the records
        if end < following:
            gaps.append(Gap(base, end, following))
    return Borders(tuple(gaps), tuple(torn))


def _end_of(load: Load, base: int) -> tuple[int, StopReason | None, int]:
    """Return where a log ends, why reading it ended there, and the bytes behind. Raises as reading.

    Where the index misleads, the log is read from its start.
    """
    log = load.log(base)
    if log.name == paths.segment_file(base):
        facts, findings = read_tail(log)
        if all(f.severity not in ("damage", "danger") for f in findings):
            return max(facts.next_offset, base), facts.stop, facts.log_bytes - facts.valid_bytes
    with open_source(log) as source:
        span = read_on(source, base, checksums=False)
        return max(span.next_offset, base), span.stop, source.size - span.end


def index_claims(load: Load, log_end: int) -> tuple[Witness, ...]:
    """Return the indexes that name offsets at or above `log_end`.

    They are those of the last segment, and those of logs that are gone.
    """
    gone = tuple(orphan_witnesses(load.directory, max(log_end, 0)))
    last = paths.segment_file(load.bases[-1]) if load.bases else ""
    if not last or load.files.sources.get(last) != last:
        return gone
    return (*index_witnesses(load.directory, load.bases[-1], log_end), *gone)


def unknown_magics(load: Load) -> dict[int, int]:
    """Return where each recovered segment keeps a batch with a magic above 2, by base offset."""
    if load.rule.newest_magic < v2.MAGIC:
        return {}
    found = {base: done.unknown_magic_at for base, done in load.recoveries.items()}
    return {base: position for base, position in found.items() if position >= 0}


def unknown_formats(load: Load) -> dict[int, int]:
    """Return the newest format of each segment by base offset where the broker does not know it."""
    known = load.rule.newest_magic
    if known >= v2.MAGIC:
        return {}
    newest = {base: load.newest_magic(base) for base in load.bases}
    return {base: magic for base, magic in newest.items() if magic > known}
