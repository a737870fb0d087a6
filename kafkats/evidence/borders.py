"""Check that a log begins and ends where other files say, and that its segments join.

    end_findings     the log's end against recovery point, high watermark, log start, epochs,
                     snapshots and index entries
    first_findings   the log's first offset against its log start and its leader epochs
    gap_findings     a segment's end against the next segment's base offset
    empty_findings   a directory without any log

An unclean stop cannot lose records below `Claims.flushed_to`: if they are missing, that is
`missing-records`. Records above it may be lost: that is `end-not-flushed`, and
`gap-not-flushed` between segments, where no broker fetches them again. Beside a running broker
nothing is judged, since the files are of different moments.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Final, NamedTuple

from kafkats import paths
from kafkats.evidence.claims import Claims
from kafkats.findings import Finding
from kafkats.logdir.checkpoints import EpochStart

_FAR: Final = 10_000
"""Offsets by which a checkpoint may lie above all else without being taken for wrong itself."""


class Witness(NamedTuple):
    """A file which states that the log reaches up to `offset`, exclusive."""

    file: str
    offset: int
    flushed: bool = False
    """Whether it states what was flushed, which survives any stop."""


def witnesses(claims: Claims, epochs: Sequence[EpochStart]) -> Iterator[Witness]:
    """Yield what each file states about the log's end."""
    yield Witness(paths.RECOVERY_POINT, claims.recovery_point, flushed=True)
    yield Witness(paths.HIGH_WATERMARK, claims.high_watermark)
    yield Witness(paths.LOG_START, claims.log_start)
    if epochs:
        yield Witness(paths.LEADER_EPOCH, epochs[-1].start_offset)
    if claims.last_snapshot >= 0:
        yield Witness(
            paths.segment_file(claims.last_snapshot, paths.SNAPSHOT), claims.last_snapshot
        )


def end_findings(
    claims: Claims,
    epochs: Sequence[EpochStart],
    log: str,
    log_end: int,
    indexes: Sequence[Witness] = (),
) -> Iterator[Finding]:
    """Compare the end of the last .log, named `log`, with every witness.

    `indexes` are witnesses from index entries: its own, and those of logs that are gone.
    """
    if claims.live or not claims.end_settled:
        return
    above = [w for w in (*witnesses(claims, epochs), *indexes) if w.offset > log_end]
    yield from _missing(claims, log, log_end, above, f"the log ends at offset {log_end}")
    if claims.log_start > log_end:
        reason = (
            f"the log ends at {log_end}, and {paths.LOG_START} says {claims.log_start}: a start"
            " deletes the whole log"
        )
        yield Finding("segments-deleted", log, reason)


def wrong_witness(claims: Claims, above: Collection[Witness], log_end: int) -> Witness | None:
    """Return the checkpoint that is likely wrong itself, None without one.

    It alone names an offset that lies further above the log end and all other files than the log is
    long. `above` are the witnesses above the log end. An empty log proves nothing.
    """
    begin = max(claims.log_start, claims.first_base, 0)
    if not above or log_end <= begin:
        return None
    highest = max(above, key=lambda w: w.offset)
    others = [w.offset for w in above if w is not highest]
    far = highest.offset - max(others, default=log_end) > max(log_end - begin, _FAR)
    return highest if far and highest.file.endswith("-checkpoint") else None


def known_end(claims: Claims, named: Collection[Witness], log_end: int) -> int:
    """Return the largest offset up to which the log reached by its own end and what files name.

    A checkpoint that is likely wrong itself does not count.
    """
    above = [w for w in named if w.offset > log_end]
    wrong = wrong_witness(claims, above, log_end)
    return max((w.offset for w in above if w != wrong), default=log_end)


def behind_high_watermark(log_end: int, high_watermark: int) -> int:
    """Return how many offsets below the high watermark a log lacks at its end.

    `log_end` is that after a start, -1 for a log that no broker loads. Consumers may have read
    these records.
    """
    return max(high_watermark - log_end, 0) if log_end >= 0 else 0


def empty_findings(
    claims: Claims,
    epochs: Sequence[EpochStart],
    directory: str,
    indexes: Sequence[Witness] = (),
) -> Iterator[Finding]:
    """Yield the findings for a partition directory without any log.

    `indexes` are witnesses from the entries of indexes whose log is gone.
    """
    if claims.live or claims.unsettled:
        return
    start = max(claims.log_start, epochs[0].start_offset if epochs else 0, 0)
    above = [w for w in (*witnesses(claims, epochs), *indexes) if w.offset > start]
    if not above:
        reason = "there is no log, and no file says that there were records"
        yield Finding("cannot-be-told", directory, reason)
    yield from _missing(claims, directory, start, above, "there is no log")


