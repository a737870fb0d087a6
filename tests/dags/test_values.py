"""The params that the plugin reads: each is in a form, and has the type that the form gives it."""

from __future__ import annotations

import re
import types
from types import SimpleNamespace
from typing import Any, Union, get_args, get_origin, get_type_hints

import pytest
from kafkats_airflow.forms import values
from kafkats_airflow.forms.boxes import boxes
from kafkats_airflow.forms.catalogue import FORMS
from kafkats_airflow.forms.values import RunParams, params_of

from kafkats.errors import UsageError

TYPES = {bool: {"boolean"}, int: {"integer"}, str: {"string"}, list: {"array"}}
READ = get_type_hints(RunParams)
OFFERED = {
    (name, form): box.schema
    for form, declared in FORMS.items()
    for name, box in boxes(declared).items()
    if name in READ
}


def json_types(annotation: Any) -> set[str]:
    if get_origin(annotation) in {Union, types.UnionType}:
        return set().union(*map(json_types, get_args(annotation)))
    if annotation is type(None):
        return {"null"}
    return TYPES[get_origin(annotation) or annotation]


@pytest.mark.parametrize(("name", "form"), sorted(OFFERED))
def test_a_param_has_the_type_of_its_field(name: str, form: str) -> None:
    given = OFFERED[name, form]["type"]
    assert set(given if isinstance(given, list) else [given]) <= json_types(READ[name])


def test_the_plugin_reads_no_param_that_no_form_has() -> None:
    assert set(READ) == {name for name, _ in OFFERED}


def test_the_params_are_those_of_the_run() -> None:
    params = {"policy": "/p.yaml", "volumes": None}
    assert params_of({"params": params}) is params


@pytest.mark.parametrize(
    ("conf", "upstream", "says"),
    [
        ({"volume": ["1"]}, set(), "conf: 'volume' is no param of d; did you mean 'volumes'?"),
        ({"nonsense": 1}, set(), "conf: 'nonsense' is no param of d; known are dry_run, volumes"),
        ({"volumes": ["1"]}, set(), ""),
        ({}, set(), ""),
        ({"nonsense": 1}, {"applications"}, ""),
    ],
)
def test_the_first_task_refuses_a_key_that_is_no_param(
    conf: dict[str, Any], upstream: set[str], says: str
) -> None:
    """A run by REST with a typo would do its defaults to all volumes."""
    context: Any = {
        "task": SimpleNamespace(upstream_task_ids=upstream),
        "dag": SimpleNamespace(dag_id="d", params={"dry_run": True, "volumes": []}),
        "dag_run": SimpleNamespace(conf=conf),
    }
    if not says:
        values.refuse_unknown(context)
        return
    with pytest.raises(UsageError, match=re.escape(says)):
        values.refuse_unknown(context)
