"""An error of ours fails a task in its own words, and without another try when none can help."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

from airflow.providers.common.compat.sdk import AirflowException, AirflowFailException

from kafkats.errors import KafkatsError
from kafkats_airflow import settings

P = ParamSpec("P")
R = TypeVar("R")


def in_our_words(do: Callable[P, R]) -> Callable[P, R]:
    """For the functions of Python tasks."""

    @wraps(do)
    def told(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            settings.check()
            return do(*args, **kwargs)
        except KafkatsError as e:
            kind = AirflowException if e.retryable else AirflowFailException
            raise kind(f"{type(e).__name__}: {e}") from e

    return told
