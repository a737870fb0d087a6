"""Finish replacements of segments that a broker had begun: `.swap` files.

The cleaner and the split of a segment write new files as `.cleaned`, rename them to `.swap`, and
then swap them in. A broker that starts deletes `.cleaned` files, and `.swap` files whose offset is
that of a `.cleaned` file or higher: their replacement was not complete. It finishes the others: a
`.log.swap` takes the place of all logs whose base offset it covers. Source: LogLoader.load; before
3.0 Log.completeSwapOperations. The indexes are always built from the log, as before 3.0. A
replacement that ends above the recovery point is recovered like any segment: its batches are read
for producers, aborted transactions and epochs.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from kafkats import paths
from kafkats.evidence.claims import Claims
from kafkats.generations import INDEX_INTERVAL_BYTES, RULES, SEGMENT_INDEX_BYTES
from kafkats.index.build import Built, build_from
from kafkats.logdir.identity import listed_row
from kafkats.logdir.partition import FileFacts
from kafkats.logdir.text import read_small
from kafkats.plans.plan import file_of, item_of
from kafkats.plans.rows import Item, SegmentRow
from kafkats.recovery.decide import Blocked, Decision, log_of
from kafkats.recovery.loading import SWAP, complete_swaps
from kafkats.segment.reader import open_source


class Building(NamedTuple):
    """The rule and the settings for index files. None: Kafka's default."""

    rule: str
    index_interval_bytes: int | None
    segment_index_bytes: int | None


class Swap(NamedTuple):
    """A complete replacement: the log `file` takes the place of all logs that it covers."""

    base_offset: int
    file: FileFacts
    built: Built
    transactions: bytes | None
    """The content of its `.txnindex.swap`."""

    def covers(self, base_offset: int) -> bool:
        return self.base_offset <= base_offset < self.built.facts.next_offset


def read_swaps(directory: Path, others: Sequence[FileFacts], building: Building) -> list[Swap]:
    """Return the replacements that a broker would finish, among a directory's `others` files.

    Each log is read. Raises Vanished, StorageFailed.
    """
    files = {f.name: f for f in others}
    parsed = {name: one for name in files if (one := paths.parse_segment_file(name))}
    found = []
    for file in complete_swaps(parsed):
        name = parsed[file]
        if name.kind != paths.LOG:
            continue
        with open_source(directory / file, mapped=True) as source:
            built = build_from(
                source,
                name.base_offset,
                RULES[building.rule],
                building.index_interval_bytes or INDEX_INTERVAL_BYTES,
                building.segment_index_bytes or SEGMENT_INDEX_BYTES,
            )
        beside = paths.segment_file(name.base_offset, paths.TXN_INDEX) + SWAP
        transactions = read_small(directory / beside) if beside in files else None
        found.append(Swap(name.base_offset, files[file], built, transactions))
    return found


def left_to_a_broker(swaps: Sequence[Swap]) -> Blocked | None:
    """Return why a replacement cannot be finished here, None if all can."""
    for swap in swaps:
        facts, file = swap.built.facts, swap.file.name
        if facts.stop or swap.built.blocked or not facts.batches:
            why = facts.stop or swap.built.blocked or "it is empty"
            return Blocked(file, f"{file} is to replace a log, but is none: {why}")
    return None


def has_swapped_log(names: Collection[str]) -> bool:
    """Return whether a start puts a log in place, by the names in a partition directory."""
    own = [name for name in names if paths.parse_segment_file(name)]
    return any(name.endswith(f"{paths.LOG}{SWAP}") for name in complete_swaps(own))


def rows_after(
    swaps: Sequence[Swap], rows: Sequence[SegmentRow], own: SegmentRow, claims: Claims
) -> list[SegmentRow]:
    """Return the facts of a partition's segments (in order) once the replacements are finished.

    A replacement takes the place of all segments that it covers. A broker recovers it if it
    recovers one of these; without any, if it ends above the recovery point, or is the last one.
    `own` is the row of the directory itself.
    """
    after = list(rows)
    last = max(one.base_offset for one in swaps) if swaps else -1
    for swap in swaps:
        covered = [row for row in after if swap.covers(row["base_offset"])]
        after = [row for row in after if not swap.covers(row["base_offset"])]
        ends_the_log = swap.base_offset == last and all(r["base_offset"] < last for r in after)
        flushed = swap.built.facts.next_offset <= max(claims.recovery_point, 0)
        unflushed = ends_the_log or not flushed
        recovery = any(row["recovery"] for row in covered) or (
            not covered and unflushed and not claims.clean
        )
        after.append(_row_of(swap, covered or [*rows[:1], own], recovery=recovery))
    after.sort(key=lambda row: row["base_offset"])
    return [row | {"active": row is after[-1]} for row in after]


