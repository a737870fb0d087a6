"""From a real directory to one of another message format: plan and apply by the command line, then Kafka's word.

For each directory and target, of every partition:

    the new logs are what the reference makes of the old ones, byte for byte; what is left is left for a reason
    a second plan is empty, and nothing else was touched
    every record that 4.3.1 reads there is what it read before, and what the consumer of the case read: below magic 2
    without headers and control records, in magic 0 without timestamps
    4.3.1 and 2.8.2 load it after a clean stop: same log start and end, every segment read to its end, our files kept;
    and after a crash, from offset 0 on: the indexes that they rebuild and the logs that they leave are ours; 0.10.2.2
    recovers whole what has no magic 2 any more
    searches by time answer as before, and as the broker of the case did, where timestamps live on
    producers: what a broker knows of them from our snapshots, and from the log alone, is what it knew before; below magic
    2 there are none
"""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple

import yaml

from conformance.judge import Judge
from conformance.repair import circumstances, kafkats, policy_of
from conformance.tally import Tally
from kafkats.errors import BadInput
from kafkats.formats.build import Target
from kafkats.formats.convert import convert_segment
from kafkats.formats.dispatch import batches
from kafkats.formats.model import Codec
from tests.golden import RECORDS_OF, Case, is_segment, partitions, tree

WRITTEN = "migrated logs are the reference's"
LEFT = "what is left as it was, for a reason"
UNTOUCHED = "all other files as before the migration"
AGAIN = "a second plan of the migration is empty"
RECORDS = "records of the migrated directory as before"
CONSUMED = "records of the migrated directory as the consumer had them"
CLEAN = "migrated, loaded with the clean flag"
CRASHED = "migrated, recovered from offset 0 on"
TIMES = "migrated, offsets for times as before"
ANSWERED = "migrated, offsets for times as recorded"
RECOVERED = "migrated below magic 2, recovered whole by a Kafka that knows no other"
PRODUCERS = "migrated, producers as before"
NEWEST: Final = "4.3.1"
PROBES: Final = 12
"""Timestamps that are searched in each partition, besides the recorded ones."""


class Goal(NamedTuple):
    """Words of the command line."""

    magic: int
    codec: str = "producer"

    @property
    def target(self) -> Target:
        return Target(self.magic, None if self.codec == "producer" else Codec[self.codec.upper()])

    def __str__(self) -> str:
        return f"to magic {self.magic}, {self.codec}"


class Told(NamedTuple):
    """What one Kafka says of a partition: its loads after a clean stop and after a crash, what searches for `probes` find."""

    clean: dict[str, Any]
    crashed: dict[str, Any]
    found: list[dict[str, Any]]
    producers: list[Any]
    producers_from_log: list[Any]


@dataclass(frozen=True)
class Old:
    """An unpacked state, and what Kafka says of it."""

    case: Case
    state: str
    root: Path
    records: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    """Partition -> its records as 4.3.1 reads them, each with what it needs of its batch."""
    probes: dict[str, list[int]] = field(default_factory=dict)
    told: dict[tuple[str, str], Told] = field(default_factory=dict)
    """(version, partition) -> its words; nothing where that Kafka cannot load the partition."""

    def __str__(self) -> str:
        return f"{self.case}:{self.state}"

    def has(self, codec: str) -> bool:
        return any(
            record["codec"] == codec for records in self.records.values() for record in records
        )

    def roots(self, root: Path) -> list[Path]:
        """The log.dirs roots below an unpacked state: itself, or one folder each."""
        return sorted(root.glob("disk-*")) or [root]

    def partitions(self) -> list[Path]:
        """Directories that a broker of the case serves to consumers."""
        found = (p for p in partitions(self.root) if not p.name.startswith("__cluster_metadata"))
        return [p for p in found if not p.name.endswith(("-delete", "-stray", "-future"))]


@dataclass(frozen=True)
class New:
    """The directory after its migration."""

    old: Old
    goal: Goal
    root: Path
    items: list[dict[str, Any]]
    """Of the plan."""

    def __str__(self) -> str:
        return f"{self.old} {self.goal}"

    @property
    def case(self) -> str:
        return self.old.case.name

    def partition(self, old: Path) -> Path:
        return self.root / old.relative_to(self.old.root)

    def written(self, partition: Path) -> Iterator[Path]:
        """Files of this partition of the new root that the plan put there."""
        for item in self.items:
            if item["partition_dir"] == partition.name and item["action"] in ("replace", "add"):
                yield partition / item["file"]

    def indexes(self) -> Iterator[Path]:
        for old in self.old.partitions():
            yield from (
                path
                for path in self.written(self.partition(old))
                if path.suffix in (".index", ".timeindex")
            )


