"""From a damaged directory to a broker that reads it: verify, plan and apply by the command line, then Kafka's word.

What is repaired: every last state of every case with all its indexes damaged by us, and the states that real brokers left
behind in `crash-*` and `clean-start-*`, damaged as they are. Then, for each:

    every file that was written is the one that Kafka's own recovery makes (hashes from recovery.py)
    nothing else was touched, and a second plan is empty
    4.3.1, and 2.8.2 where it is not older than the case, load each partition with the clean flag, keep our files, and
    read each segment to its end; they answer searches by time as the broker of the case did
    kafka-dump-log finds nothing
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from conformance.damage import damage_indexes
from conformance.judge import Judge
from conformance.tally import Tally
from kafkats.cli import main
from tests.golden import Case, partitions, tree

LOG_DAMAGE = {
    "torn-tail", "torn-tail-marked-clean", "zero-tail", "bad-length", "bad-magic", "bad-crc", "bad-header",
    "offsets-not-increasing", "offset-out-of-range", "overlap", "preallocated", "moving-tail",
}  # fmt: skip
WRITTEN = "written files against LogSegment.recover"
UNTOUCHED = "all other files as before"
AGAIN = "a second plan is empty"
_GIVEN_UP = ("--accept-loss", "offsets")
"""Segments are gone in some cases: what is left gets its indexes all the same."""
LOADED = "loaded with the clean flag, our files kept"
TIMES = "offsets for times as recorded"


@dataclass
class Repair:
    """One root on its way."""

    case: Case
    state: str
    root: Path
    rule: str
    work: Path
    items: list[dict[str, Any]] = field(default_factory=list)
    findings: list[dict[str, Any]] = field(default_factory=list)

    def __str__(self) -> str:
        return f"{self.case}:{self.state} ({self.rule})"

    @property
    def name(self) -> str:
        return self.case.name

    def written(self) -> Iterator[tuple[dict[str, Any], Path]]:
        for item in self.items:
            if item["action"] != "blocked":
                yield item, Path(item["log_dir"], item["partition_dir"], item["file"])

    def is_for_2_8(self) -> bool:
        """Whether 2.8.2 reads this directory: by its rule, from no later broker."""
        return self.rule == "last-offset" and tuple(map(int, self.case.kafka.split(".")[:2])) <= (
            2,
            8,
        )

    def partitions(self) -> list[Path]:
        """Directories that a broker of the case serves, whose logs hold up."""
        corrupt = {
            Path(finding["log_dir"], finding["partition_dir"])
            for finding in self.findings
            if finding["kind"] in LOG_DAMAGE and finding["file"].endswith(".log")
        }
        found = (
            p
            for p in partitions(self.root)
            if p not in corrupt and not p.name.startswith("__cluster_metadata")
        )
        return [p for p in found if not p.name.endswith(("-delete", "-stray", "-future"))]

    def roots(self) -> list[Path]:
        """The log.dirs roots below the unpacked state: itself, or one folder each."""
        disks = sorted(self.root.glob("disk-*"))
        return disks or [self.root]


def kafkats(*words: object) -> tuple[int, list[dict[str, Any]]]:
    """Run the command line in this process: its exit code and its JSON lines."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            main([str(word) for word in words])
            code = 0
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else 1
    if code > 1:
        raise RuntimeError(f"kafkats {words[0]} {words[1]} ended with {code}: {err.getvalue()}")
    return code, [json.loads(line) for line in out.getvalue().splitlines()]


def policy_of(case: Case) -> dict[str, Any]:
    """The case's settings as a policy file: what its topics were created with."""
    topics = {
        topic: {
            key: int(value)
            for key, value in what.get("config", {}).items()
            if "index" in key and key.endswith("bytes")
        }
        for topic, what in case.info["topics"].items()
    }
    defaults = {
        "index.interval.bytes": case.interval(""),
        "segment.index.bytes": case.index_bytes(""),
    }
    return {"defaults": defaults, "topics": topics}


def prepare(case: Case, state: str, rule: str, work: Path, *, damage: bool) -> Repair:
    """Unpack, and damage every index where asked."""
    root = work / f"{case}.{state}.{rule}" / "data"
    root.mkdir(parents=True)
    case.unpack(state, root)
    one = Repair(case, state, root, rule, root.parent)
    if damage:
        for partition in partitions(root):
            if not partition.name.startswith("__cluster_metadata"):
                damage_indexes(partition)
    (one.work / "policy.yaml").write_text(yaml.safe_dump(policy_of(case)))
    return one


def repair(one: Repair, tally: Tally, *, every: bool = False) -> None:
    """Verify, plan, apply, plan again. `every` also rewrites what is sound."""
    before = tree(one.root)
    one.findings = _verify(one)
    policy = ("--policy", one.work / "policy.yaml", "--generation", one.rule, "--json")
    _, rows = kafkats(
        "plan",
        "rebuild",
        *one.roots(),
        "-o",
        one.work / "plan",
        *(["--all"] if every else []),
        *_GIVEN_UP,
        *policy,
    )
    digest = rows[-1]["summary"]["digest"]
    one.items = _items(one.work / "plan")
    kafkats("apply", one.work / "plan", "--digest", digest, "--owner-stopped", "--json")
    _, again = kafkats(
        "plan", "rebuild", *one.roots(), "-o", one.work / "plan-2", *_GIVEN_UP, *policy
    )
    tally.same(AGAIN, "-", one.name, str(one), again[-1]["summary"]["files"], 0)
    changed = {str(path.relative_to(one.root)) for _, path in one.written()}
    after = tree(one.root)
    for path in sorted((before.keys() | after.keys()) - changed):
        kept = before.get(path), after.get(path)
        if path.endswith(".lock") or path.startswith(".kafkats") or (one.root / path).is_dir():
            continue  # a lock may be made, a work area lies beside the disks, a directory's times follow its entries
        tally.same(UNTOUCHED, "-", one.name, f"{path} of {one}", kept[1], kept[0])


