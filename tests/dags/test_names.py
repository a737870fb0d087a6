"""DAG, task and param ids that others use are still there: tests/compat/names.json is of the day before the house was rebuilt."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.compat import names

RECORDED = json.loads(names.NAMES.read_text())["dags"]


@pytest.mark.parametrize("dag", RECORDED)
def test_ids(bag: Any, dag: str) -> None:
    now = names.of_bag(bag)
    assert dag in now
    for kind, ids in RECORDED[dag].items():
        assert {*ids} - {*now[dag][kind]} == set(), kind