# ---------------------------------------------------------------- before and after


def look(case: Case, state: str, work: Path, judges: Sequence[Judge]) -> Old:
    """Unpack a state and ask every Kafka what it is."""
    root = work / "old"
    root.mkdir(parents=True)
    old = Old(case, state, case.unpack(state, root))
    newest = next(judge for judge in judges if judge.version == NEWEST)
    for partition in old.partitions():
        old.records[partition.name] = read(newest, partition)
        old.probes[partition.name] = _probes(old.records[partition.name])
        for judge in judges:
            told = _tell(judge, old, partition, partition)
            if "error" not in told.clean and "error" not in told.crashed:
                old.told[judge.version, partition.name] = told
    return old


def read(judge: Judge, partition: Path) -> list[dict[str, Any]]:
    """Every record of every segment, in order, with its batch's magic, timestamp type, epoch and whether it is a control batch."""
    records = []
    for log in sorted(filter(is_segment, partition.glob("*.log"))):
        for batch in judge("dump", log, "--deep", "--hex")["batches"]:
            about = {
                "magic": batch["magic"],
                "codec": batch["codec"],
                "type": batch["ts_type"],
                "epoch": batch.get("leader_epoch", -1),
                "control": batch.get("control", False),
                "valid": batch["valid"],
            }
            records += [
                about | record for record in batch.get("records", [batch.get("records_error", {})])
            ]
    return records