def _row_of(swap: Swap, covered: Sequence[SegmentRow], *, recovery: bool) -> SegmentRow:
    facts = swap.built.facts
    new: SegmentRow = {
        **covered[0],
        "base_offset": swap.base_offset,
        "log": listed_row(swap.file),
        "depth": "full",
        "stop": "",
        "blocked": "",
        "valid_bytes": facts.valid_bytes,
        "last_offset": facts.next_offset - 1,
        "magic_bytes": facts.magics,
        "recovery": recovery,
        "findings": [],
    }
    return new


def left_by(decision: Decision, swaps: Sequence[Swap]) -> Blocked | None:
    """Return why replacements cannot be finished as decided, None if they can.

    No log may be cut before a replacement.
    """
    for swap in swaps:
        if swap.base_offset in [row["base_offset"] for row in decision.dropped]:
            why = "is to replace a log behind the place where the log ends"
            return Blocked(swap.file.name, f"{swap.file.name} {why}")
    return None


def releases_differ(decision: Decision, others: Sequence[FileFacts]) -> Blocked | None:
    """Return why releases end a log differently, None if they do not.

    A broker up to 2.8 deletes an index beside its `.swap`, and so recovers the segment alone; newer
    ones put the `.swap` in place, and delete the segments behind a cut.
    """
    last = decision.kept[-1]
    replaced = {paths.segment_file(last["base_offset"], kind) + SWAP for kind in paths.INDEX_KINDS}
    file = next((f.name for f in others if f.name in replaced), "")
    if not decision.dropped or not file:
        return None
    why = "brokers up to 2.8 keep the segments behind it, newer ones delete them"
    return Blocked(log_of(last), f"{log_of(last)} is cut beside {file}: {why}")


def swap_items(
    swaps: Sequence[Swap],
    rows: Sequence[SegmentRow],
    decision: Decision,
    building: Building,
    there: Mapping[str, FileFacts],
) -> list[Item]:
    """Return the items that finish the replacements. The `.swap` files themselves are removed by
    `items.leftovers`.

    `rows` are the segments before, `there` all files of the directory by name: an index of the old
    log may be left without it. From the first segment that is recovered on `items.small_items` has
    the indexes of aborted transactions.
    """
    return [item for swap in swaps for item in _swapped_in(swap, rows, decision, building, there)]


def _swapped_in(
    swap: Swap,
    rows: Sequence[SegmentRow],
    decision: Decision,
    building: Building,
    there: Mapping[str, FileFacts],
) -> Iterator[Item]:
    replayed = swap.base_offset >= decision.first
    if replayed:
        swap = swap._replace(transactions=None)
    covered = [row for row in rows if swap.covers(row["base_offset"])]
    same = next((row for row in covered if row["base_offset"] == swap.base_offset), None)
    reason = f"a broker was replacing it: {swap.file.name}"
    for kind, (size, sha256) in _contents(swap).items():
        file = paths.segment_file(swap.base_offset, kind)
        before = listed_row(there[file]) if file in there else None
        item = item_of(
            decision.kept[-1], file, building.rule, "replace" if before else "add", reason
        )
        yield item | {
            "base_offset": swap.base_offset,
            "next_base_offset": -1,
            "before": before,
            "log": listed_row(swap.file),
            "log_valid_bytes": swap.file.size,
            "index_interval_bytes": building.index_interval_bytes or INDEX_INTERVAL_BYTES,
            "segment_index_bytes": building.segment_index_bytes or SEGMENT_INDEX_BYTES,
            "after_bytes": size,
            "after_sha256": sha256,
        }
    made = {paths.segment_file(swap.base_offset, kind) for kind in _contents(swap)}
    for row in covered:
        for kind in paths.SEGMENT_KINDS:
            file, before = paths.segment_file(row["base_offset"], kind), file_of(row, kind)
            if before is None or file in made or kind == paths.SNAPSHOT:
                continue
            if row is same and kind == paths.TXN_INDEX and replayed:
                continue
            yield item_of(row, file, building.rule, "remove", reason) | {"before": before}


def _contents(swap: Swap) -> dict[str, tuple[int, str]]:
    """Return the size and hash of each new file by kind; the hash of the log is not known yet."""
    files = [
        (paths.OFFSET_INDEX, swap.built.offset_index),
        (paths.TIME_INDEX, swap.built.time_index),
    ]
    if swap.transactions is not None:
        files.append((paths.TXN_INDEX, swap.transactions))
    made = {kind: (len(data), hashlib.sha256(data).hexdigest()) for kind, data in files}
    return {paths.LOG: (swap.file.size, ""), **made}
