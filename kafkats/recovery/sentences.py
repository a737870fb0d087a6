"""Tell a predicted start: for an operator, verdict first, and in numbers for a report."""

from __future__ import annotations

import shlex
import textwrap
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from kafkats import paths
from kafkats.counts import counted, size_text
from kafkats.recovery.facts import BrokerStart, PartitionStart, Recovered, RootStart, Why
from kafkats.recovery.meta_properties import of_zookeeper
from kafkats.recovery.rates import measured_rate
from kafkats.recovery.words import BELOW

_SHOWN: Final = 20
_LOSSES: Final = ("missing-records", "end-moved-back", "hole-cut", "producers-forgotten")
"""Kinds of findings with which records, or the state of producers, are lost."""
_REASONS: Final[Mapping[Why, str]] = {
    "unflushed": "from the recovery point on",
    "missing-index": "without .index",
    "corrupt-index": "with a wrong index",
    "swap": "of an unfinished cleaning",
}
_COLUMNS: Final = 100
_NEXT: Final = "next: "


def summary(start: BrokerStart) -> dict[str, object]:
    """Return the totals of a start."""
    parts = start.partitions
    zeros = sum(sum(_zeros(p)) for p in parts)
    return {
        "kafka": start.kafka,
        "outcome": start.outcome,
        "words": list(start.words),
        "live": any(root.live for root in start.roots),
        "partitions": len(parts),
        "segments": sum(p.segments for p in parts),
        "log_bytes": sum(p.log_bytes for p in parts),
        "recovered_segments": sum(len(p.recovered) for p in parts),
        "recovered_bytes": sum(p.recovered_bytes for p in parts),
        "cut_bytes": sum(p.cut_bytes for p in parts) - zeros,
        "zero_bytes": zeros,
        "deleted_segments": sum(len(p.deleted) for p in parts),
        "deleted_bytes": sum(p.deleted_bytes for p in parts),
        "lost_offsets": sum(p.lost_offsets for p in parts),
        "behind_high_watermark": _below(start),
        "set_aside": sum(bool(p.set_aside) for p in parts),
        "partitions_with_loss": sum(p.loses for p in parts),
        "replay_bytes": sum(p.replay_bytes for p in parts),
        "told_epoch": start.told_epoch,
        "log_dirs": [_root_row(start, root) for root in start.roots],
    }


def _root_row(start: BrokerStart, root: RootStart) -> dict[str, object]:
    own = _own(start, root)
    return {
        "log_dir": root.log_dir,
        "outcome": root.outcome,
        "words": list(root.words),
        "live": root.live,
        "clean": root.clean,
        "partitions": len(own),
        "missing": list(root.missing),
        "recovered_segments": sum(len(p.recovered) for p in own),
        "recovered_bytes": sum(p.recovered_bytes for p in own),
        "recovery_seconds": round(
            measured_rate(start.rule).seconds(one for p in own for one in p.recovered), 3
        ),
    }


def loses(start: BrokerStart) -> bool:
    """Return whether the broker does not start, or loses something when it does."""
    bad_roots = any(root.outcome != "loads" or root.missing for root in start.roots)
    return start.outcome != "loads" or bad_roots or any(p.loses for p in start.partitions)


def sentences(
    start: BrokerStart, recovery_rate: int | None, read_seconds: float | None = None
) -> Iterator[str]:
    """Yield the lines for an operator, of up to 100 columns where no word is longer.

    A line with a command to copy is not broken.
    `recovery_rate` is in bytes per second and log directory, None for the measured one.
    `read_seconds` is the time in which the prediction has read the logs here, None if unknown.
    """
    for line in _lines(start, recovery_rate, read_seconds):
        if line.startswith(_NEXT):
            yield line
            continue
        inner = " " * (len(line) - len(line.lstrip()) + 2)
        yield from textwrap.wrap(
            line, _COLUMNS, subsequent_indent=inner, break_long_words=False, break_on_hyphens=False
        )


def _lines(
    start: BrokerStart, recovery_rate: int | None, read_seconds: float | None
) -> Iterator[str]:
    yield from _of_zookeeper(start)
    yield from _verdict(start)
    for root in start.roots:
        yield from _root_lines(root, _own(start, root), start, recovery_rate)
    if read_seconds is not None:
        yield from _outages(start, recovery_rate, read_seconds)
    yield from _told(start)
    yield from _leadership(start)
    # The words of the others are above: why the broker does not start, or a log directory fails.
    bad = [p for p in start.partitions if p.loses and p.outcome in ("loads", "unknown")]
    for one in bad[:_SHOWN]:
        yield from _partition_lines(one, start)
    if len(bad) > _SHOWN:
        yield f"and {counted(len(bad) - _SHOWN, 'more partition')}: --json lists all"
    yield from _next(start)