def _probes(records: list[dict[str, Any]]) -> list[int]:
    times = sorted(
        {record["timestamp"] + around for record in records for around in (0, 1)} - {-3, -2, -1}
    )
    step = max(1, len(times) // PROBES)
    return [0, *times[::step], *times[-1:]]


def _tell(judge: Judge, old: Old, asked: Path, original: Path) -> Told:
    """`asked` is the partition itself or what it became; a broker's circumstances are always those of the original."""
    words = circumstances(old.case, original)
    out = asked.parent.parent / "told"
    clean = judge("load", asked, "--out", out / "clean", *words)
    producers = _producers(judge, clean)
    # After a kill nothing but the logs can be trusted.
    bare = out / "bare" / asked.name
    shutil.copytree(asked, bare, ignore=shutil.ignore_patterns("*.snapshot"))
    crashed = judge(
        "load", bare, "--out", out / "crashed", *words, "--clean", "false", "--recovery-point", 0
    )
    producers_from_log = _producers(judge, crashed)
    probes = old.probes[original.name]
    answer = judge("offset-for-time", asked, *probes, "--out", out / "asked", *words)
    found = answer.get("found", [answer] * len(probes))
    shutil.rmtree(out)
    return Told(clean, crashed, found, producers, producers_from_log)


def _extent(answer: dict[str, Any]) -> tuple[int, int, tuple[int, ...]]:
    bases = tuple(segment["base_offset"] for segment in answer["segments"])
    return answer["log_start_offset"], answer["log_end_offset"], bases


def _producers(judge: Judge, answer: dict[str, Any]) -> list[Any]:
    """What the newest snapshot says that the load left; only 4.x is asked, the files are the same."""
    snapshots = [name for name in answer.get("files", {}) if name.endswith(".snapshot")]
    if not snapshots or judge.version != NEWEST:
        return []
    entries = judge("dump", Path(answer["dir"], max(snapshots)))["entries"]
    return sorted(entries, key=lambda entry: entry["producer_id"])


def migrate(old: Old, goal: Goal, work: Path, tally: Tally) -> New:
    """A copy of the state, migrated by `kafkats plan migrate` and `kafkats apply`."""
    root = work / f"{goal.magic}-{goal.codec}" / "data"
    shutil.copytree(old.root, root, symlinks=True)
    policy = root.parent / "policy.yaml"
    policy.write_text(yaml.safe_dump(policy_of(old.case)))
    words = (
        "--to-magic",
        goal.magic,
        "--compression-type",
        goal.codec,
        "--accept-loss",
        "all",
        "--policy",
        policy,
        "--json",
    )
    before = tree(root)
    _, rows = kafkats("plan", "migrate", *old.roots(root), "-o", root.parent / "plan", *words)
    digest = rows[-1]["summary"]["digest"]
    items = _items(root.parent / "plan")
    _, rows = kafkats(
        "apply", root.parent / "plan", "--digest", digest, "--owner-stopped", "--json"
    )
    new = New(old, goal, root, items)
    failed = [row for row in rows if row.get("outcome") == "failed"]
    tally.same(WRITTEN, "-", new.case, f"what failed of {new}", failed[:1], [])
    _, again = kafkats("plan", "migrate", *old.roots(root), "-o", root.parent / "plan-2", *words)
    tally.same(AGAIN, "-", new.case, str(new), again[-1]["summary"]["files"], 0)
    _compare_untouched(new, before, tree(root), tally)
    return new


def _items(plan: Path) -> list[dict[str, Any]]:
    from kafkats.plans.plan import read_plan

    return read_plan(plan).items.to_pylist()


def _compare_untouched(
    new: New, before: dict[str, Any], after: dict[str, Any], tally: Tally
) -> None:
    def name(item: dict[str, Any]) -> str:
        return str(Path(item["log_dir"], item["partition_dir"], item["file"]).relative_to(new.root))

    changed = {name(item): item["action"] for item in new.items if item["action"] != "blocked"}
    for path in sorted(before.keys() | after.keys()):
        if path.endswith(".lock") or path.startswith(".kafkats") or (new.root / path).is_dir():
            continue  # a lock may be made, a work area lies beside the disks, a directory's times follow its entries
        if changed.get(path) == "remove":
            tally.same(UNTOUCHED, "-", new.case, f"{path} of {new}, removed", path in after, False)
        elif path not in changed:
            tally.same(
                UNTOUCHED, "-", new.case, f"{path} of {new}", after.get(path), before.get(path)
            )


# ---------------------------------------------------------------- what must hold afterwards


def compare_written(new: New, tally: Tally) -> None:
    """Each log's bytes and time, and which segments were left."""
    for old in new.old.partitions():
        logs = sorted(filter(is_segment, old.glob("*.log")))
        left = set()
        for log in logs:
            data, active = log.read_bytes(), log == logs[-1]
            try:
                expected = convert_segment(
                    data, int(log.stem), new.goal.target, log_end=active
                ).data
            except BadInput:
                expected, blocked = data, True
            else:
                # Nobody may touch what a broker has yet to recover.
                blocked = active and not (old.parent / ".kafka_cleanshutdown").exists()
            if blocked:
                left.add(log.name)
            made = new.partition(old) / log.name
            expected = data if blocked else expected
            ours = _sha256(made), made.stat().st_mtime_ns
            theirs = hashlib.sha256(expected).hexdigest(), log.stat().st_mtime_ns
            tally.same(WRITTEN, "-", new.case, f"{old.name}/{log.name} of {new}", ours, theirs)
        said = {
            i["file"]
            for i in new.items
            if i["partition_dir"] == old.name and i["action"] == "blocked"
        }
        tally.same(
            LEFT, "-", new.case, f"segments of {old.name} of {new}", sorted(said), sorted(left)
        )
        for name in left:
            index = Path(name).with_suffix(".txnindex")
            kept = _maybe(new.partition(old) / index), _maybe(old / index)
            tally.same(LEFT, "-", new.case, f"{index} of {old.name} of {new}", *kept)


def compare_records(new: New, judge: Judge, tally: Tally) -> None:
    """All records against what 4.3.1 read before, and against what the consumer of the case read."""
    for old in new.old.partitions():
        ours = read(judge, new.partition(old))
        magics = {record["offset"]: record["magic"] for record in ours if "offset" in record}
        theirs = [
            _as_read(record, magics.get(record.get("offset"), new.goal.magic))
            for record in new.old.records[old.name]
            if not record["control"] or record.get("offset") in magics or new.goal.magic == 2
        ]
        what = f"{old.name} of {new}"
        same_list(
            RECORDS,
            judge.version,
            new.case,
            what,
            [_as_read(r, r.get("magic", 2)) for r in ours],
            theirs,
            tally,
        )
        _compare_consumed(new, old.name, ours, magics, judge, tally)


def _as_read(record: dict[str, Any], magic: int) -> tuple[object, ...]:
    """What is left of a record in a batch of that magic; leader epochs only live on where the batch was of magic 2."""
    if "offset" not in record:
        return tuple(record.items())
    type_ = (
        "NoTimestampType" if magic == 0 else record["type"].replace("NoTimestampType", "CreateTime")
    )
    return (
        record["offset"],
        -1 if magic == 0 else record["timestamp"],
        type_,
        record["key"],
        record["value"],
        record.get("headers", []) if magic == 2 else [],
        record["epoch"] if magic == 2 else -1,
        record["control"],
        record["valid"] and record["valid"] is not None,
    )


def _compare_consumed(
    new: New,
    partition: str,
    ours: list[dict[str, Any]],
    magics: dict[int, int],
    judge: Judge,
    tally: Tally,
) -> None:
    label = RECORDS_OF.get(new.old.case.kind, {"data": "records"}).get(new.old.state)
    facts = new.old.case.info["partitions"].get(partition, {}).get(label)
    if label is None or facts is None:
        return
    said = [one for one in new.old.case.records(label) if one["tp"] == partition]
    if not facts["consumer"].startswith(f"{len(said)} records, position"):
        return
    readable = range(facts["log_start_offset"], facts["log_end_offset"])
    mine = [_as_consumed(r) for r in ours if r.get("offset") in readable and not r["control"]]
    theirs = [as_recorded(one, magics.get(one["offset"], new.goal.magic)) for one in said]
    same_list(CONSUMED, judge.version, new.case, f"{partition} of {new}", mine, theirs, tally)


def _as_consumed(record: dict[str, Any]) -> tuple[object, ...]:
    return (
        record["offset"],
        record["timestamp"],
        record["type"],
        content(record["key"]),
        content(record["value"]),
        record.get("headers", []),
    )


def content(data: str | None) -> tuple[object, ...] | None:
    """Hex as the golden files give it: beyond 40 bytes the hash's first digits and the size."""
    if data is None:
        return None
    raw = bytes.fromhex(data)
    return (data,) if len(raw) <= 40 else (hashlib.sha256(raw).hexdigest()[:16], len(raw))


def as_recorded(said: dict[str, Any], magic: int) -> tuple[object, ...]:
    def content(name: str) -> tuple[object, ...] | None:
        if name in said:
            return None if said[name] is None else (said[name],)
        return said[f"{name}_sha256"], said[f"{name}_size"]

    timestamp = -1 if said["timestamp"] is None or magic == 0 else said["timestamp"]
    type_ = (said["timestamp_type"] or "CreateTime").replace("NoTimestampType", "CreateTime")
    return (
        said["offset"],
        timestamp,
        "NoTimestampType" if magic == 0 else type_,
        content("key"),
        content("value"),
        said.get("headers", []) if magic == 2 else [],
    )


def compare_loads(new: New, judge: Judge, tally: Tally) -> None:
    """A start after a clean stop, a start after a crash, searches by time, and the producers that are known then."""
    for old in new.old.partitions():
        before = new.old.told.get((judge.version, old.name))
        if before is None:
            continue
        made, what = new.partition(old), f"{old.name} of {new}"
        after = _tell(judge, new.old, made, old)
        _compare_load(CLEAN, new, judge, what, after.clean, before.clean, made, tally)
        _compare_load(CRASHED, new, judge, what, after.crashed, before.crashed, made, tally)
        if new.goal.magic > 0 and (new.goal.magic == 2 or not _has_control(new, old)):
            probes = new.old.probes[old.name]
            for probe, found, theirs in zip(probes, after.found, before.found, strict=True):
                tally.same(
                    TIMES,
                    judge.version,
                    new.case,
                    f"{probe} in {what}",
                    _position(found),
                    _position(theirs),
                )
        if judge.version == NEWEST:
            _compare_producers(new, judge, old.name, after, before, tally)


def _compare_load(
    check: str,
    new: New,
    judge: Judge,
    what: str,
    ours: dict[str, Any],
    theirs: dict[str, Any],
    made: Path,
    tally: Tally,
) -> None:
    if "error" in ours:
        tally.differs(
            f"{check}, Kafka {judge.version}, {what}: {ours['error']}: {ours.get('message')}"
        )
        return
    extents = _extent(ours), _extent(theirs)
    tally.same(
        check, judge.version, new.case, f"log start, log end and segments of {what}", *extents
    )
    unread = [s for s in ours["segments"] if not isinstance(s["next_offset"], int)]
    tally.same(
        check,
        judge.version,
        new.case,
        f"every segment of {what} can be read to its end",
        unread,
        [],
    )
    for path in new.written(made):
        left = ours["files"].get(path.name, {}).get("sha256", "no such file")
        tally.same(check, judge.version, new.case, f"{path.name} of {what}", _sha256(path), left)


def _has_control(new: New, old: Path) -> bool:
    """Searches find control records too."""
    return any(record["control"] for record in new.old.records[old.name])


def _position(answer: dict[str, Any]) -> tuple[object, ...]:
    """Offset and time; the epoch of an answer is not the old formats' to keep."""
    return answer.get("offset"), answer.get("timestamp"), answer.get("error")


def _compare_producers(
    new: New, judge: Judge, partition: str, after: Told, before: Told, tally: Tally
) -> None:
    """In magic 2 as before. Below nothing that the log does not tell: of producers only those of segments that were left in
    magic 2, and of the marker that stays for the log end's sake, its epoch."""
    what = f"{partition} of {new}"
    actions = {item["action"] for item in new.items if item["partition_dir"] == partition}
    if new.goal.magic == 2 or not actions - {"blocked"}:
        for how, ours, theirs in (
            ("by our snapshots", after.producers, before.producers),
            ("from the log alone", after.producers_from_log, before.producers_from_log),
        ):
            tally.same(PRODUCERS, judge.version, new.case, f"{how}, {what}", ours, theirs)
        return
    invented = [one for one in after.producers if one not in after.producers_from_log]
    tally.same(
        PRODUCERS,
        judge.version,
        new.case,
        f"more by our snapshots than from the log, {what}",
        invented,
        [],
    )
    if "blocked" not in actions:
        open_ = [
            one
            for one in after.producers_from_log
            if one["current_txn_first_offset"] or one["batches"] != "[]"
        ]
        tally.same(PRODUCERS, judge.version, new.case, f"from the log alone, {what}", open_, [])


def compare_recorded_times(new: New, judge: Judge, tally: Tally) -> None:
    """The answers that the broker of the case gave, where they were asked of this state and timestamps live on."""
    if new.goal.magic == 0 or new.old.state != new.old.case.states[-1]:
        return
    for recorded in new.old.case.times():
        for old in (p for p in new.old.partitions() if p.name == recorded["tp"]):
            if not recorded["api"].startswith("Java consumer") or (
                new.goal.magic < 2 and _has_control(new, old)
            ):
                continue
            wanted = recorded["answers"]
            out = new.root.parent / "asked"
            words = circumstances(new.old.case, old, recorded["asked_at_ms"])
            answer = judge(
                "offset-for-time", new.partition(old), *(t for t, _ in wanted), "--out", out, *words
            )
            shutil.rmtree(out, ignore_errors=True)
            for (timestamp, theirs), found in zip(
                wanted, answer.get("found", [answer] * len(wanted)), strict=True
            ):
                what = f"{timestamp} in {old.name} of {new}"
                mine = (
                    {key: found.get(key) for key in ("offset", "timestamp")}
                    if "offset" in found
                    else None
                )
                other = (
                    {key: theirs.get(key) for key in ("offset", "timestamp")} if theirs else None
                )
                tally.same(ANSWERED, judge.version, new.case, what, mine, other)


def compare_old_recovery(new: New, judge: Judge, tally: Tally) -> None:
    """A Kafka that knows no magic 2 recovers what was made for it, to the last byte; it looks into every wrapper."""
    for old in new.old.partitions():
        for log in (path for path in new.written(new.partition(old)) if path.suffix == ".log"):
            if any(batch.magic == 2 for batch in batches(log.read_bytes())):
                continue
            out = new.root.parent / "recovered"
            settings = ("--index-interval", 100, "--segment-index-bytes", 1 << 20)
            answer = judge("recover", log, "--out", out, *settings)
            shutil.rmtree(out, ignore_errors=True)
            what = f"{old.name}/{log.name} of {new}"
            size = answer.get("size", answer.get("message"))
            tally.same(RECOVERED, judge.version, new.case, what, size, log.stat().st_size)


def same_list(
    check: str, version: str, case: str, what: str, ours: list[Any], theirs: list[Any], tally: Tally
) -> None:
    at = next(
        (n for n, (a, b) in enumerate(zip(ours, theirs, strict=False)) if a != b),
        min(len(ours), len(theirs)),
    )
    if ours == theirs:
        tally.same(check, version, case, what, len(ours), len(theirs))
        return
    tally.differs(
        f"{check}, Kafka {version}, record {at} of {what} ({len(ours)} against {len(theirs)}):"
        f" ours {str(ours[at : at + 1])[:300]}, Kafka's {str(theirs[at : at + 1])[:300]}"
    )


def _maybe(path: Path) -> str | None:
    return _sha256(path) if path.exists() else None


def _sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
