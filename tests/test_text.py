"""Sentences with names keep them: added, in errors, over processes and in results."""

from __future__ import annotations

import pickle

from kafkats.errors import Refused
from kafkats.result import Failure, Result
from kafkats.text import PLAN_LIKE_KAFKA, Command, Flag, Text, of_row

SAID = Text("say so: ", Flag("--owner-stopped", "owner_stopped"))
SHELL = "say so: --owner-stopped, or owner_stopped in the policy"


def test_a_shell_reads_the_sentence() -> None:
    assert SAID == SHELL
    assert Text(Command("plan rebuild", ("/a b",))) == "kafkats plan rebuild '/a b'"


def test_names_are_kept_in_longer_sentences() -> None:
    longer = "a: " + SAID + "; b"
    assert longer == f"a: {SHELL}; b"
    assert longer.parts == ("a: ", "say so: ", Flag("--owner-stopped", "owner_stopped"), "; b")


def test_an_error_keeps_names_in_another_process_and_in_a_result() -> None:
    error = pickle.loads(pickle.dumps(Refused(SAID, path="/kafka/a")))
    assert str(error) == f"/kafka/a: {SHELL}"
    assert type(str(error)) is str
    result = Result(verb="apply", error=Failure.of(error))
    result.remarks += [SAID, "plain"]
    result.finish()
    again = Result.model_validate_json(result.model_dump_json(exclude_none=True))
    assert again.error is not None
    assert again.error.as_error().text.parts == error.text.parts
    assert again.remarks == [SHELL, "plain"]
    assert [again.text(one).parts for one in again.remarks] == [SAID.parts, ("plain",)]


def test_a_result_of_an_earlier_version_has_sentences_without_names() -> None:
    old = Result.model_validate({"verb": "apply", "error": {"kind": "Refused", "reason": SHELL}})
    assert old.error is not None
    assert str(old.error.as_error()) == SHELL


def test_reasons_of_rows_get_their_names_back() -> None:
    stored = f"corrupt; restore it from a replica, or {PLAN_LIKE_KAFKA}"
    assert of_row(stored) == stored
    assert Flag("--like-kafka") in of_row(stored).parts
    assert of_row("clean").parts == ("clean",)
