"""The Params of the DAGs, from the options that operations declare, and the field of a question:
here alone they are made.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from airflow.sdk import Param

from kafkats.config.option import REQUIRED
from kafkats_airflow import settings
from kafkats_airflow.forms.boxes import Box, boxes, default_in_words
from kafkats_airflow.forms.catalogue import form_of
from kafkats_airflow.forms.suggestions import Suggestions, suggestions


def form(name: str, defaults: Mapping[str, object] = MappingProxyType({})) -> dict[str, Param]:
    """Return the Params of a form (kafkats_airflow.forms.catalogue.form_of). `defaults` are those
    of a set of DAGs, instead of the form's own.
    """
    known = suggestions(str(defaults.get("policy", settings.POLICY)))
    found = boxes(form_of(name))
    own = {one: found[one]._replace(default=defaults[one]) for one in defaults.keys() & found}
    return {one: _param(with_known(one, box, known)) for one, box in {**found, **own}.items()}


def with_known(name: str, box: Box, known: Suggestions) -> Box:
    """Return a box with what the deployment's policy names.

    Topics become suggestions below the box. Those of a list would be the only ones that Airflow's
    form takes, so that no glob could be written: volumes are told in the description.
    """
    if name == "topics" and known.topics:
        return box._replace(labels={**box.labels, "examples": ["*", *known.topics]})
    if name == "volumes" and known.volumes:
        return box._replace(description=f"{box.description}. Known: {', '.join(known.volumes)}")
    return box


def _param(box: Box) -> Param:
    schema, said = {**box.schema, **box.labels}, box.description + default_in_words(box)
    if box.default is REQUIRED:
        return Param(description=said, schema=schema)
    return Param(box.default, said, schema=schema)


def digest_field(digest: str) -> Param:
    """Return the field of a question that says what was shown, for Airflow's own form."""
    return Param(
        digest,
        "Leave it as it is. The answer counts only for the plan with this digest. After a clear,"
        " Airflow shows the earlier text: then answer on the plan's page, or write the digest that"
        " is given there.",
        type="string",
        title="Digest of what was shown",
        maxLength=64,
    )