def _verify(one: Repair) -> list[dict[str, Any]]:
    policy = ("--policy", one.work / "policy.yaml", "--generation", one.rule, "--json")
    _, rows = kafkats("verify", *one.roots(), *policy)
    return [row for row in rows if "kind" in row]


def _items(plan: Path) -> list[dict[str, Any]]:
    from kafkats.plans.plan import read_plan

    return read_plan(plan).items.to_pylist()


def compare_written(
    one: Repair, recovered: dict[tuple[str, ...], dict[str, str]], tally: Tally
) -> None:
    """Each written file against the hash of what Kafka's recovery made of the same log."""
    for item, path in one.written():
        if item["log_valid_bytes"] != item["log"]["size"]:
            continue
        log = path.parent / f"{item['base_offset']:020d}.log"
        settings = (
            item["base_offset"],
            item["index_interval_bytes"],
            item["segment_index_bytes"],
            one.rule,
        )
        key = (_sha256(log), *map(str, settings))
        theirs = recovered.get(key, {}).get(path.suffix.strip("."), "not asked")
        tally.same(
            WRITTEN,
            "4.3.1" if one.rule == "last-offset" else "1.1.1",
            one.name,
            f"{path} of {one}",
            _sha256(path),
            theirs,
        )


def load(one: Repair, judge: Judge, tally: Tally) -> None:
    """A real broker class opens every sound partition as after a clean stop."""
    ours = {path: _sha256(path) for _, path in one.written()}
    for partition in one.partitions():
        out = one.work / "loaded"
        answer = judge("load", partition, "--out", out, *circumstances(one.case, partition))
        shutil.rmtree(out, ignore_errors=True)
        what = f"{partition.name} of {one}"
        if "error" in answer:
            tally.differs(
                f"{LOADED}, Kafka {judge.version}, {what}: {answer['error']}: {answer.get('message')}"
            )
            continue
        unread = [s for s in answer["segments"] if not isinstance(s["next_offset"], int)]
        tally.same(
            LOADED,
            judge.version,
            one.name,
            f"every segment of {what} can be read to its end",
            unread,
            [],
        )
        for path, sha256 in ours.items():
            if path.parent == partition and path.name in answer["files"]:
                kept = answer["files"][path.name]["sha256"]
                tally.same(LOADED, judge.version, one.name, f"{path.name} of {what}", sha256, kept)


def ask_times(one: Repair, judge: Judge, tally: Tally) -> None:
    """Searches by time on the repaired directory, against the answers of the case's own broker."""
    if one.state != one.case.states[-1]:
        return
    for recorded in one.case.times():
        if not recorded["api"].startswith("Java consumer"):
            continue
        (partition,) = (p for p in one.root.rglob(recorded["tp"]) if p.is_dir())
        if partition not in one.partitions():
            continue
        wanted = recorded["answers"]
        out = one.work / "asked"
        words = [timestamp for timestamp, _ in wanted]
        answer = judge(
            "offset-for-time",
            partition,
            *words,
            "--out",
            out,
            *circumstances(one.case, partition, recorded["asked_at_ms"]),
        )
        shutil.rmtree(out, ignore_errors=True)
        if "error" in answer:
            tally.differs(f"{TIMES}, Kafka {judge.version}, {partition.name} of {one}: {answer}")
            continue
        for (timestamp, theirs), found in zip(wanted, answer["found"], strict=True):
            ours = (
                {key: found.get(key) for key in theirs}
                if theirs
                else {k: v for k, v in found.items() if k == "offset"} or None
            )
            tally.same(
                TIMES,
                judge.version,
                one.name,
                f"{timestamp} in {partition.name} of {one}",
                ours,
                theirs,
            )


def circumstances(case: Case, partition: Path, now_ms: int | None = None) -> list[object]:
    """What a broker knows besides the directory itself, after a clean stop."""
    root = partition.parent
    newest = max(path.stat().st_mtime_ns // 1_000_000 for path in partition.iterdir())
    config = case.topic_config(partition.name)
    config.pop(
        "message.format.version", None
    )  # 2.8 would refuse to search magic 0 by time, and it converts nothing here
    settings = [word for key, value in config.items() for word in ("--config", f"{key}={value}")]
    start = _checkpoint(root / "log-start-offset-checkpoint", partition.name)
    point = _checkpoint(root / "recovery-point-offset-checkpoint", partition.name)
    return [
        "--clean",
        "true",
        "--log-start",
        start,
        "--recovery-point",
        point,
        "--now",
        now_ms or newest,
        *settings,
    ]


def _checkpoint(file: Path, partition: str) -> int:
    topic, _, number = partition.rpartition("-")
    lines = file.read_text().splitlines()[2:] if file.exists() else []
    found = {tuple(line.split()[:2]): int(line.split()[2]) for line in lines}
    return found.get((topic, number), 0)


def _sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
