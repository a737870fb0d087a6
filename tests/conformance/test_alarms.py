"""What verify says of whole real directories: nothing of healthy ones, the damage's name of those that were damaged by hand."""

from __future__ import annotations

import pytest

from kafkats.inspect.inventory import inventory_units
from kafkats.inspect.verify import VerifyOptions, verify_unit
from kafkats.plans.facts import SEVERITIES
from kafkats.plans.units import list_units
from tests.golden import Case, Unpacked, cases, topic_of

ALARMS = SEVERITIES[2:]
HEALTHY = (
    "adopt",
    "compaction",
    "content",
    "follower",
    "matrix",
    "retention",
    "rolling",
    "root",
    "timestamps",
    "transactions",
    "upgrade",
)
NAMES = {
    "torn": {"torn-tail", "torn-tail-marked-clean"},
    "torn-header": {"torn-tail", "torn-tail-marked-clean"},
    "few-bytes": {"torn-tail", "torn-tail-marked-clean"},
    "crc-last": {"bad-crc"},
    "crc-middle": {"bad-crc"},
    "crc-first": {"bad-crc"},
    "crc-old-segment": {"bad-crc"},
    "crc-old-rp0": {"bad-crc"},
    "garbage": {"bad-length", "bad-magic", "bad-crc", "torn-tail"},
    "no-index-old": {"missing-index"},
    "no-index-active": {"missing-index"},
    "no-timeindex-old": {"missing-index"},
    "no-timeindex-active": {"missing-index"},
    "no-indexes": {"missing-index"},
    "noise-index-old": {"below-base", "beyond-end", "not-in-log", "not-monotonic"},
    "noise-index-active": {"below-base", "beyond-end", "not-in-log", "not-monotonic"},
    "noise-timeindex-old": {"below-base", "beyond-end", "not-in-log", "not-monotonic"},
    "noise-timeindex-active": {"below-base", "beyond-end", "not-in-log", "not-monotonic"},
    "shifted-index": {"not-in-log"},
    "shifted-index-rp0": {"not-in-log"},
    "odd-index-13": {"partial-entry"},
    "zero-index-old": {"zero-entries"},
    "big-index-old": {"zero-entries"},
    "empty-timeindex-old": {"empty-index"},
    "orphan-index": {"orphan"},
    "bad-snapshot": {"unreadable"},
    "rp-beyond": {"missing-records"},
    "lost-middle-segment": {"missing-records"},
}
"""What was done by hand -> the kinds of which one must be found."""
HARMLESS = {
    "untouched", "no-epochs", "no-snapshots", "tmp-left", "deleted-left", "cleaned-left",
    "swap-complete", "swap-log-only", "swap-and-cleaned", "preallocated", "zeros",
    "empty-index-old",  # a follower of 2.x leaves such indexes on whole segments
}  # fmt: skip
"""Nothing in these misleads a broker that will recover, or that reads on: no alarm."""
EITHER = {"lost-first-segment"}
"""Retention, too, takes first segments: only leader epochs tell. What is left of the segment may be an orphan."""


def alarms(golden: Unpacked, one: Case, state: str, *, deep: bool = False) -> dict[str, set[str]]:
    """Kinds of damage and danger per partition directory."""
    root = golden(one, state)
    found: dict[str, set[str]] = {}
    for unit in list_units(sorted(root.glob("disk-*")) or [root]):
        for row in verify_unit(unit, VerifyOptions(deep=deep)).to_pylist():
            kinds = {
                finding["kind"] for finding in row["findings"] if finding["severity"] in ALARMS
            }
            found.setdefault(row["partition_dir"], set()).update(kinds)
    return found


@pytest.mark.examples(by="kind")
@pytest.mark.parametrize("one", cases(*HEALTHY), ids=str)
def test_no_alarm_in_a_healthy_directory(one: Case, golden: Unpacked) -> None:
    """Also where the broker was still running or was killed, and where a case shows odd timestamps or holes."""
    for state in one.states:
        found = alarms(golden, one, state, deep=True)
        assert found
        assert {
            partition: kinds for partition, kinds in found.items() if kinds and partition
        } == {}, state
        assert found.get("", set()) <= {"stops-the-broker", "unreadable"}, state


@pytest.mark.slow(1)
@pytest.mark.parametrize("one", cases(*HEALTHY), ids=str)
def test_no_record_is_said_to_be_missing_by_what_plans_look_at(one: Case, golden: Unpacked) -> None:
    """The ends of the files alone, as for retention and rolling; each disk of a broker also without the other."""
    for state in one.states:
        root = golden(one, state)
        disks = sorted(root.glob("disk-*"))
        for given in [root] if not disks else [disks, *([disk] for disk in disks)]:
            units = list(list_units(given if isinstance(given, list) else [given]))
            kinds = {
                f["kind"] for row in inventory_units(units).to_pylist() for f in row["findings"]
            }
            assert not kinds & {"missing-records", "missing-partition", "end-not-flushed"}, (
                state,
                given,
            )


@pytest.mark.examples(3)
@pytest.mark.parametrize("one", cases("crash", "clean-start"), ids=str)
def test_every_damage_done_by_hand_is_found(one: Case, golden: Unpacked) -> None:
    found = alarms(golden, one, "before")
    for partition in one.info["damage"]:
        topic = topic_of(partition)
        kinds = found.get(partition, set())
        if topic in HARMLESS or ("timeindex" in topic and one.kafka in ("0.8.2.2", "0.9.0.1")):
            assert kinds == set(), partition
        elif topic in EITHER:
            epochs = golden(one, "before") / partition / "leader-epoch-checkpoint"
            told = epochs.exists() and len(epochs.read_text().splitlines()) > 2
            assert kinds - {"orphan"} == ({"missing-records"} if told else set()), partition
        else:
            assert kinds & NAMES[topic], (partition, kinds)
    touched = {partition for partition, kinds in found.items() if kinds}
    assert touched <= set(one.info["damage"]) | {""}
    assert len(touched) >= 15


def test_every_damage_of_the_corpus_is_judged_here() -> None:
    done = {topic_of(p) for one in cases("crash", "clean-start") for p in one.info["damage"]}
    assert done == NAMES.keys() | HARMLESS | EITHER
