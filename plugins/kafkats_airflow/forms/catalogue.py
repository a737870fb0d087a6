"""The forms that trigger the DAGs: which options each has, and what only a run of a DAG has.

The options of the operations are declared in `kafkats/<room>/options.py` (kafkats.config.option).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from kafkats.config.option import Declared, Options, declared
from kafkats.config.options import Settings, Topics
from kafkats.lookup.options import Export, Search, Table
from kafkats.migration.options import ClientMix, Migrate, Migration, Step
from kafkats.operations import OPERATIONS
from kafkats.rebuild.options import Rebuild
from kafkats.recovery.options import Recover
from kafkats.retention.options import Retain
from kafkats.rolling.options import Roll, Simulation
from kafkats.split.options import Split
from kafkats_airflow import settings
from kafkats_airflow.forms.options import (
    CleaningRun,
    EndingRun,
    MigrationRun,
    ReadingRun,
    RebuildingRun,
    RecoveringRun,
    RetentionRun,
    SplittingRun,
    WritingRun,
)
from kafkats_airflow.forms.writing import DRY_RUN, NEED_APPROVAL

DEPLOYMENT: Final = {"policy": settings.POLICY, "folder": settings.FOLDER}
"""Params whose default a deployment sets, in the variable KAFKATS_<PARAM>."""
LOSES: Final = "Deletes or loses more"
"""The section of options by which a run deletes or loses what it would keep without them."""


class Form(NamedTuple):
    """The form of a DAG: `ids` in the order that a person sees.

    `models` declare the options. Of two options with the same id the first one counts. Every form
    of a run that writes begins with `dry_run` and `need_approval`.
    """

    models: tuple[type[Options], ...]
    ids: tuple[str, ...]


def _writing(*models: type[Options], own: Sequence[str]) -> Form:
    """Return the form of a run that may write: what every one has, and its `own` options."""
    ids = (DRY_RUN, NEED_APPROVAL, "policy", "volumes", "topics", *own, "folder")
    every: tuple[type[Options], ...] = (*models, Settings)
    known = {one.param for model in every for one in declared(model)}
    return Form(every, tuple(one for one in ids if one in known))


_ROLL: Final = (
    *("generation", "as_of", "simulate", "split"),
    *("segment_bytes", "segment_ms", "earliest", "before", "undo_days"),
)
_RETAIN: Final = (
    *("generation", "as_of", "before", "free"),
    *("inside_segments", "last_segment", "undo_days"),
)
_MIGRATE: Final = (
    *("phase", "from_magic", "to_magic", "compression_type", "rule"),
    *("accept_loss", "attested_by", "clients", "ledger"),
)
_TABLE: Final = (
    *("policy", "volumes", "topics", "step", "exact", "high_watermark"),
    *("from", "to", "tables", "folder"),
)
_EXPORT: Final = (
    *("time", "topics", "format", "until", "margin", "missing", "group"),
    *("high_watermark", "source", "policy", "volumes", "tables", "folder"),
)
_END: Final = (NEED_APPROVAL, "verb", "of_dag", "of_run", "digest", "policy", "folder")
FORMS: Final[Mapping[str, Form]] = {
    "rebuild": _writing(
        RebuildingRun,
        Rebuild,
        Topics,
        own=("rule", "depth", "only_after_unclean_stop", "recover"),
    ),
    "recover": _writing(
        RecoveringRun,
        Recover,
        Topics,
        own=("rule", "like_kafka", "kafka", "copy_readable", "mend_magic"),
    ),
    "migrate": _writing(MigrationRun, Migration, Migrate, ClientMix, Step, own=_MIGRATE),
    "retain": _writing(RetentionRun, Retain, Topics, own=_RETAIN),
    "roll": _writing(SplittingRun, Roll, Simulation, Split, Topics, own=_ROLL),
    "clean": Form((CleaningRun,), (DRY_RUN, "keep_days", "folder")),
    "end": Form((EndingRun, Settings), _END),
    "table": Form((ReadingRun, Table, Search, Topics, Settings), _TABLE),
    "export": Form((ReadingRun, Export, Search, Topics, Settings), _EXPORT),
}


def form_of(name: str) -> Form:
    """Return a form of FORMS; for any other operation the form with all its options."""
    if name in FORMS:
        return FORMS[name]
    models = OPERATIONS[name].models
    own = [one.param for model in models for one in declared(model) if one.option.flags]
    return _writing(WritingRun, *models, Topics, own=own)


def declared_in(form: Form) -> dict[str, Declared]:
    """Return the options of a form, by id, in its order."""
    found: dict[str, Declared] = {}
    for model in form.models:
        for one in declared(model):
            found.setdefault(one.param, one)
    return {name: found[name] for name in form.ids}


def flag_of(one: Declared) -> str:
    """Return the word of an option on the command line, the long one of several."""
    words = one.option.flags.partition("/")[0].split()
    return next((word for word in words if word.startswith("--")), words[0])