def _missing(
    claims: Claims, file: str, begin: int, above: Sequence[Witness], ends: str
) -> Iterator[Finding]:
    if not above:
        return
    wrong = wrong_witness(claims, above, begin)
    if wrong is not None:
        reason = (
            f"{wrong.file} says {wrong.offset}, far above all else that is known: {ends}. That file"
            " is likely wrong itself, not the log"
        )
        kind = "missing-records" if begin < claims.flushed_to else "end-not-flushed"
        yield Finding(kind, file, reason, expected=str(wrong.offset), found=str(begin))
        yield from _missing(claims, file, begin, [w for w in above if w != wrong], ends)
        return
    end = max(w.offset for w in above)
    files = ", ".join(f"{w.file} says {w.offset}" for w in sorted(above, key=lambda w: -w.offset))
    lost = begin < claims.flushed_to or any(w.flushed for w in above)
    kind = "missing-records" if lost else "end-not-flushed"
    what = "missing" if lost else "lost in the unclean stop"
    reason = f"{missing_offsets(begin, end)} {what}: {ends}, but {files}"
    if len(above) == 1 and above[0].file.endswith("-checkpoint"):
        reason += (
            "; no other file says so: it may be wrong itself, or a recovery has cut the log and"
        )
        reason += " its indexes"
    yield Finding(kind, file, reason, expected=str(end), found=str(begin))


def first_findings(claims: Claims, epochs: Sequence[EpochStart], log: str) -> Iterator[Finding]:
    """Compare the base offset of the first .log, named `log`, with the files around it.

    Retention raises the start of the first leader epoch to the log start. The log start checkpoint
    has an entry only where the log start lies above the first segment's base, or where the topic is
    tiered.
    """
    base, start = claims.first_base, claims.log_start
    if base <= 0 or claims.live or claims.unsettled:
        return
    first_epoch = epochs[0].start_offset if epochs else -1
    if 0 <= start < base and claims.tiered:
        yield Finding(
            "cannot-be-told", log, f"{missing_offsets(start, base)} in remote storage, or missing"
        )
        return
    below = [
        Witness(file, offset)
        for file, offset in ((paths.LOG_START, start), (paths.LEADER_EPOCH, first_epoch))
        if 0 <= offset < base
    ]
    if below:
        begin = min(w.offset for w in below)
        files = ", ".join(f"{w.file} begins at {w.offset}" for w in below)
        gap = missing_offsets(begin, base)
        reason = f"{gap} missing: the first segment begins at {base}, but {files}"
        kind = "missing-records"
        if claims.deleting and not claims.clean:
            kind, reason = (
                "cannot-be-told",
                f"{reason}; or a broker was killed while it deleted them",
            )
        yield Finding(kind, log, reason, expected=str(begin), found=str(base))
    elif start < base and first_epoch != base:
        reason = (
            f"the log begins at offset {base}: after retention, or without its first"
            " segments; no file tells"
        )
        yield Finding("cannot-be-told", log, reason)


def gap_findings(
    claims: Claims, log: str, next_offset: int, next_base: int, *, compacted: bool | None
) -> Iterator[Finding]:
    """Yield the finding for a gap between the end of the .log named `log` and the next base offset.

    Only the cleaner removes offsets inside a log. `compacted` tells whether it did so here, None
    where that cannot be determined.
    """
    if next_offset >= next_base or claims.live or claims.unsettled:
        return
    gap = missing_offsets(next_offset, next_base)
    if compacted is not False:
        why = (
            "the topic is compacted"
            if compacted
            else "the formats here do not show whether it is compacted"
        )
        yield Finding("cannot-be-told", log, f"{gap} compacted away, or missing: {why}")
        return
    following = paths.segment_file(next_base)
    what = f"the segment ends at offset {next_offset}, but {following} follows"
    if next_offset < claims.flushed_to:
        reason = f"{gap} missing: {what}"
        yield Finding(
            "missing-records", log, reason, expected=str(next_base), found=str(next_offset)
        )
    else:
        yield Finding("gap-not-flushed", log, f"{gap} lost in the unclean stop: {what}")


def missing_offsets(begin: int, end: int) -> str:
    """Return the offsets from `begin` up to, but not including, `end`, and their verb."""
    return f"offsets {begin} to {end - 1} are" if end - begin > 1 else f"offset {begin} is"
