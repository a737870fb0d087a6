"""The forms that trigger the DAGs: which options each has, and what only a run of a DAG has.

The options of the operations are declared in `kafkats/<room>/options.py` (kafkats.config.option).
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
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
RARE: Final = "Rarely needed"
"""The section of options that most runs leave as they are."""
LOSES: Final = "Deletes or loses more"
"""The section of options by which a run deletes or loses what it would keep without them."""


class Form(NamedTuple):
    """The form of a DAG: `ids` in the order that a person sees.

    `models` declare the options. Of two options with the same id the first one counts. `rare` ones
    are folded away, in a section of their own, and so are those in `loses`: options by which more
    is deleted or lost, each with a sentence on that. Every form of a run that writes begins with
    `dry_run` and `need_approval`.
    """

    models: tuple[type[Options], ...]
    ids: tuple[str, ...]
    rare: tuple[str, ...] = ()
    loses: Mapping[str, str] = MappingProxyType({})


_WRITING: Final = (DRY_RUN, NEED_APPROVAL)
_WHERE: Final = ("policy", "volumes", "topics")

FORMS: Final[Mapping[str, Form]] = {
    "rebuild": Form(
        (RebuildingRun, Rebuild, Topics, Settings),
        (
            *_WRITING,
            "policy",
            "volumes",
            "topics",
            "rule",
            "depth",
            "only_after_unclean_stop",
            "recover",
            "folder",
        ),
        rare=("rule", "only_after_unclean_stop"),
    ),
    "recover": Form(
        (RecoveringRun, Recover, Topics, Settings),
        (
            *_WRITING,
            "policy",
            "volumes",
            "topics",
            "rule",
            "like_kafka",
            "kafka",
            "copy_readable",
            "mend_magic",
            "folder",
        ),
        rare=("rule", "mend_magic"),
        loses={
            "like_kafka": "Lost: every record behind the first corrupt batch of a log, also those"
            " that can be read",
        },
    ),
    "migrate": Form(
        (MigrationRun, Migration, Migrate, ClientMix, Step, Settings),
        (
            *_WRITING,
            "policy",
            "volumes",
            "phase",
            "from_magic",
            "to_magic",
            "compression_type",
            "rule",
            "accept_loss",
            "attested_by",
            "clients",
            "ledger",
            "folder",
        ),
        rare=("compression_type", "rule"),
        loses={
            "accept_loss": "Lost: what each word names, in every record that has it; it comes back"
            " only by an undo, before the old files are purged",
        },
    ),
    "retain": Form(
        (RetentionRun, Retain, Topics, Settings),
        (
            *_WRITING,
            "policy",
            "volumes",
            "topics",
            "generation",
            "as_of",
            "before",
            "free",
            "inside_segments",
            "last_segment",
            "undo_days",
            "folder",
        ),
        rare=("generation", "as_of", "undo_days"),
        loses={
            "before": "Lost: records that retention.ms and retention.bytes keep, so that a broker"
            " would keep them",
            "inside_segments": "Lost: records that a broker keeps until their whole segment has"
            " expired",
            "last_segment": "Lost: the newest records of a partition, once they have expired; a"
            " broker deletes them too, but kafkats keeps them otherwise",
        },
    ),
    "roll": Form(
        (SplittingRun, Roll, Simulation, Split, Topics, Settings),
        (
            *_WRITING,
            "policy",
            "volumes",
            "topics",
            "generation",
            "as_of",
            "simulate",
            "split",
            "segment_bytes",
            "segment_ms",
            "earliest",
            "before",
            "undo_days",
            "folder",
        ),
        rare=(
            "generation",
            "as_of",
            "segment_bytes",
            "segment_ms",
            "earliest",
            "before",
            "undo_days",
        ),
    ),
    "clean": Form((CleaningRun,), (DRY_RUN, "keep_days", "folder")),
    "end": Form(
        (EndingRun, Settings),
        (NEED_APPROVAL, "verb", "of_dag", "of_run", "digest", "policy", "folder"),
    ),
    "table": Form(
        (ReadingRun, Table, Search, Topics, Settings),
        (
            "policy",
            "volumes",
            "topics",
            "step",
            "exact",
            "high_watermark",
            "from",
            "to",
            "tables",
            "folder",
        ),
        rare=("exact", "high_watermark", "from", "to"),
    ),
    "export": Form(
        (ReadingRun, Export, Search, Topics, Settings),
        (
            "time",
            "topics",
            "format",
            "until",
            "margin",
            "missing",
            "group",
            "high_watermark",
            "source",
            "policy",
            "volumes",
            "tables",
            "folder",
        ),
        rare=("margin", "high_watermark", "source"),
    ),
}


def form_of(name: str) -> Form:
    """Return a form of FORMS; for any other operation the form with all its options."""
    if name in FORMS:
        return FORMS[name]
    models = OPERATIONS[name].models
    own = (one.param for model in models for one in declared(model) if one.option.flags)
    return Form((WritingRun, *models, Topics, Settings), (*_WRITING, *_WHERE, *own, "folder"))


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
