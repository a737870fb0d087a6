"""Requests and results of earlier formats can still be read, and are what the checked-in schemas say."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

import pytest
from jsonschema import Draft202012Validator

from kafkats.config.given import Given
from kafkats.errors import DiskFull
from kafkats.request import VERBS, Request, models_of
from kafkats.result import Result

ROOT: Final = Path(__file__).parents[2]
DOCUMENTS: Final = Path(__file__).parent / "documents"
REQUESTS: Final = json.loads((DOCUMENTS / "requests-1.json").read_text())
RESULTS: Final = json.loads((DOCUMENTS / "results-1.json").read_text())


def schema(name: str) -> Draft202012Validator:
    return Draft202012Validator(json.loads((ROOT / "docs" / f"{name}.schema.json").read_text()))


def test_the_schemas_are_those_of_the_models() -> None:
    subprocess.run(
        [sys.executable, str(ROOT / "tools" / "requests_page.py"), "--check"], check=True
    )


@pytest.mark.parametrize("one", REQUESTS, ids=lambda one: one["verb"] + one.get("operation", ""))
def test_a_request_is_read_without_loss(one: dict[str, Any]) -> None:
    schema("request").validate(one)
    read = Request.model_validate(one)
    written = json.loads(read.model_dump_json(exclude_defaults=True))
    assert written == {name: value for name, value in one.items() if name != "format"}
    schema("request").validate(written)
    for model in models_of(read.verb, read.operation):
        read.of(model)
    if read.policy is not None:
        assert list(read.policy.policy().topics) == [
            glob for glob, _ in one["policy"].get("topics", ())
        ]
    if read.verb == "plan":
        given = read.given()
        assert isinstance(given, Given) and given.named >= set(one["options"]["PlanFolder"])


def test_every_verb_has_documents() -> None:
    assert {one["verb"] for one in REQUESTS} == {one["verb"] for one in RESULTS} == {*VERBS}


def test_a_misspelled_option_fits_neither_schema_nor_model() -> None:
    wrong = {"verb": "purge", "made_ms": 1, "options": {"Purge": {"older_then": 1}}}
    assert not schema("request").is_valid(wrong)
    with pytest.raises(ValueError, match="older_then"):
        Request.model_validate(wrong)


@pytest.mark.parametrize("one", RESULTS, ids=lambda one: one["verb"])
def test_a_result_is_read_and_summed_up(one: dict[str, Any]) -> None:
    schema("result").validate(one)
    read = Result.model_validate(one)
    again = json.loads(read.model_dump_json(exclude_none=True))
    schema("result").validate(again)
    assert Result.model_validate(again).summary() == read.summary()
    expected = {
        "plan": {
            "plan": "/p",
            "files": 4,
            "reserves": ["/kafka/a"],
            "reserved_until_ms": 5,
            "over_guard": 2,
        },
        "apply": {"run": "/r", "exit_code": 2, "outcomes": {"done": 2}, "left_partitions": 0},
        "undo": {
            "runs": ["/r"],
            "certificate": "/c",
            "certificate_digest": "c",
            "log_dirs": ["/kafka/a"],
        },
        "purge": {"runs": ["/r"], "freed_bytes": 9, "not_due": ["/q"]},
        "verify": {"segments": 3, "files": 2, "not_equal": ["/f: no"], "runs": ["/run"]},
        "preflight": {"outcome": "offline", "log_dirs": [{"log_dir": "/kafka/a"}]},
        "inventory": {"segments": 3, "groups": 2},
        "census": {"groups": 2, "log_dirs": ["/kafka/a"], "report": "/r"},
        "certify": {
            "digest": "c",
            "seen": {"segments": 3},
            "files": 2,
            "runs": ["/run"],
            "log_dirs": ["/kafka/a"],
        },
        "lookup": {"partitions": 3, "unreadable": 1},
        "export": {"export": "/out.csv", "named": ["t-0: no start (past-end)"]},
        "recover": {
            "start": False,
            "recovered": 2,
            "runs": ["/kafka/.kafkats/a/@recover/x/plan.run"],
        },
        "release": {"free": ["/kafka/b"], "kept": []},
    }[read.verb]
    assert read.summary().items() >= expected.items()


def test_an_error_of_a_result() -> None:
    [failed] = [one for one in RESULTS if "error" in one]
    error = Result.model_validate(failed).error
    assert error is not None and isinstance(error.as_error(), DiskFull)
    assert error.as_error().numbers == {"free_bytes": 0}


def test_the_examples_of_the_page() -> None:
    page = (ROOT / "docs" / "requests.md").read_text()
    request, result = re.findall(r"```json\n(.*?)```", page, flags=re.DOTALL)
    schema("request").validate(json.loads(request))
    Request.model_validate_json(request)
    schema("result").validate(json.loads(result))
    assert Result.model_validate_json(result).exit_code == 3
