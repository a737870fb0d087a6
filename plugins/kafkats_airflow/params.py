"""The Params of the DAGs: here alone they are made, from the options that operations declare."""

from __future__ import annotations

from airflow.sdk import Param

from kafkats.config.option import REQUIRED
from kafkats_airflow.forms import Box, boxes, form_of


def form(name: str) -> dict[str, Param]:
    """Return the Params of a form (kafkats_airflow.forms.form_of)."""
    return {one: _param(box) for one, box in boxes(form_of(name)).items()}


def _param(box: Box) -> Param:
    schema = {**box.schema, **box.labels}
    if box.default is REQUIRED:
        return Param(description=box.description, schema=schema)
    return Param(box.default, box.description, schema=schema)
