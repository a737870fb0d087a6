"""What a deployment sets for all DAGs, in environment variables of the scheduler, the DAG processor and every worker.

KAFKATS_POLICY      default of the param `policy`: the file that names the volumes
KAFKATS_FOLDER      default of the param `folder`: where plans, runs and reports go; every driver sees it at this path
KAFKATS_RETENTION   `apply`: retention and rolling write by default
KAFKATS_POOL        the pool of all tasks that submit to Spark: its slots bound how many run at once
KAFKATS_TIMEOUTS    such as `job=12h approval=24h guards=12h canary=7d`; what is not named keeps its default

A value that cannot be read never breaks the import of a DAG: its default holds, and every task fails with the sentence
that `check` raises.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from datetime import timedelta
from typing import Final, NamedTuple

from kafkats.config import parse_duration
from kafkats.errors import UsageError


class Timeouts(NamedTuple):
    """How long things may take, in the words of KAFKATS_TIMEOUTS."""

    job: timedelta = timedelta(hours=12)
    """A task that submits to Spark; after that its driver is killed."""
    approval: timedelta = timedelta(hours=24)
    """The answer to a plan; no answer is a no."""
    guards: timedelta = timedelta(hours=12)
    """The answer whether more may go than the guards let; no answer: the guards stand."""
    canary: timedelta = timedelta(days=7)
    """The answer whether a canary does well; no answer is a no."""


LONGEST: Final = timedelta(days=365)


def read_timeouts(text: str) -> Timeouts:
    """Of the words of KAFKATS_TIMEOUTS. Raises UsageError, which names the word."""
    given: dict[str, timedelta] = {}
    for word in text.replace(",", " ").split():
        name, equals, amount = word.partition("=")
        if not equals or name not in Timeouts._fields or name in given:
            wanted = ", ".join(f"{field}=DURATION" for field in Timeouts._fields)
            raise UsageError(f"KAFKATS_TIMEOUTS: {word[:60]!r} is not one of {wanted}, each once")
        given[name] = _duration(name, amount)
    return Timeouts(**given)


def _duration(name: str, amount: str) -> timedelta:
    try:
        found = timedelta(milliseconds=parse_duration(amount))
    except (ValueError, OverflowError) as e:
        raise UsageError(f"KAFKATS_TIMEOUTS: {name}: {e}") from e
    if not timedelta(seconds=1) <= found <= LONGEST:
        raise UsageError(f"KAFKATS_TIMEOUTS: {name}={amount[:40]} is not between 1s and {LONGEST.days}d")
    return found


def _timeouts(environment: Mapping[str, str]) -> tuple[Timeouts, str]:
    """The timeouts, and what is wrong with their words: "" for nothing."""
    try:
        return read_timeouts(environment.get("KAFKATS_TIMEOUTS", "")), ""
    except UsageError as e:
        return Timeouts(), f"{e}; set it right for the scheduler, the DAG processor and the workers"


POLICY: Final = os.environ.get("KAFKATS_POLICY") or "/etc/kafkats/policy.yaml"
FOLDER: Final = os.environ.get("KAFKATS_FOLDER") or "/var/lib/kafkats"
DRY_RUN: Final = os.environ.get("KAFKATS_RETENTION", "") != "apply"
"""Default of the param `dry_run` of retention and rolling."""
POOL: Final = os.environ.get("KAFKATS_POOL") or "default_pool"
TIMEOUTS, WRONG = _timeouts(os.environ)
SUBMITTING: Final = {"pool": POOL, "execution_timeout": TIMEOUTS.job}
"""What every task has that submits to Spark; a mapped one takes it in `partial`."""


def check() -> None:
    """Raises UsageError when a setting cannot be read."""
    if WRONG:
        raise UsageError(WRONG)
