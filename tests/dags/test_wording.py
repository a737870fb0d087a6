"""What the library says of options, in the words of somebody who sees Airflow only."""

from __future__ import annotations

import pytest
from kafkats_airflow.forms.wording import in_form
from kafkats_airflow.sentences import of

from kafkats import errors
from kafkats.text import Command, Flag, Text, of_row


@pytest.mark.parametrize(
    ("parts", "said"),
    [
        (["or plan with ", Flag("--like-kafka")], "or plan with param like_kafka"),
        (["if so: ", Flag("--accept-loss"), " producer"], "if so: param accept_loss producer"),
        (
            [Flag("--where"), " rolled needs ", Flag("--segment-bytes")],
            "param split rolled needs param segment_bytes",
        ),
        (["it does not go with ", Flag("--free")], "it does not go with param free"),
        (
            ["say so: ", Flag("--owner-stopped", "owner_stopped")],
            "say so: owner_stopped in the policy",
        ),
        (
            [Flag("--max-batch-bytes"), " raises it"],
            "--max-batch-bytes of the command line raises it",
        ),
        (["see ", Command("plan rebuild")], "see the DAG with the tag kafkats:rebuild"),
        (
            [Command("release", ("/a b", "--work-area", "/b"))],
            "kafkats release '/a b' --work-area /b",
        ),
        (["/data/a--like-kafka-0 -- b"], "/data/a--like-kafka-0 -- b"),
    ],
)
def test_options_are_params(parts: list[str | Flag | Command], said: str) -> None:
    assert in_form(Text(*parts)) == said


def test_words_are_no_names() -> None:
    assert in_form("a topic named --like-kafka") == "a topic named --like-kafka"


def test_a_row_has_its_names_again() -> None:
    said = in_form(of_row("restore it, or plan with --accept-loss offsets"))
    assert said == "restore it, or plan with param accept_loss offsets"


def test_a_param_is_one_that_the_run_has() -> None:
    assert in_form(Text(Flag("--until")), {"from", "to"}) == "param to"
    assert in_form(Text(Flag("--until")), {"time", "until"}) == "param until"
    like = Text(Flag("--like-kafka"))
    assert in_form(like, {"rule"}) == "--like-kafka of the command line"


CLASSES = sorted(
    (one for one in vars(errors).values() if isinstance(one, type)), key=lambda one: one.__name__
)


@pytest.mark.parametrize("kind", [k for k in CLASSES if issubclass(k, errors.KafkatsError)])
def test_an_error_names_no_class_and_says_what_to_do(kind: type[errors.KafkatsError]) -> None:
    said = of(kind(Text("plan with ", Flag("--like-kafka")), path="/data"), {"like_kafka"})
    assert said.startswith("/data: plan with param like_kafka")
    assert kind.__name__ not in said
    if kind is not errors.KafkatsError:
        assert said.startswith("/data: plan with param like_kafka; "), "what to do"
    assert ("another try can help" in said) is kind.retryable


def test_advice_is_not_given_twice() -> None:
    text = "other digest; clear the run to make a new plan"
    assert of(errors.Changed(text)) == text
