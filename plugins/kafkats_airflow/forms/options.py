"""The options that only a run of a DAG has. Those of the operations: kafkats/<room>/options.py."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from kafkats.config.option import FILES, RARE, Choice, Option, Options
from kafkats.migration.options import PHASES
from kafkats.split.options import SPLITS
from kafkats_airflow import settings
from kafkats_airflow.forms import writing as writing_options


class Run(Options):
    """Params of every DAG run."""

    volumes: tuple[str, ...] = Option(
        "Only these volumes: globs over paths or broker names, such as broker-1 or /kafka/*",
        unset="all",
    ).default(())
    folder: Annotated[
        str,
        Option("Where plans, runs and reports are written", title="Folder", section=FILES),
    ]


class ReadingRun(Run):
    """A run that answers which offset it was."""

    exact: bool = Option(
        "Read all batch headers and checksums instead of the time indexes: slower",
        title="Read all batches",
        section=RARE,
    ).default(False)
    source: Annotated[str, Choice(("volumes", "tables"))] = Option(
        "volumes: search the log directories; tables: read the table of build_lookup_tables",
        section=RARE,
    ).default("volumes")
    tables: str | None = Option(
        "The folder with the tables of build_lookup_tables, such as /var/lib/kafkats/lookup",
        unset="lookup in the folder",
        title="Folder of the tables",
        section=FILES,
    ).default(None)
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

    kafka: str | None = Option(
        "The release of the brokers: before the plan, `preflight` reports what each would do if"
        " it were started as it is",
        unset="this is not reported",
        title="Kafka release",
        examples=("4.3", "3.9.1", "2.8"),
    ).default(None)


class RebuildingRun(WritingRun):
    """A run that may start a run of recover_log_dirs at its end."""

    recover: bool = Option(
        "After this run, start recover_log_dirs on the same volumes and topics, with the same"
        " approval: it also recovers what the brokers had not flushed, so that they start at"
        " once",
        title="Then recover log directories",
    ).default(False)


class MigrationRun(WritingRun):
    """A run of a migration's phase."""

    phase: Annotated[str, Choice(("census", *PHASES))] = Option(
        "Which phase of the migration to run; census only counts"
    ).default("census")
    attested_by: str | None = Option(
        "Phase 1: the name of the person who vouches that the brokers understand to_magic, such"
        " as Ada",
        unset="nobody vouches in this run",
    ).default(None)
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
    undo_days: Annotated[int, Field(ge=0)] = Option(
        "Purge runs that ended at least this many days ago; they cannot be undone any more",
        title="Days to undo",
        section=RARE,
    ).default(settings.UNDO_DAYS)
    dry_run: Annotated[bool, writing_options.dry_run(". On unless KAFKATS_RETENTION=apply")] = (
        settings.DRY_RUN
    )


class SplittingRun(RollingRun):
    """A run that closes active segments or splits the segments there are."""

    split: Annotated[str, Choice(("no", *SPLITS))] = Option(
        "no: close active segments. Otherwise split segments instead, active ones too; rolled:"
        " where segment_bytes or segment_ms would have rolled; mixed: around implausible"
        " timestamps; expired: after the records that are older than before"
    ).default("no")


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
    """A run that undoes or purges what another DAG run has written, or releases its volumes."""

    verb: Annotated[str, Choice(("undo", "purge", "release"))] = Option(
        "undo: put back every old file; purge: delete the old files and free their space; release:"
        " end the reservations of a run that is over",
        title="Undo, purge or release",
    ).default("undo")
    of_dag: str | None = Option(
        "The DAG whose run is to be undone or purged, such as apply_retention. Never empty",
        title="DAG of the run",
    ).default(None)
    of_run: str | None = Option(
        "The run of that DAG, by its run id, such as manual__2026-01-31T10:00:00+00:00. Never"
        " empty",
        title="Run id",
    ).default(None)
    digest: str | None = Option(
        "The digest of what the run wrote, as its page shows it: at least 8 digits, such as"
        " 831c517d. A release needs none. Default: none",
        title="Digest of the run",
    ).default(None)
    need_approval: Annotated[
        bool, writing_options.need_approval(". The buttons of a run's page ask in a dialog instead")
    ] = True


class CleaningRun(Options):
    """A run that removes the folders of old runs. KAFKATS_CLEAN_REPORTS=apply turns dry_run off."""

    folder: Annotated[
        str,
        Option("Where plans, runs and reports are", title="Folder", section=FILES),
    ]
    keep_days: Annotated[int, Field(ge=1)] = Option(
        "Keep every folder in which anything has changed within so many days",
        title="Days to keep",
    ).default(90)
    dry_run: Annotated[
        bool,
        writing_options.dry_run(". On unless KAFKATS_CLEAN_REPORTS=apply"),
    ] = settings.CLEAN_DRY_RUN
