"""A broker of a cluster, recovered by itself or by kafkats, must rejoin and lead alike.

    scripts/conformance clusters           4.3.1 with eligible leader replicas, and 2.8.2 with ZooKeeper: one seed
    scripts/conformance clusters --full    two seeds of each
    scripts/conformance clusters 2.8.2     one of them

Broker 2 is killed under load, with records that no other broker has, and its directory is damaged as by a loss of
power. Meanwhile others lead and write. Then all stop, and the cluster starts twice from the same copy of all
directories: broker 2 recovers by itself, or after kafkats. It fetches until it is in sync, leads alone, serves every
record, gets the other brokers back as followers, and appends.

With an odd seed broker 3 stops first. Then broker 1 alone is in sync when broker 2 has been killed, and broker 2 is
an eligible leader replica (KIP-966) until it registers again without a clean shutdown.
"""

from __future__ import annotations

import random
import shutil
import time
from pathlib import Path
from typing import Final, NamedTuple

from conformance.cluster import BROKERS, Cluster
from conformance.cluster_state import (
    History,
    Membership,
    described,
    history,
    membership,
    metadata_log,
    replicated_bytes,
    wait_for_leaders,
    wait_for_sync,
)
from conformance.raw_requests import Answer, produce_batch, replicas
from conformance.recovered import lose_power, partitions, run_command
from conformance.rejoined import (
    Logs,
    Records,
    fetched_after_start,
    log_ends,
    logs_of,
    read_all,
    truncations,
)
from conformance.soak import settings
from conformance.soaked import Writers
from conformance.tally import Tally
from conformance.writers import PLACES, REPLICATED
from kafkats.formats import v2
from kafkats.formats.model import Record, TimestampType

VERSIONS: Final = ("4.3.1", "2.8.2")
SEEDS: Final = {False: (1,), True: (0, 1)}
KILLED: Final = 2
LOAD_S: Final = 8
ALONE: Final = 20
"""Records in each partition that only the killed broker has."""
CUT: Final = "the broker that rejoins truncates as after its own recovery"
LOGS: Final = "in sync, its logs hold the bytes that they hold after its own recovery"
FETCHED: Final = "it fetches as many bytes as after its own recovery"
COUNTED: Final = "its metric counts the bytes that it has fetched"
MEMBER: Final = "leaders, in-sync and eligible leader replicas change as after its own recovery"
SERVED: Final = "as leader it serves the records that it serves after its own recovery"
FOLLOWED: Final = "followers of the recovered leader truncate as after its own recovery"
APPENDED: Final = "as leader it appends at the offset of its own recovery"
FACTS: Final = "the cluster is in the state that the comparison needs"


_EFFECT: Final = " Truncating to offset "
"""In the line of a truncation that removes batches."""


class Rejoined(NamedTuple):
    """One start of the cluster from the saved state."""

    truncations: list[str]
    fetched: dict[str, int]
    counted: int
    logs: dict[str, Logs]
    members: list[Membership]
    """Before the broker starts, when it is in sync, and when it leads and is followed."""
    history: History
    records: dict[str, Records]
    followers: list[str]
    """The truncations of the brokers that follow it."""
    appended: dict[str, Answer]
    seconds: float


def conform(tally: Tally, work: Path) -> None:
    for version in settings.versions or VERSIONS:
        for seed in SEEDS[settings.full]:
            at = work / f"{version}-{seed}"
            with Cluster(version, at) as cluster:
                _compare(cluster, seed, tally)
            shutil.rmtree(at)


def _compare(cluster: Cluster, seed: int, tally: Tally) -> None:
    saved, alone = cluster.work / "saved", seed % 2 == 1
    began = time.monotonic()
    written = _killed(cluster, random.Random(seed), alone=alone)
    cluster.save(saved)
    loaded = time.monotonic() - began
    theirs = _rejoined(cluster, alone=alone)
    cluster.restore(saved)
    _recover(cluster, tally)
    ours = _rejoined(cluster, alone=alone)
    case = f"seed {seed}"
    compare_runs(cluster.version, case, ours, theirs, tally)
    _compare_facts(cluster, case, theirs, alone=alone, tally=tally)
    cut = [line for line in ours.truncations if _EFFECT in line]
    tally.console.print(
        f"  {cluster.version}, {case}: {written}\n"
        f"    {len(ours.logs)} partitions, {sum(one.size for one in ours.logs.values()):,} bytes;"
        f" {len(ours.truncations)} lines about truncations, {len(cut)} of them cut;"
        f" {ours.counted:,} bytes fetched; {loaded:.0f} s until the copy,"
        f" {theirs.seconds:.0f} s without kafkats, {ours.seconds:.0f} s with it"
    )