def _of_zookeeper(start: BrokerStart) -> Iterator[str]:
    """Yield the warning about a release without ZooKeeper on directories of a cluster with it."""
    if not of_zookeeper(start.roots, start.rule):
        return
    without = sum(bool(p.set_aside) for p in start.partitions)
    strays = (
        f": {counted(without, 'partition')} without a topic id would be set aside as -stray, and"
        " empty logs served instead"
    )
    yield (
        f"Do NOT start {start.kafka} here: {paths.META_PROPERTIES} is of a cluster with ZooKeeper,"
        f" which 4.0 and later do not know{strays if without else ''}. Migrate the cluster to KRaft"
        " first, with 3.9."
    )


def _outages(start: BrokerStart, recovery_rate: int | None, read_seconds: float) -> Iterator[str]:
    """Yield how long the broker is down with and without a recovery by kafkats.

    A plan reads what this prediction has read, and apply reads it again to prove the result. A
    broker reads its log directories side by side.
    """
    by_root = [[one for p in _own(start, root) for one in p.recovered] for root in start.roots]
    if not any(one.log_bytes for some in by_root for one in some):
        return
    threads = start.rule.recovery_threads
    theirs = max(_seconds(start, recovered, recovery_rate) for recovered in by_root)
    if recovery_rate is None:
        theirs /= threads
    yield (
        f"Down for {_rough(2 * read_seconds)} if kafkats recovers it first (plan and apply, at the"
        f" speed of this prediction), for {_rough(theirs)} if the broker recovers itself with"
        f" {counted(threads, 'thread')} per log directory (num.recovery.threads.per.data.dir)"
    )


def _rough(seconds: float) -> str:
    return "less than 10 s" if seconds < 10 else _duration(seconds)


def _next(start: BrokerStart) -> Iterator[str]:
    """Yield the next command for a broker that does not run."""
    if any(root.live for root in start.roots):
        return
    log_dirs = " ".join(shlex.quote(root.log_dir) for root in start.roots)
    if of_zookeeper(start.roots, start.rule):
        yield f"{_NEXT}kafkats help kafka-4; do not start {start.kafka} here"
    elif start.outcome == "stops":
        yield f"{_NEXT}mend what stops the broker, and predict again"
    elif any(one.log_bytes for p in start.partitions if not _lacks(p) for one in p.recovered):
        if any(p.cut_bytes > sum(_zeros(p)) for p in start.partitions):
            yield "A recovery by kafkats keeps what it cuts until purge, the broker's keeps nothing"
        yield f"{_NEXT}kafkats plan recover {log_dirs} -o PLAN, or start the broker"
    elif any(map(_hides_records, start.partitions)):
        yield f"{_NEXT}kafkats plan recover {log_dirs} -o PLAN"
    elif not loses(start):
        yield f"{_NEXT}start the broker"
    else:
        yield (
            f"{_NEXT}kafkats help preflight explains each line; start the broker only if what it"
            " loses may be lost"
        )


def _lacks(one: PartitionStart) -> bool:
    """Return whether records are missing, so that no plan changes the partition unasked."""
    return any(finding.kind == "missing-records" for finding in one.findings)


def _own(start: BrokerStart, root: RootStart) -> Sequence[PartitionStart]:
    return [p for p in start.partitions if p.log_dir == root.log_dir]


def _verdict(start: BrokerStart) -> Iterator[str]:
    if any(root.live for root in start.roots):
        yield "A broker runs here. If it were killed now and started again, this would happen."
    broker = f"This broker ({start.kafka})"
    if start.outcome == "stops":
        yield f"{broker} will not start. Its words:"
        yield from (f"  {line}" for line in start.words[:_SHOWN])
        if len(start.words) > _SHOWN:
            yield f"  and {len(start.words) - _SHOWN} more: --json lists all"
        yield "What follows holds once that is mended."
    elif start.outcome == "offline":
        yield f"{broker} will start without a failed log directory."
    elif start.outcome == "unknown":
        yield f"Whether this broker ({start.kafka}) starts cannot be told."
    elif any(root.missing for root in start.roots) or any(map(_loses_records, start.partitions)):
        yield f"{broker} will start, and loses what is listed below."
    elif any(map(_hides_records, start.partitions)):
        yield f"{broker} will start, and loses no stored record, but new ones as listed below."
    elif loses(start):
        yield f"{broker} will start, and loses no record; what is listed below is damaged."
    else:
        yield f"{broker} will start, and loses nothing that is stored now."


