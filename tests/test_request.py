"""The request document: no part of an instruction is ignored, and bytes that are none are refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkats.errors import UsageError
from kafkats.plans.options import Apply
from kafkats.request import Request, read_request, write_request

ASKED = Request.model_validate({
    "id": "dag/run/task/0",
    "verb": "apply",
    "made_ms": 5,
    "plan": {"folder": "/p", "digest": "0" * 64},
    "options": {"Apply": {"run_folder": "/r", "prove": False}, "WorkArea": {"place": "/w"}},
    "reservation": {"holder": "ada"},
})


def test_a_file_and_back(tmp_path: Path) -> None:
    path = tmp_path / "request.json"
    path.write_text(ASKED.model_dump_json(exclude_defaults=True))
    read = read_request(path)
    assert read == ASKED and read.of(Apply) == Apply(run_folder=Path("/r"), prove=False)


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"approvers": ["me"]}, "approvers"),
        ({"format": 2}, "format"),
        ({"verb": "destroy"}, "verb"),
        ({"options": {"Apply": {"all": True}}}, "all"),
        ({"options": {"Rebuild": {}}}, "Rebuild: apply has no such options"),
        ({"plan": {"folder": "/p", "forced": True}}, "plan.forced"),
        ({"made_ms": None}, "made_ms"),
        ({"made_ms": 2**63}, "64 bits"),
        ({"reservation": {"holder": "ada", "until_ms": 2**63}}, "64 bits"),
    ],
)
def test_what_is_not_known_is_refused(tmp_path: Path, more: dict[str, Any], said: str) -> None:
    path = tmp_path / "request.json"
    fields = ASKED.model_dump(mode="json", exclude_defaults=True) | more
    path.write_text(json.dumps(fields))
    with pytest.raises(UsageError, match=said):
        read_request(path)


@given(st.binary(max_size=80))
def test_bytes_that_are_no_request(tmp_path_factory: pytest.TempPathFactory, data: bytes) -> None:
    path = tmp_path_factory.mktemp("r") / "request.json"
    path.write_bytes(data)
    with pytest.raises(UsageError):
        read_request(path)


def test_what_is_written_is_read_again_with_its_topics_in_order(tmp_path: Path) -> None:
    topics = [["b-*", {"retention.ms": 1}], ["a-*", {}], ["*", {"retention.ms": 2}]]
    request = Request.model_validate({
        "verb": "plan", "made_ms": 1, "operation": "retain", "log_dirs": [{"path": "/a"}],
        "policy": {"topics": topics, "guard": {"max.share": 0.5}},
        "options": {"Retain": {"free_bytes": "1KiB"}},
    })  # fmt: skip
    path = tmp_path / "request.json"
    write_request(path, request)
    assert path.stat().st_mode & 0o777 == 0o600
    content = json.loads(path.read_text())
    assert content["format"] == 1 and "approval" not in content
    assert content["policy"]["topics"] == topics
    assert read_request(path) == request
