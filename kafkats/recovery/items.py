"""The changes that a partition's recovery makes: rows of plan.ITEMS, one per file."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from kafkats import paths
from kafkats.errors import storage
from kafkats.generations import INDEX_INTERVAL_BYTES, SEGMENT_INDEX_BYTES
from kafkats.hashes import EMPTY_SHA256
from kafkats.logdir.checkpoints import encode_epochs
from kafkats.logdir.identity import listed_row
from kafkats.logdir.partition import FileFacts, PartitionDir
from kafkats.logdir.workarea import ROOT
from kafkats.plans.plan import file_of, item_of
from kafkats.plans.rows import Item
from kafkats.recovery.decide import Decision, bytes_behind, log_of, valid_bytes
from kafkats.recovery.small_files import (
    Epochs,
    Log,
    Replayed,
    Snapshots,
    Wanted,
    contents,
    epochs_there,
    read_snapshots,
    remake,
)
from kafkats.recovery.swaps import Swap

_CONTRADICTS: Final = "contradicts the log"


def cut_items(directory: Path, decision: Decision, rule: str) -> Iterator[Item]:
    """Yield the items of the logs with bytes behind their last good batch.

    A log with a second hard link, such as a backup has, is copied instead of truncated. Raises
    StorageFailed.
    """
    for row in decision.cuts:
        reason = f"{row['stop']}: {bytes_behind(row)} bytes behind the last good batch are cut"
        log = directory / log_of(row)
        with storage(log, "looking for other names of it"):
            shared = log.lstat().st_nlink > 1
        if shared:
            reason += "; a copy takes its place, as it has another hard link"
        yield item_of(row, log_of(row), rule, "replace" if shared else "truncate", reason) | {
            "before": row["log"],
            "log_valid_bytes": valid_bytes(row),
            "after_bytes": valid_bytes(row),
        }


def index_items(decision: Decision, rule: str, replaced: Callable[[int], bool]) -> Iterator[Item]:
    """Yield the items of wrong indexes; of the active segment, all that recovery would change.

    `replaced` tells which segments, by base offset, give way to a replacement.
    """
    last = decision.kept[-1]
    for row in decision.kept:
        if row["depth"] == "tail" or replaced(row["base_offset"]):
            continue
        for state, kind, size, sha256 in (
            (
                row["offset_index"],
                paths.OFFSET_INDEX,
                row["rebuilt_index_bytes"],
                row["rebuilt_index_sha256"],
            ),
            (
                row["time_index"],
                paths.TIME_INDEX,
                row["rebuilt_timeindex_bytes"],
                row["rebuilt_timeindex_sha256"],
            ),
        ):
            file, before = paths.segment_file(row["base_offset"], kind), file_of(row, kind)
            kinds = [f["kind"] for f in row["findings"] if f["file"] == file]
            # A broker looks its high watermark up at its start: without entries it reads the log.
            empty = "no-entries" in kinds
            wanted = empty or state == "defective" or (state == "missing" and kinds)
            filled = row is last and (row in decision.cuts or valid_bytes(row) > 0)
            if not wanted and not (state == "sound" and filled):
                continue
            named = dict.fromkeys(one for one in kinds if one != "sound")
            reason = ", ".join(named) or "not what recovery builds"
            item = item_of(row, file, rule, "replace" if before else "add", reason)
            yield item | {
                "before": before,
                "log_valid_bytes": valid_bytes(row),
                "after_bytes": size,
                "after_sha256": sha256,
            }


def dropped(decision: Decision, rule: str) -> Iterator[Item]:
    """Yield the items of the segments behind the cut."""
    for row in decision.dropped:
        for kind in paths.SEGMENT_KINDS:
            before = file_of(row, kind)
            if kind == paths.SNAPSHOT and row["base_offset"] == decision.log_end:
                continue  # it is the one at the log end
            if before is not None:
                file = paths.segment_file(row["base_offset"], kind)
                reason = "behind the cut: Kafka's recovery drops this segment"
                yield item_of(row, file, rule, "remove", reason) | {"before": before}


def leftovers(listed: PartitionDir, decision: Decision, rule: str) -> Iterator[Item]:
    """Yield the files that a starting broker deletes unread."""
    logs = {segment.base_offset for segment in listed.segments}
    for file in listed.others:
        parsed = paths.parse_segment_file(file.name)
        if parsed is None:
            continue
        reason = ""
        if parsed.suffix == ".deleted":
            reason = "a broker was deleting it"
        elif parsed.suffix == ".cleaned":
            reason = "an unfinished cleaning"
        elif parsed.suffix == ".swap":
            reason = "of a replacement that a broker had begun"
        elif parsed.kind == paths.SNAPSHOT and parsed.base_offset > decision.log_end:
            reason = f"of offsets above the log end {decision.log_end}"
        elif parsed.kind != paths.SNAPSHOT and parsed.base_offset not in logs:
            reason = "an index without its log"
        if reason:
            yield _listed_item(file, decision, rule, "remove", reason, parsed.base_offset)


def _listed_item(
    file: FileFacts, decision: Decision, rule: str, action: str, reason: str, base_offset: int
) -> Item:
    return item_of(decision.kept[-1], file.name, rule, action, reason) | {
        "base_offset": base_offset,
        "next_base_offset": -1,
        "before": listed_row(file),
    }


def small_items(
    listed: PartitionDir, swaps: Sequence[Swap], decision: Decision, rule: str
) -> Iterator[Item]:
    """Yield the items of snapshots, aborted transactions and epochs.

    The logs of `swaps` are read in the place of those that they replace. Raises CorruptBatch for a
    log that a broker does not load.
    """
    files = listed.files
    recovered = [row for row in decision.kept if row["base_offset"] >= decision.first]
    if not recovered:
        return
    epochs = epochs_there(listed.path)
    if decision.log_end == decision.kept[0]["base_offset"]:
        # An empty log has no producers, and a broker reads nothing to know it.
        yield from _no_epochs(listed.path, epochs, files.get(paths.LEADER_EPOCH), decision, rule)
        return
    snapshots = read_snapshots(listed.path, files)
    bases = {row["base_offset"] for row in recovered}
    there = {*snapshots.readable, *snapshots.unreadable}
    inside = {at for at in there & bases if decision.first < at < decision.log_end}
    # A broker's recovery begins at this one; it writes it again if it cannot read it.
    begun = {decision.first} & bases & set(snapshots.unreadable)
    offsets = frozenset({decision.log_end, *inside, *begun})
    wanted = Wanted(decision.log_end, offsets, decision.first, decision.first)
    made, wanted = _remade(_logs(listed.path, swaps, decision), snapshots, epochs, wanted)
    reasons = {
        paths.segment_file(at, paths.SNAPSHOT): why for at, why in snapshots.unreadable.items()
    }
    reasons |= {paths.segment_file(at, paths.SNAPSHOT): _CONTRADICTS for at in made.differing}
    reasons[paths.LEADER_EPOCH] = epochs.wrong or _CONTRADICTS * made.epochs_differ
    for at, why in snapshots.unreadable.items():
        if at not in offsets and at <= decision.log_end:
            file = files[paths.segment_file(at, paths.SNAPSHOT)]
            yield _listed_item(file, decision, rule, "remove", f"{why}: a broker deletes it", at)
    for name, content in contents(made).items():
        parsed = paths.parse_segment_file(name)
        base = parsed.base_offset if parsed else wanted.epochs_from
        if parsed and parsed.kind == paths.TXN_INDEX and base not in bases:
            continue
        item = item_of(decision.kept[-1], name, rule, "add", reasons.get(name) or "missing")
        item |= {"base_offset": base, "next_base_offset": -1}
        yield from _given(listed.path / name, content, files.get(name), item)


def _no_epochs(
    directory: Path, epochs: Epochs, file: FileFacts | None, decision: Decision, rule: str
) -> Iterator[Item]:
    """Yield the item of leader epochs that cannot be read beside an empty log, which has none.

    Raises StorageFailed.
    """
    if epochs.wrong and file is not None:
        item = _listed_item(file, decision, rule, "replace", epochs.wrong, decision.log_end)
        yield from _given(directory / file.name, encode_epochs(()), file, item)


def _remade(
    logs: Sequence[Log], snapshots: Snapshots, epochs: Epochs, wanted: Wanted
) -> tuple[Replayed, Wanted]:
    """Replay the logs, all of them for epochs where the checkpoint's cannot be believed.

    A broker that finds no checkpoint has the epochs of recovered logs only; one whose checkpoint is
    unreadable loads no log.
    """
    whole = wanted._replace(epochs_from=logs[0].base_offset)
    if epochs.wrong:
        return remake(logs, snapshots, epochs, whole), whole
    made = remake(logs, snapshots, epochs, wanted)
    if made.epochs_differ and wanted != whole:
        return remake(logs, snapshots, epochs, whole), whole
    return made, wanted


def _logs(directory: Path, swaps: Sequence[Swap], decision: Decision) -> list[Log]:
    swapped = {swap.base_offset: swap.file.name for swap in swaps}
    return [
        Log(
            row["base_offset"],
            directory / swapped.get(row["base_offset"], log_of(row)),
            valid_bytes(row),
            plain=row["depth"] != "tail" and row["magic_bytes"][2] == 0,
        )
        for row in decision.kept
    ]


def _given(path: Path, content: bytes, there: FileFacts | None, item: Item) -> Iterator[Item]:
    """Yield `item` with a small file's new content; nothing if the file has it."""
    new: Item = item | {
        "after_bytes": len(content),
        "after_sha256": hashlib.sha256(content).hexdigest(),
    }
    if there is None:
        if content not in (b"", encode_epochs(())):
            yield new
        return
    with storage(path, "comparing it with the log"):
        same = there.size == len(content) and path.read_bytes() == content
    if same:
        return
    reason = "differs from what the log says" if item["reason"] == "missing" else item["reason"]
    old: Item = new | {"reason": reason, "before": listed_row(there)}
    if content or not path.name.endswith(paths.TXN_INDEX):
        yield old | {"action": "replace"}
    else:
        yield old | {"action": "remove", "after_bytes": -1, "after_sha256": ""}