def _missing(root: RootStart) -> str:
    more = ["..."] if len(root.missing) > _SHOWN else []
    return (
        f"{counted(len(root.missing), 'partition')} that its checkpoints name; a leader here begins"
        f" an empty log, from offset 0: {', '.join([*root.missing[:_SHOWN], *more])}"
    )


def _loses_records(one: PartitionStart) -> bool:
    return bool(one.lost_offsets or one.deleted or one.set_aside) or any(
        finding.kind in _LOSSES for finding in one.findings
    )


def _hides_records(one: PartitionStart) -> bool:
    return any(finding.kind == "torn-tail-marked-clean" for finding in one.findings)


def _root_lines(
    root: RootStart,
    own: Sequence[PartitionStart],
    start: BrokerStart,
    recovery_rate: int | None,
) -> Iterator[str]:
    if root.metadata_only:
        yield f"{root.log_dir}: KRaft's metadata log, which every start reads from its beginning"
        return
    segments = sum(p.segments for p in own)
    size = size_text(sum(p.log_bytes for p in own))
    held = f"{counted(len(own), 'partition')}, {counted(segments, 'segment')}, {size}"
    yield f"{root.log_dir}: {held}, {_stop(root)}"
    if not own and root.meta is None:
        yield f"  no partition and no readable {paths.META_PROPERTIES}: is its disk mounted?"
    if root.words and root.outcome != "stops":
        what = {"offline": "goes offline", "unknown": "cannot be told"}
        words = what.get(root.outcome, "counts as empty")
        yield from (f"  {words}: {line}" for line in root.words)
    if start.kraft and root.metadata_log and root != start.roots[0]:
        yield "  has KRaft's metadata log: metadata.log.dir has to name this directory"
    recovered = [one for p in own for one in p.recovered]
    unflushed = sum(one.log_bytes for one in recovered)
    yield f"  recovers {_recovered(own)}"
    if unflushed:
        yield f"  {_time(start, recovered, recovery_rate)}"
    if root.missing:
        yield f"  lacks {_missing(root)}"
    yield from _changes(own)
    aside = sum(bool(p.set_aside) for p in own)
    if aside:
        given_up = counted(aside, "partition")
        if start.rule.marker_epoch:
            yield f"  sets {given_up} aside as -stray, and serves an empty log instead"
        else:
            yield f"  deletes {given_up} that its cluster does not know here"
    replayed = [p for p in own if p.replay_from >= 0 and p.replay_bytes]
    if replayed:
        replayed_bytes = sum(p.replay_bytes for p in replayed)
        yield (
            f"  replays producer state in {counted(len(replayed), 'partition')},"
            f" reading at most {size_text(replayed_bytes)}"
        )


def _changes(own: Sequence[PartitionStart]) -> Iterator[str]:
    """Yield what a start cuts, moves, deletes and renames in a log directory."""
    zeros = [sum(_zeros(p)) for p in own]
    cuts = [p.cut_bytes - zero for p, zero in zip(own, zeros, strict=True)]
    deleted = sum(len(p.deleted) for p in own)
    if any(cuts):
        yield f"  cuts {size_text(sum(cuts))} from {counted(sum(map(bool, cuts)), 'partition')}"
    if any(zeros):
        yield (
            f"  cuts {size_text(sum(zeros))} of zeros from"
            f" {counted(sum(map(bool, zeros)), 'partition')}: space that was set aside, no records"
        )
    moved = sum(p.partition_dir.endswith("-future") for p in own)
    if moved:
        yield (
            f"  goes on moving {counted(moved, 'partition')} here (-future) from another log"
            " directory"
        )
    if deleted:
        deleted_bytes = sum(p.deleted_bytes for p in own)
        yield f"  deletes {counted(deleted, 'segment')}, {size_text(deleted_bytes)}"
    removed, renamed = sum(len(p.removed) for p in own), sum(len(p.renamed) for p in own)
    if removed or renamed:
        done = [f"deletes {counted(removed, 'file')}"] if removed else []
        done += [f"renames {counted(renamed, '.swap file')}"] if renamed else []
        yield f"  finishes what was under way: {', '.join(done)}"


def _zeros(one: PartitionStart) -> Iterator[int]:
    """Yield the cut bytes of recovered segments that end with zeros which were set aside."""
    preallocated = {f.file for f in one.findings if f.kind == "preallocated"}
    for done in one.recovered:
        if paths.segment_file(done.base_offset) in preallocated:
            yield done.cut_bytes