def _killed(cluster: Cluster, dice: random.Random, *, alone: bool) -> str:
    """Kill one broker under load while others go on, stop all. Return what was written."""
    cluster.controller.start()
    cluster.start(*BROKERS)
    writers = Writers(cluster.brokers[1], "--replicated")
    try:
        writers.wait_until_all_topics_are_there()
        # The settings tell a compacted log from one that lost records.
        (cluster.work / "topics.txt").write_text(described(cluster, 1))
        (cluster.work / "policy.yaml").write_text("exports: [topics.txt]\n")
        time.sleep(LOAD_S)
        if alone:
            cluster.brokers[3].stop()
            time.sleep(LOAD_S / 2)
        _write_alone(cluster)
        lose_power(cluster.brokers[KILLED].root, dice)
        wait_for_leaders(cluster, 1, *((1,) if alone else (1, 3)))
        time.sleep(LOAD_S)
    finally:
        written = writers.end()
    if not alone:
        wait_for_sync(cluster, 1, [3])
        cluster.brokers[1].stop()
    cluster.brokers[1 if alone else 3].stop()
    cluster.controller.close()
    return written


def _write_alone(cluster: Cluster) -> None:
    """Kill the broker after it has acknowledged records that its followers have not fetched."""
    others = [one for one in cluster.brokers.values() if one.runs and one.number != KILLED]
    led = [name for name, one in replicas(cluster.brokers[1].port).items() if one.leader == KILLED]
    for other in others:
        other.pause()
    try:
        for name in (name for name in led if not name.startswith("__")):
            _send(cluster.brokers[KILLED].port, name, b"held by one broker", ALONE, acks=1)
        cluster.brokers[KILLED].kill()
    finally:
        for other in others:
            other.resume()


def _send(port: int, name: str, value: bytes, count: int, *, acks: int) -> list[Answer]:
    """Send batches of one record to a partition, with no client that would ask a paused broker."""
    topic, _, partition = name.rpartition("-")
    now = time.time_ns() // 1_000_000
    batches = (
        v2.encode_batch([Record(0, now, TimestampType.CREATE_TIME, f"key-{n}".encode(), value)])
        for n in range(count)
    )
    return [produce_batch(port, topic, int(partition), batch, acks=acks) for batch in batches]


def _recover(cluster: Cluster, tally: Tally) -> None:
    root, plan = cluster.brokers[KILLED].root, cluster.work / "plan"
    policy = cluster.work / "policy.yaml"
    for words in (
        ("plan", "recover", root, "-o", plan, "--policy", policy),
        ("apply", plan, "--digest", "any"),
    ):
        code = run_command(*words)
        tally.same(LOGS, cluster.version, "kafkats", f"exit code of {words[0]}", code, 0)


def _rejoined(cluster: Cluster, *, alone: bool) -> Rejoined:
    """Start the cluster, let the killed broker rejoin, lead, be followed and append; stop all."""
    began, killed = time.monotonic(), cluster.brokers[KILLED]
    first, last = (1, 3) if alone else (3, 1)
    ends = log_ends(cluster.brokers[first].root)
    heard = {number: len(cluster.brokers[number].output) for number in BROKERS}
    begin = logs_of(metadata_log(cluster)).end if killed.kraft else 0
    cluster.controller.start()
    cluster.start(first, at_rest=True)
    wait_for_leaders(cluster, first, first)
    if not alone:
        cluster.start(last, at_rest=True)
        wait_for_sync(cluster, first, [last])
    members = [membership(cluster, first)]
    cluster.start(KILLED, at_rest=True)
    wait_for_sync(cluster, first, [KILLED] if alone else [KILLED, last])
    words = killed.output[heard[KILLED] :]
    logs = {path.name: logs_of(path, ends[path.name]) for path in partitions(killed.root)}
    fetched, counted = fetched_after_start(words, killed.root), replicated_bytes(cluster, KILLED)
    if alone:
        cluster.start(last, at_rest=True)
        wait_for_sync(cluster, first, [KILLED, last])
    members.append(membership(cluster, KILLED))
    records = _lead(cluster, first, last)
    heard |= {number: len(cluster.brokers[number].output) for number in (first, last)}
    cluster.start(first, last, at_rest=True)
    wait_for_sync(cluster, KILLED, [first, last])
    members.append(membership(cluster, KILLED))
    appended = _append(cluster)
    wait_for_sync(cluster, KILLED, [first, last])
    followers = [
        line
        for number in (first, last)
        for line in truncations(cluster.brokers[number].output[heard[number] :])
    ]
    changes = history(cluster, begin)
    for number in (first, last, KILLED):
        cluster.brokers[number].stop()
    cluster.controller.close()
    return Rejoined(
        truncations(words), fetched, counted, logs, members, changes, records, followers, appended,
        time.monotonic() - began,
    )  # fmt: skip


