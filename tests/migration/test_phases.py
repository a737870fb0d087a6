"""The phases: tables of every order that is allowed and that is refused, and why."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafkats.errors import CorruptFile, KafkatsError, Refused, UsageError
from kafkats.migration import ledger
from kafkats.migration.ledger import Entry
from kafkats.migration.options import PHASES
from kafkats.migration.phases import FETCHERS, check, gate, lose_zero_copy, rows, state, work
from kafkats.migration.state import EVENTS, NEW, OLD, Migration

BROKERS = ("1", "2", "3")


def entry(words: str, number: int = 1) -> Entry:
    """`event broker phase run`, such as `started 1 canary r1`; `begin 0>1 1,2,3` has its own form."""
    event, *rest = words.split()
    if event == "begin":
        old, _, new = rest[0].partition(">")
        details: dict[str, Any] = {
            "from_magic": int(old),
            "to_magic": int(new),
            "brokers": rest[1].split(","),
        }
        return Entry(number, f"t{number}", event, "", "", "ops", details, "", "")
    broker, phase, run_id = [*rest, "", "", ""][:3]
    details = {"run_id": run_id} if run_id else {}
    if event == "attest":
        phase, details = "phase-1", {"text": "runs 0.10.2 since yesterday"}
    if event == "certified":
        details = {"digest": "d", "min_magic": 1, "max_magic": 0}
    if event == "approved":
        phase = phase or "canary"
    return Entry(number, f"t{number}", event, broker, phase, "ops", details, "", "")


def story(*parts: str) -> list[Entry]:
    """Entries of lines and of whole stories, each held to those before it."""
    entries: list[Entry] = []
    for line in [
        line.strip() for part in parts for line in part.strip().split("\n") if line.strip()
    ]:
        found = entry(line, len(entries) + 1)
        check(entries, found)
        entries.append(found)
    return entries


def now(entries: Sequence[Entry]) -> Migration:
    migration = state(entries)
    assert migration is not None
    return migration


def statuses(*parts: str) -> list[str]:
    return [b.status for b in now(story(*parts)).brokers.values()]


def converted(broker: str, phase: str, run: str) -> str:
    return f"started {broker} {phase} {run}\nconverted {broker} {phase} {run}"


def verified(broker: str, phase: str, run: str) -> str:
    return f"{converted(broker, phase, run)}\nverified {broker} {phase}"


BEGUN = "begin 0>1 1,2,3"
ATTESTED = BEGUN + "".join(f"\nattest {b}" for b in BROKERS)
CERTIFIED = ATTESTED + "".join(f"\ncertified {b} phase-1" for b in BROKERS)
CANARY = f"{CERTIFIED}\n{verified('1', 'canary', 'r1')}"
APPROVED = f"{CANARY}\napproved 1"
SECOND = f"{APPROVED}\n{verified('2', 'phase-2', 'r2')}"
ALL = f"{SECOND}\n{verified('3', 'phase-2', 'r3')}"
UNDONE = f"{APPROVED}\nundone 1 rollback r1"
BACK = f"{APPROVED}\nstarted 1 rollback back\nconverted-back 1 rollback back"


def test_the_whole_way() -> None:
    assert statuses(BEGUN) == ["listed"] * 3
    assert statuses(ATTESTED) == ["attested"] * 3
    assert statuses(CERTIFIED) == ["certified"] * 3
    assert statuses(CERTIFIED, "started 1 canary r1") == ["converting", "certified", "certified"]
    assert statuses(CERTIFIED, converted("1", "canary", "r1")) == [
        "converted",
        "certified",
        "certified",
    ]
    assert statuses(CANARY) == ["verified", "certified", "certified"]
    assert statuses(APPROVED) == ["approved", "certified", "certified"]
    assert statuses(ALL, "certified 3 phase-2") == ["approved", "verified", "verified"]
    assert statuses(ALL, "started 2 rollback b\nconverted-back 2 rollback b") == [
        "approved",
        "rolled-back",
        "verified",
    ]


# (story, which phases are let through for brokers 1, 2, 3)
GATES: dict[str, tuple[str, tuple[str, str, str]]] = {
    "begun": (BEGUN, ("", "", "")),
    "one attested": (f"{BEGUN}\nattest 1", ("phase-1", "", "")),
    "all attested": (ATTESTED, ("phase-1", "phase-1", "phase-1")),
    "one certified": (f"{ATTESTED}\ncertified 1 phase-1", ("phase-1", "phase-1", "phase-1")),
    "two certified": (
        f"{ATTESTED}\ncertified 1 phase-1\ncertified 2 phase-1",
        ("phase-1", "phase-1", "phase-1"),
    ),
    "all certified": (CERTIFIED, ("phase-1 canary", "phase-1 canary", "phase-1 canary")),
    "strays being converted": (
        f"{CERTIFIED}\nstarted 2 phase-1 s",
        ("phase-1", "phase-1", "phase-1"),
    ),
    "canary converting": (
        f"{CERTIFIED}\nstarted 1 canary r",
        ("canary rollback", "phase-1", "phase-1"),
    ),
    "canary converted": (
        f"{CERTIFIED}\n{converted('1', 'canary', 'r')}",
        ("canary rollback", "phase-1", "phase-1"),
    ),
    "canary verified": (CANARY, ("canary rollback", "phase-1", "phase-1")),
    "canary approved": (APPROVED, ("canary rollback", "phase-1 phase-2", "phase-1 phase-2")),
    "canary goes on": (
        f"{APPROVED}\nstarted 1 canary r9",
        ("canary rollback", "phase-1", "phase-1"),
    ),
    "canary being rolled back": (
        f"{APPROVED}\nstarted 1 rollback b",
        ("rollback", "phase-1", "phase-1"),
    ),
    "canary undone": (UNDONE, ("phase-1 canary", "phase-1 canary", "phase-1 canary")),
    "canary converted back": (BACK, ("phase-1 canary", "phase-1 canary", "phase-1 canary")),
    "another canary": (f"{UNDONE}\nstarted 3 canary r", ("phase-1", "phase-1", "canary rollback")),
    "second converting": (
        f"{APPROVED}\nstarted 2 phase-2 r",
        ("rollback", "phase-2 rollback", "phase-1"),
    ),
    "second converted": (
        f"{APPROVED}\n{converted('2', 'phase-2', 'r')}",
        ("rollback", "phase-2 rollback", "phase-1"),
    ),
    "second verified": (SECOND, ("canary rollback", "phase-2 rollback", "phase-1 phase-2")),
    "second being rolled back": (
        f"{SECOND}\nstarted 2 rollback b",
        ("rollback", "rollback", "phase-1"),
    ),
    "second undone": (
        f"{SECOND}\nundone 2 rollback r2",
        ("canary rollback", "phase-1 phase-2", "phase-1 phase-2"),
    ),
    "canary undone after the second": (
        f"{SECOND}\nundone 1 rollback r1",
        ("phase-1 canary", "rollback", "phase-1 canary"),
    ),
    "a canary again after the second": (
        f"{SECOND}\nundone 1 rollback r1\n{verified('1', 'canary', 'r8')}\napproved 1",
        ("canary rollback", "phase-2 rollback", "phase-1 phase-2"),
    ),
    "all": (ALL, ("canary rollback", "phase-2 rollback", "phase-2 rollback")),
    "a broker more": (f"{APPROVED}\nbegin 0>1 1,2,3,4", ("rollback", "phase-1", "phase-1")),
    "a broker more, ready": (
        f"{APPROVED}\nbegin 0>1 1,2,3,4\nattest 4\ncertified 4 phase-1",
        ("canary rollback", "phase-1 phase-2", "phase-1 phase-2"),
    ),
    "the next migration": (f"{ALL}\nbegin 1>2 1,2,3\nattest 1", ("phase-1", "", "")),
}


@pytest.mark.parametrize("case", GATES)
def test_gates(case: str) -> None:
    told, expected = GATES[case]
    entries = story(told)
    for broker, allowed in zip(BROKERS, expected, strict=True):
        for phase in PHASES:
            if phase in allowed.split():
                gate(entries, phase, broker)
                check(entries, entry(f"started {broker} {phase} new", len(entries) + 1))
                continue
            with pytest.raises(Refused) as by_gate:
                gate(entries, phase, broker)
            with pytest.raises(Refused) as by_check:
                check(entries, entry(f"started {broker} {phase} new", len(entries) + 1))
            assert str(by_gate.value) == str(by_check.value)
            assert str(by_gate.value).startswith(f"{phase} of broker {broker}: ")


REASONS = [
    (BEGUN, "phase-1", "1", "nobody has attested that it understands the new format"),
    (
        f"{BEGUN}\nattest 2",
        "canary",
        "2",
        "nobody has attested that the new format is understood by broker 1, broker 3; "
        "there is no certificate of phase 1 for broker 2",
    ),
    (CERTIFIED, "phase-2", "2", "there is no canary"),
    (
        f"{CERTIFIED}\nstarted 1 canary r",
        "phase-2",
        "2",
        "the canary, broker 1, is converting, not verified",
    ),
    (CANARY, "phase-2", "2", "the canary, broker 1, is verified, not approved"),
    (CANARY, "canary", "2", "broker 1 is the canary; there is one"),
    (CANARY, "phase-1", "1", "it is verified; only a rollback goes down from there"),
    (APPROVED, "phase-2", "1", "it was converted as canary and is approved"),
    (SECOND, "canary", "2", "it was converted as phase-2 and is verified"),
    (
        f"{SECOND}\nstarted 3 phase-2 r",
        "phase-2",
        "2",
        "broker 3 is converting; one broker at a time",
    ),
    (f"{APPROVED}\nstarted 1 rollback b", "canary", "1", "it is being rolled back"),
    (CERTIFIED, "rollback", "1", "there is nothing to roll back, it is certified"),
    (UNDONE, "rollback", "1", "there is nothing to roll back, it is rolled-back"),
]


@pytest.mark.parametrize(("told", "phase", "broker", "reason"), REASONS)
def test_the_reason_names_what_is_missing(told: str, phase: str, broker: str, reason: str) -> None:
    with pytest.raises(Refused) as e:
        gate(story(told), phase, broker)
    assert e.value.reason == f"{phase} of broker {broker}: {reason}"


def test_without_a_migration_or_with_foreign_words() -> None:
    with pytest.raises(Refused, match="no migration has begun"):
        gate([], "phase-1", "1")
    with pytest.raises(
        Refused, match=r"broker 9 is not of this migration, which has broker 1, broker 2, broker 3"
    ):
        gate(story(BEGUN), "phase-1", "9")
    with pytest.raises(UsageError, match="no phase: 'phase-3'"):
        gate(story(BEGUN), "phase-3", "1")
    assert state([]) is None


# Entries that may and may not follow a story

FOLLOWS: dict[str, tuple[str, str]] = {
    BEGUN: (
        "attest 1, begin 0>1 1,2, begin 0>1 4, begin 1>2 1",
        "certified 1 phase-1, converted 1 canary r, verified 1 canary, approved 1, undone 1 rollback r",
    ),
    ATTESTED: (
        "attest 1, certified 1 phase-1, certified 1 rollback, verified 1 phase-1",
        "certified 1 canary, verified 1 rollback, converted-back 1 rollback r, converted 1 phase-1 r",
    ),
    CERTIFIED: (
        "attest 1, certified 1 phase-1, begin 0>1 1,2, begin 1>2 1",
        "converted 1 canary r, verified 1 canary, approved 1, undone 1 rollback r, converted-back 1 rollback r",
    ),
    f"{CERTIFIED}\nstarted 1 canary r": (
        "started 1 canary r, started 1 canary q, converted 1 canary r, undone 1 rollback r, begin 0>1 1,2",
        "attest 1, certified 1 phase-1, certified 1 canary, converted 1 canary q, converted 1 phase-2 r, "
        "converted 2 canary r, verified 1 canary, approved 1, undone 1 rollback q, begin 0>1 2,3, begin 1>2 1",
    ),
    f"{CERTIFIED}\n{converted('1', 'canary', 'r')}": (
        "converted 1 canary r, verified 1 canary, started 1 canary r, undone 1 rollback r",
        "verified 1 phase-2, verified 1 phase-1, approved 1, attest 1, begin 0>1 2,3",
    ),
    CANARY: (
        "converted 1 canary r1, verified 1 canary, approved 1, certified 1 canary, started 1 canary r1",
        "approved 2, approved 1 phase-2, certified 1 phase-2, certified 1 phase-1, begin 0>1 2,3, begin 1>2 1",
    ),
    APPROVED: (
        "approved 1, verified 1 canary, converted 1 canary r1, certified 1 canary, started 2 phase-2 r",
        "begin 0>1 2,3, begin 1>2 1, attest 1, started 2 canary r",
    ),
    SECOND: (
        "verified 2 phase-2, certified 2 phase-2, begin 0>1 1,3",
        "approved 2, approved 2 phase-2, begin 1>2 1",
    ),
    ALL: ("begin 1>2 1,2, begin 0>1 1, begin 0>1 1,2,3,4", "begin 0>1 2,3, approved 3"),
    f"{APPROVED}\nstarted 1 rollback b": (
        "started 1 rollback b, converted-back 1 rollback b, undone 1 rollback b, undone 1 rollback r1",
        "converted-back 1 rollback r1, verified 1 canary, verified 1 rollback, approved 1, started 1 canary r1, "
        "begin 0>1 2,3, attest 1",
    ),
    f"{CERTIFIED}\nstarted 1 canary r\nstarted 1 rollback b": (
        "undone 1 rollback r, converted-back 1 rollback b",
        "converted 1 canary r, started 1 canary r",
    ),
    UNDONE: (
        "undone 1 rollback r1, attest 1, certified 1 rollback, verified 1 rollback, begin 1>2 1, begin 0>1 2,3, "
        "started 1 canary r1",
        "converted 1 canary r1, approved 1, verified 1 canary, started 1 rollback b",
    ),
    BACK: (
        "converted-back 1 rollback back, verified 1 rollback, certified 1 rollback, undone 1 rollback back, "
        "started 1 rollback back, started 1 canary r1",
        "undone 1 rollback q, approved 1, converted-back 1 rollback r1",
    ),
}


@pytest.mark.parametrize("told", FOLLOWS, ids=range(len(FOLLOWS)))
def test_what_may_follow(told: str) -> None:
    entries = story(told)
    may, may_not = ([words.strip() for words in _split(text)] for text in FOLLOWS[told])
    for words in may:
        check(entries, entry(words, len(entries) + 1))
    for words in may_not:
        with pytest.raises(Refused):
            check(entries, entry(words, len(entries) + 1))


def _split(text: str) -> list[str]:
    return text.split(", ")


def test_a_repeated_step_changes_nothing_but_the_time() -> None:
    for told in (
        ATTESTED,
        CERTIFIED,
        CANARY,
        APPROVED,
        ALL,
        UNDONE,
        BACK,
        f"{APPROVED}\nstarted 2 phase-2 r",
    ):
        entries = story(told)
        last = entries[-1]._replace(number=len(entries) + 1, at="later")
        check(entries, last)
        before, after = now(entries).brokers, now([*entries, last]).brokers
        who = last.broker
        assert after == {**before, who: before[who]._replace(at="later")}


def test_a_finished_run_that_is_applied_again_keeps_the_approval() -> None:
    assert statuses(APPROVED, "started 1 canary r1") == ["approved", "certified", "certified"]
    assert (
        statuses(APPROVED, "started 1 canary r9")[0] == "converting"
    )  # another one has to be seen and approved anew


def test_an_interrupted_run_may_go_on_whatever_has_come_between() -> None:
    halfway = f"{APPROVED}\nstarted 2 phase-2 r\nundone 1 rollback r1"
    with pytest.raises(Refused, match="there is no canary"):
        gate(story(halfway), "phase-2", "2")
    assert statuses(halfway, "started 2 phase-2 r\nconverted 2 phase-2 r")[1] == "converted"


def test_runs_are_undone_one_by_one() -> None:
    two = f"{CERTIFIED}\n{converted('1', 'canary', 'a')}\n{converted('1', 'canary', 'b')}"
    assert work(now(story(two)), "rollback", "1").undo == ("b", "a")
    assert statuses(two, "undone 1 rollback b")[0] == "rolling-back"
    assert work(now(story(two, "undone 1 rollback b")), "rollback", "1").undo == ("a",)
    assert statuses(two, "undone 1 rollback b\nundone 1 rollback a")[0] == "rolled-back"
    back = "started 1 rollback c\nconverted-back 1 rollback c\nundone 1 rollback b"
    assert statuses(two, back)[0] == "rolled-back"  # the conversion back still stands
    again = "undone 1 rollback b\nstarted 1 rollback c\nundone 1 rollback c\nundone 1 rollback b"
    assert statuses(two, again)[0] == "converted"  # what was undone long ago is nothing new


def test_undoing_a_rollback_brings_the_new_format_back() -> None:
    assert (
        statuses(BACK, "undone 1 rollback back")[0] == "converted"
    )  # and so neither verified nor approved
    assert statuses(APPROVED, "started 1 rollback b\nundone 1 rollback b")[0] == "converted"
    assert statuses(BACK, "undone 1 rollback back\nundone 1 rollback r1")[0] == "rolled-back"
    both = f"{APPROVED}\nstarted 1 rollback b\nstarted 1 rollback c\nundone 1 rollback c"
    assert statuses(both)[0] == "rolling-back"


def test_strays_of_phase_1_are_looked_at_again() -> None:
    assert statuses(CERTIFIED, "started 2 phase-1 s")[1] == "attested"
    again = f"{CERTIFIED}\nstarted 2 phase-1 s\nconverted 2 phase-1 s\nverified 2 phase-1\ncertified 2 phase-1"
    assert statuses(again)[1] == "certified"
    assert statuses(again, "undone 2 phase-1 s")[1] == "attested"
    with pytest.raises(Refused, match="none of those that stand"):  # later conversions lie over it
        check(story(again, "started 2 canary r"), entry("undone 2 phase-1 s"))


@pytest.mark.parametrize(
    ("phase", "details"), [("phase-1", {"max_magic": 1}), ("rollback", {"max_magic": 2})]
)
def test_a_certificate_that_allows_too_much(phase: str, details: dict[str, Any]) -> None:
    entries = story(ATTESTED)
    lax = entry(f"certified 1 {phase}", len(entries) + 1)._replace(
        details={"digest": "d"} | details
    )
    with pytest.raises(Refused, match="allows more than magic 0"):
        check(entries, lax)
    entries = story(CANARY)
    lax = entry("certified 1 canary", len(entries) + 1)._replace(
        details={"digest": "d", "min_magic": 0}
    )
    with pytest.raises(Refused, match="allows less than magic 1"):
        check(entries, lax)


LACKING = [
    (BEGUN, "attest 1", {}),
    (BEGUN, "attest 1", {"text": "  "}),
    (ATTESTED, "certified 1 phase-1", {"max_magic": 0}),
    (ATTESTED, "certified 1 phase-1", {"digest": "d"}),
    (ATTESTED, "certified 1 phase-1", {"digest": "d", "max_magic": True}),
    (ATTESTED, "certified 1 phase-1", {"digest": "d", "max_magic": 3}),
    (ATTESTED, "certified 1 nowhere", {"digest": "d", "max_magic": 0}),
    (CERTIFIED, "started 1 canary r", {}),
    (CERTIFIED, "started 1 canary r", {"run_id": 7}),
    (CERTIFIED, "started 1 nowhere r", {"run_id": "r"}),
    (CERTIFIED, "hooray 1", {}),
    (f"{APPROVED}\nstarted 1 rollback b", "converted 1 rollback b", {"run_id": "b"}),
    (CANARY, "converted-back 1 canary r1", {"run_id": "r1"}),
    ("", "begin 1>0 1", {"from_magic": 1, "to_magic": 0, "brokers": ["1"]}),
    ("", "begin 1>1 1", {"from_magic": 1, "to_magic": 1, "brokers": ["1"]}),
    ("", "begin 0>1 1", {"to_magic": 1, "brokers": ["1"]}),
    ("", "begin 0>1 1", {"from_magic": 0, "to_magic": 3, "brokers": ["1"]}),
    ("", "begin 0>1 1", {"from_magic": 0, "to_magic": 1, "brokers": []}),
    ("", "begin 0>1 1", {"from_magic": 0, "to_magic": 1, "brokers": "12"}),
    ("", "begin 0>1 1", {"from_magic": 0, "to_magic": 1, "brokers": [1]}),
    ("", "begin 0>1 1", {"from_magic": 0, "to_magic": 1, "brokers": ["1", ""]}),
    ("", "begin 0>1 1", {"from_magic": 0, "to_magic": 1, "brokers": ["1", "1"]}),
]


@pytest.mark.parametrize(("told", "words", "details"), LACKING)
def test_an_entry_that_lacks_what_it_must_say(
    told: str, words: str, details: dict[str, Any]
) -> None:
    entries = story(told)
    with pytest.raises(UsageError):
        check(entries, entry(words, len(entries) + 1)._replace(details=details))


def test_a_ledger_that_could_not_have_come_about() -> None:
    entries = story(ATTESTED)
    wrong = entry("approved 1", len(entries) + 1)
    with pytest.raises(
        CorruptFile, match=rf"entry {wrong.number} of the ledger cannot stand there: approval"
    ):
        state([*entries, wrong])
    with pytest.raises(CorruptFile, match="no event of a migration: 'hooray'"):
        gate([*entries, entry("hooray 1", 9)], "phase-1", "1")


def test_what_each_phase_does() -> None:
    migration = now(story(f"begin 1>2 1,2,3{ATTESTED[len(BEGUN) :]}"))
    down, up = work(migration, "phase-1", "1"), work(migration, "canary", "1")
    assert down == (1, "converted", None, 1, ())
    assert up == work(migration, "phase-2", "2") == (2, "converted", 2, None, ())
    assert work(migration, "rollback", "1") == (1, "converted-back", None, 1, ())
    with pytest.raises(Refused):
        work(migration, "canary", "9")
    with pytest.raises(UsageError):
        work(migration, "phase-3", "1")


def test_the_rows_for_people() -> None:
    found = {row["broker"]: row for row in rows(now(story(CANARY)))}
    assert found["1"] == {
        "broker": "1",
        "status": "verified",
        "phase": "canary",
        "at": "t10",
        "by": "ops",
        "runs": ["r1"],
        "next": "approve",
        "waits_for": "",
    }
    assert (found["2"]["next"], found["2"]["waits_for"]) == (
        "phase-2",
        "the canary, broker 1, is verified, not approved",
    )
    nexts = {
        BEGUN: "attest",
        ATTESTED: "certify",
        CERTIFIED: "canary",
        f"{CERTIFIED}\nstarted 1 canary r": "convert",
        f"{CERTIFIED}\n{converted('1', 'canary', 'r')}": "verify",
        APPROVED: "",
        f"{APPROVED}\nstarted 1 rollback b": "rollback",
        BACK: "canary",
    }
    assert {told: rows(now(story(told)))[0]["next"] for told in nexts} == nexts


def test_who_loses_zero_copy() -> None:
    said = {
        (old, new): [f.versions for f in lose_zero_copy(old, new)]
        for old, new in [(0, 1), (0, 2), (1, 2), (2, 2)]
    }
    assert said == {(0, 1): ["0-1"], (0, 2): ["0-1", "2-3"], (1, 2): ["2-3"], (2, 2): []}
    page = (Path(__file__).parents[2] / "docs" / "census.md").read_text()
    converted = ("v1 and v2, to v0", "v2, to v1", "nothing")
    rows = [
        line.split(" | ") for line in page.splitlines() if line.startswith(("| 0,", "| 2,", "| 4 "))
    ]
    assert {(row[0][2:], row[2]) for row in rows} == {
        (f.versions.replace("-", ", ").replace("+", " and up"), converted[f.newest_magic])
        for f in FETCHERS
    }


def test_through_a_file_two_canaries_cannot_be_claimed(tmp_path: Path) -> None:
    path = tmp_path / "ledger.jsonl"

    def add(words: str) -> None:
        e = entry(words)
        ledger.append(
            path,
            e.event,
            by=e.by,
            now_ms=0,
            broker=e.broker,
            phase=e.phase,
            details=e.details,
            check=check,
        )

    with pytest.raises(Refused):
        add("attest 1")
    for line in CERTIFIED.split("\n"):
        add(line)
    entries = ledger.read(path).entries
    gate(entries, "canary", "1")
    gate(entries, "canary", "2")
    add("started 1 canary r1")
    with pytest.raises(Refused, match="broker 1 is the canary"):
        add("started 2 canary r2")
    assert [row["status"] for row in rows(now(ledger.read(path).entries))] == [
        "converting",
        "certified",
        "certified",
    ]


WORDS = [
    *(f"attest {b}" for b in "12"),
    *(f"certified {b} {p}" for b, p in itertools.product("12", PHASES)),
    *(
        f"{event} {b} {p} {r}"
        for event in ("started", "converted")
        for b, p, r in itertools.product("12", PHASES, "rs")
    ),
    *(f"verified {b} {p}" for b, p in itertools.product("12", PHASES)),
    *(f"approved {b}" for b in "12"),
    *(f"undone {b} rollback {r}" for b, r in itertools.product("12", "rs")),
    *(f"converted-back {b} rollback {r}" for b, r in itertools.product("12", "rs")),
    "begin 0>1 1,2",
    "begin 1>2 1,2",
]


@settings(max_examples=150, deadline=None)
@given(st.lists(st.sampled_from(WORDS), max_size=60), st.booleans())
def test_whatever_comes_the_rules_hold(words: list[str], ready: bool) -> None:
    entries = story(
        "begin 0>1 1,2",
        "attest 1\nattest 2\ncertified 1 phase-1\ncertified 2 phase-1" if ready else "",
    )
    for line in words:
        following = entry(line, len(entries) + 1)
        before = now(entries)
        try:
            check(entries, following)
        except KafkatsError as e:
            assert isinstance(e, Refused | UsageError) and e.reason
            continue
        entries.append(following)
        after = now(entries)
        brokers = after.brokers.values()
        assert {b.status for b in brokers} <= {*OLD, *NEW}
        assert sum(b.phase == "canary" and b.status in NEW for b in brokers) <= 1
        newly = [
            b for b in brokers if b.status == "converting" and before.brokers[b.name].status in OLD
        ]
        if newly and newly[0].phase == "phase-2":
            assert before.canary is not None and before.canary.status == "approved"
        if newly:
            assert all(b.status not in {"listed", "attested"} for b in before.brokers.values())
        assert all(
            row["next"] in {*PHASES, "attest", "certify", "convert", "verify", "approve", ""}
            for row in rows(after)
        )


def test_every_event_is_told_in_the_page() -> None:
    page = (Path(__file__).parents[2] / "docs" / "decisions" / "phases.md").read_text()
    for event in ("begin", *EVENTS):
        assert f"| `{event}` |" in page