def _recovered(own: Sequence[PartitionStart]) -> str:
    """Return how many segments are recovered, and why. A broker may read one segment twice."""
    reasons = Counter(one.why for p in own for one in p.recovered)
    times = Counter((p.partition_dir, one.base_offset) for p in own for one in p.recovered)
    if not times:
        return "no segment"
    twice = sum(count > 1 for count in times.values())
    some = "each" if twice == len(times) else f"{twice} of them"
    again = f", {some} twice" if twice else ""
    why = ", ".join(f"{reasons[why]} {words}" for why, words in _REASONS.items() if reasons[why])
    read = size_text(sum(p.recovered_bytes for p in own))
    return f"{counted(len(times), 'segment')}{again}, {read}" + (
        f": {why}" if set(reasons) != {"unflushed"} else ""
    )


def _stop(root: RootStart) -> str:
    if root.live:
        return "in use"
    return "stopped cleanly" if root.clean else "not stopped cleanly"


def _time(start: BrokerStart, recovered: Sequence[Recovered], given: int | None) -> str:
    """Return how long a recovery takes, and where the rate is from."""
    seconds = _duration(_seconds(start, recovered, given))
    if given is not None:
        return f"that takes {seconds}, at {size_text(given)} a second as given"
    rate = measured_rate(start.rule)
    batches = sum(one.batches + one.messages for one in recovered)
    return (
        f"that takes {seconds} with one recovery thread: {batches}"
        f" batches, at the rate measured with {rate.kafka}, logs in memory; --recovery-rate"
        " overrides it"
    )


def _seconds(start: BrokerStart, recovered: Sequence[Recovered], given: int | None) -> float:
    """Return the time of a recovery: at the given rate, or of one thread at the measured one."""
    if given is not None:
        return sum(one.log_bytes for one in recovered) / given
    return measured_rate(start.rule).seconds(recovered)


def _duration(seconds: float) -> str:
    if seconds < 0.1:
        return "less than 0.1 s"
    if seconds < 10:
        return f"about {seconds:.1f} s"
    return f"about {seconds:.0f} s" if seconds < 600 else f"about {seconds / 60:.0f} min"


def _told(start: BrokerStart) -> Iterator[str]:
    if not start.rule.marker_epoch or not start.kraft:
        return
    if start.told_epoch >= 0:
        yield (
            f"The controller is told of a clean stop in broker epoch {start.told_epoch}: replicas"
            " keep their place among the eligible leaders"
        )
    else:
        marked = all(root.clean for root in start.roots if not root.metadata_only)
        why = " (the markers of the clean stop lack a broker epoch, or differ)" if marked else ""
        yield (
            f"The controller is told of an unclean stop{why}: replicas here leave the in-sync and"
            " the eligible replicas until they have caught up"
        )


def _below(start: BrokerStart) -> int:
    """Return how many logs will end below their high watermark."""
    return sum(p.behind_high_watermark > 0 for p in start.partitions)


def _leadership(start: BrokerStart) -> Iterator[str]:
    wrong = sum(p.has_wrong_high_watermark for p in start.partitions)
    if below := _below(start):
        by_it = f" ({wrong} by a checkpoint that is likely wrong itself)" if wrong else ""
        yield (f"{counted(below, 'log')} will end below the high watermark{by_it}: {BELOW}")


def _partition_lines(one: PartitionStart, start: BrokerStart) -> Iterator[str]:
    end = f"log {one.log_start_offset} to {one.log_end_offset}"
    high = f", high watermark {one.high_watermark}" if one.high_watermark >= 0 else ""
    told = f"{end}{high}" if one.outcome == "loads" else one.words
    yield f"{Path(one.log_dir, one.partition_dir)}: {told}"
    if one.lost_offsets:
        lost = _offsets(one.log_end_offset, one.known_end)
        yield f"  lost at least: {lost}; a leader here gives them to new records"
    if one.set_aside:
        done = "set aside as -stray" if start.rule.marker_epoch else "deleted"
        yield f"  {done}: {one.set_aside}"
    for finding in one.findings:
        # What the high watermark knows of is in the lines above.
        named = finding.kind == "missing-records" and one.known_end == one.high_watermark
        known = named and finding.expected == str(one.known_end)
        wrong = finding.kind == "end-not-flushed" and one.has_wrong_high_watermark
        if (finding.severity in ("damage", "danger") or wrong) and not known:
            yield f"  {finding.file}: {finding.reason}"


def _offsets(begin: int, end: int) -> str:
    return f"offset {begin}" if end - begin == 1 else f"offsets {begin} to {end - 1}"