def _lead(cluster: Cluster, *others: int) -> dict[str, Records]:
    """Stop the other brokers; return all records that the broker serves as the only leader."""
    for number in others:
        cluster.brokers[number].stop()
    wait_for_leaders(cluster, KILLED, KILLED)
    return read_all(cluster.brokers[KILLED].port, _names())


def _names() -> list[str]:
    return [f"{topic}-{partition}" for topic in REPLICATED for partition in PLACES]


def _append(cluster: Cluster) -> dict[str, Answer]:
    """Write one record to each partition of the broker."""
    port = cluster.brokers[KILLED].port
    return {name: _send(port, name, b"appended", 1, acks=-1)[0] for name in _names()}


def compare_runs(version: str, case: str, ours: Rejoined, theirs: Rejoined, tally: Tally) -> None:
    """Compare a start after kafkats with one without it."""
    tally.same(CUT, version, case, f"{case}: lines", ours.truncations, theirs.truncations)
    for name in theirs.logs:
        what = f"{case}: {name}"
        tally.same(LOGS, version, case, what, ours.logs[name], theirs.logs[name])
        tally.same(FETCHED, version, case, what, ours.fetched[name], theirs.fetched[name])
    for one in (ours, theirs):
        tally.same(COUNTED, version, case, case, one.counted, sum(one.fetched.values()))
    for mine, his in zip(ours.members, theirs.members, strict=True):
        tally.same(MEMBER, version, case, f"{case}: described", mine, his)
    for name in {*ours.history, *theirs.history}:
        mine, his = ours.history.get(name), theirs.history.get(name)
        tally.same(MEMBER, version, case, f"{case}: changes of {name}", mine, his)
    for isolation, records in theirs.records.items():
        for name in records:
            what = f"{case}: {isolation} of {name}"
            tally.same(SERVED, version, case, what, ours.records[isolation][name], records[name])
    tally.same(FOLLOWED, version, case, f"{case}: lines", ours.followers, theirs.followers)
    for name, answer in theirs.appended.items():
        tally.same(APPENDED, version, case, f"{case}: {name}", ours.appended[name], answer)


def _compare_facts(
    cluster: Cluster, case: str, theirs: Rejoined, *, alone: bool, tally: Tally
) -> None:
    """The state without which the two starts would be alike by chance."""
    version = cluster.version
    cut = [line for line in theirs.truncations if _EFFECT in line]
    tally.same(FACTS, version, case, f"{case}: logs are truncated", len(cut) > 0, True)
    tally.same(FACTS, version, case, f"{case}: bytes are fetched", theirs.counted > 0, True)
    tally.same(FACTS, version, case, f"{case}: records are read", all(
        count for count, _ in theirs.records["read_uncommitted"].values()), True)  # fmt: skip
    for name, answer in theirs.appended.items():
        end = theirs.logs[name].end
        tally.same(FACTS, version, case, f"{case}: {name}: appends", answer, Answer(0, end))
    if alone and cluster.controller.kraft:
        _compare_eligible(version, case, theirs, tally)


def _compare_eligible(version: str, case: str, theirs: Rejoined, tally: Tally) -> None:
    """The killed broker is an eligible leader replica, and no longer from its registration on."""
    for name in _names():
        eligible = f"Elr {KILLED}," in theirs.members[0][name]
        tally.same(FACTS, version, case, f"{case}: {name} has an eligible leader", eligible, True)
        left = next((c for c in theirs.history[name] if c.get("eligibleLeaderReplicas") == []), {})
        # Its place among the in-sync replicas would end its eligibility, too, but in one change.
        tally.same(FACTS, version, case, f"{case}: {name} has none later", bool(left), True)
        tally.same(FACTS, version, case, f"{case}: {name}: not yet in sync", left.get("isr"), None)
