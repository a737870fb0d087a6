"""The Params of the DAGs: here alone they are made, from the options that operations declare."""

from __future__ import annotations

from airflow.sdk import Param

from kafkats.config.option import REQUIRED
from kafkats_airflow.forms import boxes, form_of


def form(name: str) -> dict[str, Param]:
    """Return the Params of a form (kafkats_airflow.forms.form_of)."""
    return {
        one: Param(box.default, description=box.description, **box.schema)
        if box.default is not REQUIRED
        else Param(description=box.description, **box.schema)
        for one, box in boxes(form_of(name)).items()
    }
