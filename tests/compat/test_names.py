"""Every name that others use is still there: names.json is of the day before the house was rebuilt."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kafkats import findings
from tests.compat import names

RECORDED = json.loads(names.NAMES.read_text())


@pytest.mark.parametrize("command", RECORDED["commands"])
def test_commands_and_options(command: str) -> None:
    now = names.commands()
    assert command in now
    assert {*RECORDED["commands"][command]} <= {*now[command]}


@pytest.mark.parametrize("words", RECORDED["jobs"])
def test_words_of_jobs(words: str) -> None:
    assert {*RECORDED["jobs"][words]} - {*names.job(words)} == set()


def test_fields_of_json(tmp_path: Path) -> None:
    now = names.json_fields(tmp_path)
    lacking = {command: {*fields} - {*now[command]} for command, fields in RECORDED["json"].items()}
    assert {command: fields for command, fields in lacking.items() if fields} == {}


def test_kinds_of_findings() -> None:
    assert {*RECORDED["findings"]} <= {*findings.KINDS}


def test_variables_of_the_environment() -> None:
    assert {*RECORDED["environment"]} <= {*names.environment()}


def test_keys_of_a_policy() -> None:
    assert len(RECORDED["policy"]) > 50
    assert {*RECORDED["policy"]} <= {*names.policy_keys()}


def test_the_table_is_not_empty() -> None:
    """A table that was made where nothing works would hold anybody to nothing."""
    assert len(RECORDED["commands"]) >= 20 and all(RECORDED["commands"].values())
    assert len(RECORDED["jobs"]) == len(names.JOBS) and all(
        len(words) > 3 for words in RECORDED["jobs"].values()
    )
    assert all(RECORDED["json"].values())
    assert len(RECORDED["dags"]) == 6 and all(
        one["tasks"] and one["params"] for one in RECORDED["dags"].values()
    )
