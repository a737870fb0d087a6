"""The forms that trigger the DAGs come from the options that the operations declare."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from kafkats_airflow import settings
from kafkats_airflow.boxes import boxes
from kafkats_airflow.forms import FORMS, RARE

from kafkats.config import parse_duration, parse_size
from kafkats.config.option import FILES, REQUIRED
from kafkats.config.topics import topic_filter
from kafkats.recovery.rules import start_rule

ROOT = Path(__file__).parents[2]
NOT_BY_THE_FORM = {"policy": settings.POLICY, "folder": settings.FOLDER}


def made_params() -> Iterator[str]:
    """The files of DAGs and plugin that call Param."""
    for path in sorted([*(ROOT / "dags").glob("*.py"), *(ROOT / "plugins").rglob("*.py")]):
        calls = (
            node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call)
        )
        if any(ast.unparse(call.func).rpartition(".")[2] == "Param" for call in calls):
            yield path.name


def test_params_are_made_in_one_place() -> None:
    assert list(made_params()) == ["params.py"]


@pytest.mark.parametrize("path", sorted((ROOT / "dags").glob("*.py")), ids=lambda path: path.stem)
def test_lines_are_at_most_100_columns(path: Path) -> None:
    assert [line for line in path.read_text().splitlines() if len(line) > 100] == []


@pytest.mark.parametrize("name", FORMS)
def test_a_form_begins_with_what_it_accepts(name: str) -> None:
    for param, box in boxes(FORMS[name]).items():
        if box.default is not REQUIRED:
            jsonschema.validate(box.default, box.schema)
        assert ("null" in box.schema["type"]) == (box.default is None or box.default == []), param
        assert box.default == NOT_BY_THE_FORM.get(param, box.default)


def test_what_a_form_shows(bag: Any) -> None:
    """One of each kind: the schema decides which element Airflow draws, and what it accepts."""
    retain, migrate, export = (boxes(FORMS[name]) for name in ("retain", "migrate", "export"))
    assert retain["before"][:3] == (
        None,
        {"type": ["null", "string"], "format": "date-time"},
        "Delete what is older than this moment, instead of applying retention.ms and"
        " retention.bytes. Empty: by retention.ms and retention.bytes",
    )
    assert retain["free"].schema == {"type": ["null", "string"]}
    assert retain["undo_days"].schema == {"type": "integer", "minimum": 0}
    assert retain["dry_run"].schema == {"type": "boolean"}
    assert retain["volumes"][:3] == (
        [],
        {"type": ["null", "array"], "items": {"type": "string"}},
        "Only these volumes: globs over paths or broker names. One per line. Empty: all",
    )
    assert migrate["from_magic"][:2] == (1, {"type": "integer", "enum": [0, 1]})
    assert migrate["rule"].schema["enum"] == ["last-offset", "first-offset"], "a broker reads it"
    assert export["time"][:3] == (
        REQUIRED,
        {"type": "string", "format": "date-time"},
        "Which offset was it at this time? To be given",
    )
    param = bag.dags["apply_retention"].params.get_param("before")
    before = retain["before"]
    assert (param.value, param.description) == (before.default, before.description)
    assert param.schema == before.schema | {"title": "Delete before"}


@pytest.mark.parametrize("name", FORMS)
def test_each_box_has_a_title_of_its_own(name: str) -> None:
    shown = boxes(FORMS[name])
    titles = [str(box.labels["title"]) for box in shown.values()]
    assert len({title.lower() for title in titles}) == len(titles)
    assert all(title[0].isupper() and "_" not in title for title in titles)
    sections = ["section" in box.labels for box in shown.values()]
    assert sections == sorted(sections), "closed ones are the last"
    files = {"policy", "folder"} & set(shown)
    assert files <= {one for one, box in shown.items() if "section" in box.labels}


READS = {
    "topics": topic_filter,
    "free": parse_size,
    "step": parse_duration,
    "margin": parse_duration,
    "kafka": start_rule,
}


@pytest.mark.parametrize("name", FORMS)
def test_examples_are_accepted_and_suggest_only(name: str) -> None:
    """Airflow makes a list with examples a choice among them, and then takes no other glob."""
    for param, box in boxes(FORMS[name]).items():
        if "examples" in box.labels:
            assert "string" in box.schema["type"] and "enum" not in box.schema
            for example in box.labels["examples"]:
                jsonschema.validate(example, box.schema)
                READS[param](example)
        else:
            assert param not in READS


def test_a_policy_that_hangs_does_not_hang_the_import(tmp_path: Path) -> None:
    """The forms are made without a look at the policy: here it is a pipe that nobody writes to."""
    os.mkfifo(policy := tmp_path / "policy.yaml")
    script = "from kafkats_airflow.params import form; print(form('retain')['policy'].value)"
    done = subprocess.run(
        [sys.executable, "-c", script],
        cwd=ROOT,
        env=os.environ
        | {"KAFKATS_POLICY": str(policy), "PYTHONPATH": f"{ROOT}:{ROOT / 'plugins'}"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, str(policy) in done.stdout) == (0, True), done.stderr


@pytest.mark.parametrize("name", FORMS)
def test_a_run_by_default_opens_no_section(name: str) -> None:
    """What is folded away has a default; what must be given, and what decides about writing, is seen."""
    shown = boxes(FORMS[name])
    folded_ids = {param for param, box in shown.items() if box.labels.get("section") == RARE}
    assert folded_ids == set(FORMS[name].rare)
    assert {box.labels.get("section") for box in shown.values()} <= {None, RARE, FILES}
    for param, box in shown.items():
        folded = "section" in box.labels
        assert not (folded and box.default is REQUIRED)
        assert not (folded and param in {"volumes", "topics", "need_approval", "dry_run", "phase"})