def empty_segment(
    decision: Decision, there: Mapping[str, FileFacts], rule: str, *, newer: bool
) -> Iterator[Item]:
    """Yield the items of the empty segment at the log end.

    A broker that starts without a clean-shutdown marker reads all of the segment that contains the
    recovery point, even where everything was flushed. If an empty segment begins at the recovery
    point, that is the one it reads. The clean-shutdown marker is never written: it would also tell
    the controller that nothing was lost.

    `there` has the partition's files by name: of a dropped segment that begins there, or indexes
    without a log. `newer`: brokers of 0.11 or later wrote here. Brokers before 0.10.1 have no time
    indexes.
    """
    last = decision.kept[-1]
    kinds = (
        paths.LOG,
        paths.OFFSET_INDEX,
        *((paths.TIME_INDEX,) if last["timeindex"] or newer else ()),
    )
    for kind in kinds:
        name = paths.segment_file(decision.log_end, kind)
        before = listed_row(there[name]) if name in there else None
        item = item_of(last, name, rule, "replace" if before else "add", _EMPTY)
        yield item | {
            "base_offset": decision.log_end,
            "next_base_offset": -1,
            "before": before,
            "after_bytes": 0,
            "after_sha256": EMPTY_SHA256,
        }


_EMPTY: Final = "an empty segment at the log end"


