"""The forms that trigger the DAGs: which options each has, and what only a run of a DAG has.

The options of the operations are declared in `kafkats/<room>/options.py` (kafkats.config.option).
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Annotated, Final, NamedTuple

from pydantic import Field

from kafkats.config.option import FILES, Choice, Declared, Option, Options, declared
from kafkats.config.options import Settings, Topics
from kafkats.lookup.options import Export, Search, Table
from kafkats.migration.options import PHASES, Migrate, Migration, Step
from kafkats.operations import OPERATIONS
from kafkats.rebuild.options import Rebuild
from kafkats.recovery.options import Recover
from kafkats.retention.options import Retain
from kafkats.rolling.options import Roll, Simulation
from kafkats.split.options import SPLITS, Split
from kafkats_airflow import settings, writing_options
from kafkats_airflow.cleaning_options import CleaningRun
from kafkats_airflow.writing_options import DRY_RUN, NEED_APPROVAL

DEPLOYMENT: Final = {"policy": settings.POLICY, "folder": settings.FOLDER}
"""Params whose default a deployment sets, in the variable KAFKATS_<PARAM>."""
RARE: Final = "Rarely needed"
"""The section of options that most runs leave as they are."""
LOSES: Final = "Deletes or loses more"
"""The section of options by which a run deletes or loses what it would keep without them."""


class Run(Options):
    """Params of every DAG run."""

    volumes: Annotated[
        tuple[str, ...],
        Option("Only these volumes: globs over paths or broker names", unset="all"),
    ] = ()
    folder: Annotated[
        str,
        Option("Where plans, runs and reports are written", title="Folder", section=FILES),
    ]


class ReadingRun(Run):
    """A run that answers which offset it was."""

    exact: Annotated[
        bool,
        Option(
            "Read all batch headers and checksums instead of the time indexes (--depth full):"
            " slower",
            title="Read all batches",
        ),
    ] = False
    source: Annotated[
        str,
        Choice(("volumes", "tables")),
        Option(
            "volumes: search the log directories; tables: read the table of build_lookup_tables"
        ),
    ] = "volumes"
    tables: Annotated[
        str | None,
        Option(
            "Where the tables are",
            unset="lookup in the folder",
            title="Folder of the tables",
            section=FILES,
        ),
    ] = None
    folder: Annotated[
        str,
        Option("Where exports and reports are written", title="Folder", section=FILES),
    ]


class WritingRun(Run):
    """A run that may change log directories."""

    need_approval: Annotated[bool, writing_options.need_approval()] = True
    dry_run: Annotated[bool, writing_options.dry_run()] = False


class RecoveringRun(WritingRun):
    """A run that may also tell what brokers would do at their start."""

    kafka: Annotated[
        str | None,
        Option(
            "The release of the brokers: before the plan, `preflight` reports what each would do if"
            " it were started as it is",
            unset="this is not reported",
            title="Kafka release",
            examples=("4.3", "3.9.1", "2.8"),
        ),
    ] = None


class RebuildingRun(WritingRun):
    """A run that may start a run of recover_log_dirs at its end."""

    recover: Annotated[
        bool,
        Option(
            "After this run, start recover_log_dirs on the same volumes and topics, with the same"
            " approval: it also recovers what the brokers had not flushed, so that they start at"
            " once",
            title="Then recover log directories",
        ),
    ] = False


class MigrationRun(WritingRun):
    """A run of a migration's phase."""

    phase: Annotated[
        str,
        Choice(("census", *PHASES)),
        Option("Which phase of the migration to run; census only counts"),
    ] = "census"
    attested_by: Annotated[
        str | None,
        Option("Phase 1: the name of the person who vouches that the brokers understand to_magic"),
    ] = None
    need_approval: Annotated[
        bool, writing_options.need_approval(". After a canary, a person is asked once more")
    ] = True


class RollingRun(WritingRun):
    """A run that writes if dry_run is off, and purges old runs.

    KAFKATS_RETENTION=apply turns both dry_run and need_approval off by default.
    """

    need_approval: Annotated[
        bool, writing_options.need_approval(". On unless KAFKATS_RETENTION=apply")
    ] = settings.DRY_RUN
    undo_days: Annotated[
        int,
        Field(ge=0),
        Option(
            "Purge runs that ended at least this many days ago; they cannot be undone any more",
            title="Days to undo",
        ),
    ] = settings.UNDO_DAYS
    dry_run: Annotated[bool, writing_options.dry_run(". On unless KAFKATS_RETENTION=apply")] = (
        settings.DRY_RUN
    )


class SplittingRun(RollingRun):
    """A run that closes active segments or splits the segments there are."""

    split: Annotated[
        str,
        Choice(("no", *SPLITS)),
        Option(
            "no: close active segments. Otherwise split segments instead, active ones too; rolled:"
            " where segment_bytes or segment_ms would have rolled; mixed: around implausible"
            " timestamps; expired: after the records that are older than before"
        ),
    ] = "no"


class RetentionRun(RollingRun):
    """A run that also asks whether to delete what a guard of the policy keeps.

    By schedule it asks about nothing else.
    """

    need_approval: Annotated[
        bool,
        writing_options.need_approval(
            ". A run by schedule or a backfill asks only whether to delete what a guard of the"
            " policy keeps; it deletes the rest without a question. Off: what a guard keeps is kept"
        ),
    ] = True


class EndingRun(WritingRun):
    """A run that undoes or purges what another DAG run has written."""

    verb: Annotated[
        str,
        Choice(("undo", "purge")),
        Option(
            "undo: put back every old file; purge: delete the old files and free their space",
            title="Undo or purge",
        ),
    ] = "undo"
    of_dag: Annotated[
        str | None, Option("The DAG whose run is to be undone or purged", title="DAG of the run")
    ] = None
    of_run: Annotated[str | None, Option("The run of that DAG, by its run id", title="Run id")] = (
        None
    )
    digest: Annotated[
        str | None,
        Option(
            "The digest of what the run wrote, as its page shows it; at least 8 digits",
            title="Digest of the run",
        ),
    ] = None
    need_approval: Annotated[
        bool, writing_options.need_approval(". The buttons of a run's page ask in a dialog instead")
    ] = True


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
            "folder",
        ),
        rare=("rule",),
        loses={
            "like_kafka": "Lost: every record behind the first corrupt batch of a log, also those"
            " that can be read",
        },
    ),
    "migrate": Form(
        (MigrationRun, Migration, Migrate, Step, Settings),
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
