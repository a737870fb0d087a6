"""The options of a run of clean_reports."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from kafkats.config.option import FILES, Option, Options
from kafkats_airflow import settings
from kafkats_airflow.forms import writing as writing_options


class CleaningRun(Options):
    """A run that removes the folders of old runs. KAFKATS_CLEAN_REPORTS=apply turns dry_run off."""

    folder: Annotated[
        str,
        Option("Where plans, runs and reports are", title="Folder", section=FILES),
    ]
    keep_days: Annotated[
        int,
        Field(ge=1),
        Option(
            "Keep every folder in which anything has changed within so many days",
            title="Days to keep",
        ),
    ] = 90
    dry_run: Annotated[
        bool,
        writing_options.dry_run(". On unless KAFKATS_CLEAN_REPORTS=apply"),
    ] = settings.CLEAN_DRY_RUN
