"""The report of a DAG run that failed before its report could be made: pages show that, and why."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import wraps
from typing import ParamSpec, TypeVar

from airflow.sdk import Context

from kafkats.errors import KafkatsError
from kafkats_airflow import checks, sentences
from kafkats_airflow.failing import UNFINISHED, Ended, context_of, failures
from kafkats_airflow.forms.values import params_of
from kafkats_airflow.reports import overview
from kafkats_airflow.runs.folders import folder_of

P = ParamSpec("P")
R = TypeVar("R")


def with_report(do: Callable[P, R]) -> Callable[P, R]:
    """Decorate the function of a task without whose end a run has no report: an error of ours in it
    leaves one, too.
    """

    @wraps(do)
    def told(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return do(*args, **kwargs)
        except KafkatsError as e:
            context = context_of(args)
            why = sentences.of(e, params_of(context)).partition("\n")[0]
            with suppress(KafkatsError):  # the folder cannot be written: the first reason counts
                write(context, failures(context) or [f"{context['ti'].task_id}: {why}"])
            raise

    return told


def write(context: Context, causes: Sequence[str]) -> Ended:
    """Write report.json and overview.json of a run that failed, and return the first.

    Raises UsageError, StorageFailed.
    """
    from kafkats.plans.files import make_folder

    folder = folder_of(context)
    checks.writable(params_of(context)["folder"])
    make_folder(folder, "the report")
    report: Ended = {"outcome": UNFINISHED, "failures": list(causes), "report": str(folder)}
    overview.write(context, report, failed=True)
    return report
