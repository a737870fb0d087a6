"""What the library says of options, in the words of somebody who sees Airflow only."""

from __future__ import annotations

import pytest
from kafkats_airflow.airflow_words import in_airflow
from kafkats_airflow.sentences import of

from kafkats import errors


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("or plan with --like-kafka", "or plan with param like_kafka"),
        ("if that may be: --accept-loss producer", "if that may be: param accept_loss producer"),
        (
            "--where rolled needs --segment-bytes or --segment-ms",
            "param split rolled needs param segment_bytes or param segment_ms",
        ),
        ("it does not go with --free", "it does not go with param free"),
        (
            "say so: --owner-stopped, or owner_stopped in the policy",
            "say so: owner_stopped in the policy",
        ),
        (
            "(--work-area, or work_area in the policy)",
            "(work_area in the policy)",
        ),
        ("--max-batch-bytes raises it", "--max-batch-bytes of the command line raises it"),
        ("see kafkats plan rebuild", "see the DAG with the tag kafkats:rebuild"),
        (
            "break the reservation: kafkats release /a --work-area /b",
            "break the reservation: kafkats release /a --work-area /b",
        ),
        ("/data/a--like-kafka-0 -- b", "/data/a--like-kafka-0 -- b"),
    ],
)
def test_options_are_params(text: str, said: str) -> None:
    assert in_airflow(text) == said


def test_a_param_is_one_that_the_run_has() -> None:
    assert in_airflow("--until", {"from", "to"}) == "param to"
    assert in_airflow("--until", {"time", "until"}) == "param until"
    assert in_airflow("--like-kafka", {"rule"}) == "--like-kafka of the command line"


CLASSES = sorted(
    (one for one in vars(errors).values() if isinstance(one, type)), key=lambda one: one.__name__
)


@pytest.mark.parametrize("kind", [k for k in CLASSES if issubclass(k, errors.KafkatsError)])
def test_an_error_names_no_class_and_says_what_to_do(kind: type[errors.KafkatsError]) -> None:
    said = of(kind("plan with --like-kafka", path="/data"), {"like_kafka"})
    assert said.startswith("/data: plan with param like_kafka")
    assert kind.__name__ not in said
    if kind is not errors.KafkatsError:
        assert said.startswith("/data: plan with param like_kafka; "), "what to do"
    assert ("another try can help" in said) is kind.retryable


def test_advice_is_not_given_twice() -> None:
    text = "other digest; clear the run to make a new plan"
    assert of(errors.Changed(text)) == text
