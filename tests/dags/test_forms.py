"""The forms that trigger the DAGs come from the options that the operations declare."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import jsonschema
import pytest
from kafkats_airflow import settings
from kafkats_airflow.forms.boxes import boxes, default_in_words
from kafkats_airflow.forms.catalogue import FORMS, LOSES, declared_in, form_of
from kafkats_airflow.forms.writing import (
    DRY_RUN,
    DRY_RUN_SAID,
    NEED_APPROVAL,
    NEED_APPROVAL_SAID,
    by_default,
)

from kafkats.config.option import FILES, RARE, REQUIRED
from kafkats.config.topics import topic_filter
from kafkats.config.values import parse_duration, parse_size
from kafkats.recovery.rules import start_rule
from kafkats.releases import behaviour

ROOT = Path(__file__).parents[2]
NOT_BY_THE_FORM = {"policy": settings.POLICY, "folder": settings.FOLDER}


def made_params() -> Iterator[str]:
    """The files of DAGs and plugin that call Param."""
    for path in sorted((ROOT / "plugins").rglob("*.py")):
        calls = (
            node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call)
        )
        if any(ast.unparse(call.func).rpartition(".")[2] == "Param" for call in calls):
            yield path.name


def test_params_are_made_in_one_place() -> None:
    assert list(made_params()) == ["params.py"]


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
        " retention.bytes. Written such as 2026-01-31T10:00:00Z. Lost: records that retention.ms and retention.bytes keep, so that a"
        " broker would keep them. Empty: by retention.ms and retention.bytes",
    )
    assert retain["free"].schema == {"type": ["null", "string"]}
    assert retain["undo_days"].schema == {"type": "integer", "minimum": 0}
    assert retain["dry_run"].schema == {"type": "boolean"}
    assert retain["volumes"][:3] == (
        [],
        {"type": ["null", "array"], "items": {"type": "string"}},
        "Only these volumes: globs over paths or broker names, such as broker-1 or /kafka/*. One per"
        " line. Empty: all",
    )
    assert migrate["from_magic"][:2] == (1, {"type": "integer", "enum": [0, 1]})
    rule = migrate["rule"].schema
    for word in ("last-offset", "first-offset", "4.3", "2.8.2", "1.1", "0.10.2.2"):
        jsonschema.validate(word, rule)
    for word in ("kip33", "9.9", "4", ""):  # no broker may read kip33's indexes
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(word, rule)
    assert export["time"][:3] == (
        REQUIRED,
        {"type": "string", "format": "date-time"},
        "Which offset was it at this time? Written such as 2026-01-31T10:00:00Z. To be given",
    )
    param = bag.dags["apply_retention"].params.get_param("before")
    before = retain["before"]
    assert (param.value, param.description) == (before.default, before.description)
    assert param.schema == before.schema | {"title": "Delete before", "section": LOSES}


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


@pytest.mark.parametrize("name", FORMS)
def test_each_box_says_its_default_and_how_a_value_is_written(name: str) -> None:
    for param, box in boxes(FORMS[name]).items():
        said = box.description + default_in_words(box)
        assert (
            "Default: " in said
            or any(
                word in said
                for word in ("Empty: ", "To be given", "Never empty", "default of this")
            )
            or (param, box.default) in NO_DEFAULT
        ), said
        if box.schema["type"] in ("string", ["null", "string"]) and "enum" not in box.schema:
            shown = box.default not in (None, REQUIRED) or "examples" in box.labels
            assert shown or "such as " in said or "lookup" in said or "ledger.jsonl" in said, said


NO_DEFAULT: Final = {("before", None), ("to", None)}
"""Options that another option asks for: their sentence says which."""
READS = {
    "topics": topic_filter,
    "free": parse_size,
    "step": parse_duration,
    "margin": parse_duration,
    "kafka": start_rule,
    "generation": behaviour,
    "rule": behaviour,
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


@pytest.mark.slow(2)
def test_a_policy_that_hangs_does_not_hang_the_import(tmp_path: Path) -> None:
    """The forms are made without a look at the policy: here it is a pipe that nobody writes to."""
    os.mkfifo(policy := tmp_path / "policy.yaml")
    script = "from kafkats_airflow.forms.params import form; print(form('retain')['policy'].value)"
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
    rare = {one.param for one in declared_in(FORMS[name]).values() if one.option.section == RARE}
    assert folded_ids == rare
    assert {box.labels.get("section") for box in shown.values()} <= {None, LOSES, RARE, FILES}
    for param, box in shown.items():
        folded = "section" in box.labels
        assert not (folded and box.default is REQUIRED)
        assert not (folded and param in {"volumes", "topics", "need_approval", "dry_run", "phase"})


WRITING = sorted({*FORMS} - {"table", "export"})
"""Forms of runs that may write."""


@pytest.mark.parametrize("name", [*WRITING, "split"])
def test_whether_a_run_writes_is_the_first_question_in_the_same_words(name: str) -> None:
    shown = boxes(form_of(name))
    wanted = {DRY_RUN: ("Dry run", DRY_RUN_SAID), NEED_APPROVAL: ("Ask for approval", NEED_APPROVAL_SAID)}  # fmt: skip
    own = [one for one in wanted if one in shown]
    assert [*shown][: len(own)] == own != []
    for one in own:
        title, said = wanted[one]
        assert shown[one].labels["title"] == title
        assert shown[one].description.startswith(said)


@pytest.mark.parametrize("name", WRITING)
def test_a_form_says_what_its_defaults_do(name: str) -> None:
    """Where a deployment sets nothing, no form begins with a run that writes without a person."""
    shown = boxes(FORMS[name])
    dry, asks = (one in shown and bool(shown[one].default) for one in (DRY_RUN, NEED_APPROVAL))
    first = next(iter(shown.values()))
    assert first.description.endswith(by_default(dry=dry, asks=asks))
    assert dry or asks


FORMS_SAID = """
import json
from kafkats_airflow.forms.boxes import boxes, default_in_words
from kafkats_airflow.forms.catalogue import FORMS
print(json.dumps({
    name: [(key, box.default, box.description) for key, box in list(boxes(FORMS[name]).items())[:2]]
    for name in ("retain", "roll")
}))
"""


def test_the_forms_of_a_deployment_that_writes_by_itself() -> None:
    done = subprocess.run(
        [sys.executable, "-c", FORMS_SAID],
        env=os.environ | {"KAFKATS_RETENTION": "apply", "PYTHONPATH": f"{ROOT}:{ROOT / 'plugins'}"},
        capture_output=True,
        text=True,
        check=True,
    )
    said = json.loads(done.stdout)
    assert [one[:2] for one in said["roll"]] == [["dry_run", False], ["need_approval", False]]
    assert said["roll"][0][2].endswith("WITHOUT a question")
    assert [one[:2] for one in said["retain"]] == [["dry_run", False], ["need_approval", True]]
    assert said["retain"][0][2].endswith("without a person's yes")


def test_options_by_which_more_is_lost_are_fenced_and_say_what() -> None:
    found = {
        name: {
            one.param: one.option.loses for one in declared_in(form).values() if one.option.loses
        }
        for name, form in FORMS.items()
    }
    found = {name: loses for name, loses in found.items() if loses}
    assert {name: set(loses) for name, loses in found.items()} == {
        "retain": {"before", "inside_segments", "last_segment"},
        "recover": {"like_kafka"},
        "migrate": {"accept_loss"},
    }
    for name, loses in found.items():
        shown = boxes(FORMS[name])
        fenced = [param for param, box in shown.items() if box.labels.get("section") == LOSES]
        assert set(fenced) == set(loses)
        for param in fenced:
            box = shown[param]
            assert loses[param].startswith("Lost: ") and loses[param] in box.description
            assert box.default in (None, False, []), "off by default"
