"""The params that the plugin reads: each is in a form."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import kafkats_airflow
import pytest
from kafkats_airflow.forms import values
from kafkats_airflow.forms.catalogue import FORMS
from kafkats_airflow.forms.values import params_of

from kafkats.errors import UsageError

SOURCES = sorted(Path(kafkats_airflow.__file__).parent.rglob("*.py"))


def read_in(source: str) -> set[str]:
    """Return the names in `params["NAME"]`, `params_of(...)["NAME"]` and `.get("NAME")` of both."""
    found = set()
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Subscript(value=of, slice=ast.Constant(value=str(name))):
                pass
            case ast.Call(
                func=ast.Attribute(value=of, attr="get"), args=[ast.Constant(value=str(name)), *_]
            ):
                pass
            case _:
                continue
        if ast.unparse(of).startswith(("params_of(", "params[")) or ast.unparse(of) == "params":
            found.add(name)
    return found


def test_the_plugin_reads_no_param_that_no_form_has() -> None:
    read = set().union(*(read_in(path.read_text()) for path in SOURCES))
    assert {"policy", "volumes", "dry_run", "of_run"} < read
    assert read <= {name for form in FORMS.values() for name in form.ids}


def test_the_params_are_those_of_the_run() -> None:
    params = {"policy": "/p.yaml", "volumes": None}
    assert params_of({"params": params}) is params


@pytest.mark.parametrize(
    ("conf", "says"),
    [
        ({"volume": ["1"]}, "conf: 'volume' is no param of d; did you mean 'volumes'?"),
        ({"nonsense": 1}, "conf: 'nonsense' is no param of d; known are dry_run, volumes"),
        ({"volumes": ["1"]}, ""),
        ({}, ""),
    ],
)
def test_a_key_that_is_no_param_is_refused(conf: dict[str, Any], says: str) -> None:
    """A run by REST with a typo would do its defaults to all volumes."""
    context: Any = {
        "dag": SimpleNamespace(dag_id="d", params={"dry_run": True, "volumes": []}),
        "dag_run": SimpleNamespace(conf=conf),
    }
    if not says:
        values.refuse_unknown(context)
        return
    with pytest.raises(UsageError, match=re.escape(says)):
        values.refuse_unknown(context)


@pytest.mark.parametrize(("upstream", "first"), [(set(), True), ({"applications"}, False)])
def test_the_first_task_has_none_before_it(upstream: set[str], first: bool) -> None:
    context: Any = {"task": SimpleNamespace(upstream_task_ids=upstream)}
    assert values.is_first(context) is first
