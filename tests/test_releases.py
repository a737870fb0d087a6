"""One notation for a Kafka release, and one table from it to the rules of its brokers."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Final, get_args

import pytest
from pydantic import ValidationError

from kafkats.config.option import ByRelease, declared
from kafkats.config.options import IndexSettings
from kafkats.generations import RETENTION_RULES, ROLL_RULES, RULES, SEARCH_RULES
from kafkats.lookup.options import Lookup
from kafkats.operations import OPERATIONS
from kafkats.recovery.rules import START_RULES, start_rule
from kafkats.releases import (
    EXAMPLES,
    KNOWN,
    NEWEST,
    TABLE,
    Subject,
    behaviour,
    pattern_of,
    releases_of,
    rule_of,
)
from kafkats.request import VERBS, models_of
from kafkats.retention.options import Retain
from kafkats.rolling.options import Roll
from tests.builders.commands import run
from tests.golden import case

RULES_OF: Final[dict[Subject, Any]] = {
    "start": START_RULES,
    "recovery": RULES,
    "retention": RETENTION_RULES,
    "roll": ROLL_RULES,
    "search": SEARCH_RULES,
}
OTHERS: Final[dict[Subject, tuple[str, ...]]] = {
    "start": (),
    "recovery": ("kip33",),
    "retention": ("kip33",),
    "roll": ("largest",),
    "search": ("kip33",),
}


def test_every_rule_is_of_a_release_or_of_a_text() -> None:
    assert set(get_args(Subject)) == RULES_OF.keys()
    for subject, rules in RULES_OF.items():
        named = {getattr(row, subject) for row in TABLE}
        assert named | set(OTHERS[subject]) == set(rules), subject


@pytest.mark.parametrize(
    ("kafka", "expected"),
    [
        ("4.3", ("4.0", "last-offset", "3.0", "4.1", "3.8")),
        ("4.3.1", ("4.0", "last-offset", "3.0", "4.1", "3.8")),
        ("4.0.0", ("4.0", "last-offset", "3.0", "0.10.1", "3.8")),
        ("4.0", ("4.0", "last-offset", "3.0", "4.1", "3.8")),
        ("3.9.0", ("3.7", "last-offset", "3.0", "0.10.1", "3.8")),
        ("3.9", ("3.7", "last-offset", "3.0", "4.1", "3.8")),
        ("3.7.1", ("3.7", "last-offset", "3.0", "0.10.1", "3.0")),
        ("2.8", ("2.8", "last-offset", "0.11", "0.10.1", "0.11")),
        ("2.8.2", ("2.8", "last-offset", "0.11", "0.10.1", "0.11")),
        ("2.0.0", ("2.0", "last-offset", "0.11", "0.10.1", "0.11")),
        ("1.1.1", ("1.0", "first-offset", "0.11", "0.10.1", "0.11")),
        ("0.11.0.3", ("0.11", "first-offset", "0.11", "0.10.1", "0.11")),
        ("0.10.2.2", ("0.10", "first-offset", "0.10.1", "0.10.1", "0.10.1")),
        ("0.10.0.1", ("0.10.0", "first-offset", "0.8", "0.8", "0.8")),
        ("0.9", ("0.9", "first-offset", "0.8", "0.8", "0.8")),
        ("0.8.2.2", ("0.8", "first-offset", "0.8", "0.8", "0.8")),
    ],
)
def test_the_rules_of_a_release(kafka: str, expected: tuple[str, ...]) -> None:
    assert behaviour(kafka)[1:] == expected
    assert start_rule(kafka).name == expected[0]


def test_a_rules_words_name_its_releases() -> None:
    """The column `kafka` of a rule says the same as the table."""
    for subject, rules in RULES_OF.items():
        for name, rule in rules.items():
            releases = releases_of(subject, name)
            if not releases:
                assert name in OTHERS[subject]
                continue
            words = rule.kafka.replace("0.8 to", "0.8.2 to")
            first = re.findall(r"[0-9]+(?:\.[0-9]+)+", words)[0]
            assert first.startswith(releases[0]) or releases[0].startswith(first), (subject, name)
            assert ("and later" in rule.kafka) == (releases[-1] == NEWEST), (subject, name)


@pytest.mark.parametrize("word", ["", "4", "3.x", "4.9", "5.0", "0.10", "0.7.2", "v4.3", "4.3-rc1"])
@pytest.mark.parametrize("subject", RULES_OF)
def test_what_is_no_release_is_refused_with_those_that_are_known(
    subject: Subject, word: str
) -> None:
    if (subject, word) == ("start", "0.10"):
        return  # the name of a rule
    with pytest.raises(ValueError, match=f"it knows 0.8.2, .* {NEWEST}$"):
        rule_of(subject, word, OTHERS[subject])
    assert not re.match(pattern_of(subject, OTHERS[subject]), word)


@pytest.mark.parametrize("subject", RULES_OF)
def test_names_of_rules_are_words_for_them(subject: Subject) -> None:
    for name in RULES_OF[subject]:
        assert rule_of(subject, name, OTHERS[subject]) == name
        assert re.match(pattern_of(subject, OTHERS[subject]), name)
    for kafka in (*KNOWN, *EXAMPLES, "2.8.2"):
        assert re.match(pattern_of(subject), kafka)
        assert rule_of(subject, kafka) in RULES_OF[subject]


@pytest.mark.parametrize(
    ("model", "old", "kafka"),
    [
        (IndexSettings, "first-offset", "1.1"),
        (IndexSettings, "kip33", "kip33"),
        (Retain, "0.11", "2.8.2"),
        (Retain, "0.8", "0.10.0"),
        (Roll, "0.10.1", "3.9.0"),
        (Roll, "largest", "largest"),
        (Lookup, "3.0", "3.7"),
    ],
)
def test_requests_hold_the_name_however_it_is_written(model: Any, old: str, kafka: str) -> None:
    assert model(rule=old).rule == model(rule=kafka).rule == old
    with pytest.raises(ValidationError, match="it knows"):
        model(rule="9.9")


def test_every_option_for_a_release_is_kafka() -> None:
    """An option of a rule takes --kafka first, and the older word, too."""
    found = 0
    for verb in VERBS:
        for operation in OPERATIONS if verb == "plan" else ("",):
            for model in models_of(verb, operation):
                for one in declared(model):
                    flags = one.option.flags.split()
                    if isinstance(one.kind.text, ByRelease):
                        assert flags == ["--kafka", "--generation"] and one.name == "rule"
                        found += 1
                    else:
                        assert "--generation" not in flags and "--release" not in flags
    assert found > 5


@pytest.mark.parametrize(
    ("words", "kafka", "generation"),
    [
        (("plan", "rebuild"), "1.1", "first-offset"),
        (("plan", "roll"), "3.9.0", "0.10.1"),
        (("plan", "retain", "--policy", "{policy}"), "2.8.2", "0.11"),
    ],
)
def test_plans_of_both_notations_have_one_digest(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    words: tuple[str, ...],
    kafka: str,
    generation: str,
) -> None:
    root = tmp_path / "disk" / "data"
    root.mkdir(parents=True)
    case("matrix-4.3.1-v2").unpack("data", root)
    policy = tmp_path / "policy.yaml"
    policy.write_text("topics:\n  '*': {retention.ms: 1000}\n")
    digests = set()
    for n, how in enumerate((("--kafka", kafka), ("--generation", generation))):
        given = [one.format(policy=policy) for one in words]
        more = [] if "rebuild" in words else ["--now", "2026-01-01T00:00:00Z"]
        code, out, err = run(
            capsys, *given[:2], root, *given[2:], *how, *more, "-o", tmp_path / f"plan{n}"
        )
        assert code in (0, 1), err
        digests |= {line for line in out.splitlines() if line.startswith("digest ")}
    assert len(digests) == 1