def recovery_point(decision: Decision, before: int, rule: str) -> Item:
    """Return the item that raises (or lowers) a partition's recovery point to the log end."""
    last = decision.kept[-1]
    was = "none" if before < 0 else str(before)
    change = "stays" if before == decision.log_end else f"{was} becomes"
    reason = f"recovery point {change} {decision.log_end}, the log end"
    return item_of(last, paths.RECOVERY_POINT, rule, "update", reason) | {
        "base_offset": decision.log_end,
        "next_base_offset": -1,
        "log_valid_bytes": 0,
    }


def checkpoint_item(log_dir: str, partitions: Sequence[str], rule: str) -> Item:
    """Return the item for a log directory's checkpoint of the recovery points of `partitions`."""
    more = f", and {len(partitions) - 1} more" if len(partitions) > 1 else ""
    return {
        "log_dir": log_dir,
        "partition_dir": ROOT,
        "directory_ctime_ns": 0,
        "base_offset": 0,
        "next_base_offset": -1,
        "file": paths.RECOVERY_POINT,
        "action": "update",
        "reason": f"the recovery point of {partitions[0]}{more}, after all partitions",
        "before": None,
        "log": None,
        "log_valid_bytes": 0,
        "after_bytes": -1,
        "after_sha256": "",
        "rule": rule,
        "index_interval_bytes": INDEX_INTERVAL_BYTES,
        "segment_index_bytes": SEGMENT_INDEX_BYTES,
        "settings_from": "default",
    }
