"""The settings of a deployment for all DAGs.

They are environment variables of the scheduler, the DAG processor and every worker.

KAFKATS_POLICY      default of the param `policy`: the file that names the volumes
KAFKATS_FOLDER      default of the param `folder`: where plans, runs and reports go; every driver
                    sees it at this path
KAFKATS_RETENTION   `apply`: retention and rolling write by default
KAFKATS_CLEAN_REPORTS   `apply`: clean_reports removes folders by default
KAFKATS_POOL        the pool of all tasks that submit to Spark: its slots bound how many run at once
KAFKATS_JOB_PYTHON  the Python of the Spark jobs, PYSPARK_PYTHON or Airflow's own if not given
KAFKATS_TABS        `off`: no tab of kafkats on the DAGs and runs of this Airflow
KAFKATS_TIMEOUTS    such as `job=12h approval=24h guards=12h canary=7d`; what is not named keeps its
                    default
KAFKATS_DEADLINES   such as `apply_retention=6h clean_reports=1h`: alerts for runs that are not over
                    then (kafkats_airflow.alerts)
KAFKATS_NOTIFIER    `package.module.name` of what is called for runs that failed or are late
KAFKATS_OVERDUE     such as `36h`: a log directory that no run has seen for so long is overdue
KAFKATS_METRICS_TOKEN       the bearer token of the metrics; without one there are none
KAFKATS_METRICS_TOKEN_FILE  the file with that token
KAFKATS_METRICS_FILE        the text file with the metrics, which ends in .prom
KAFKATS_METRICS_PARTITIONS  `on`: metrics of each partition, too
KAFKATS_APPROVERS   such as `alice,bob`: only they approve, and nothing is written without them
                    (kafkats_airflow.deployment)
KAFKATS_UNDO_DAYS_FLOOR     with approvers: the least `undo_days`, 7 if not given

A value that cannot be read never breaks the import of a DAG: its default holds, and every task
fails with the sentence that `check` raises.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from datetime import timedelta
from typing import Any, Final, NamedTuple, TypeVar

from kafkats.config.approvers import NAME as APPROVERS_NAME
from kafkats.config.approvers import Approver, read_approvers
from kafkats.config.values import parse_duration
from kafkats.deployment import FLOOR, folder, policy_file, read_floor
from kafkats.errors import UsageError
from kafkats_airflow.airflow_versions import SYNC_DEADLINES

T = TypeVar("T")


class Timeouts(NamedTuple):
    """The time limits of KAFKATS_TIMEOUTS."""

    job: timedelta = timedelta(hours=12)
    """A task that submits to Spark; after that its driver is killed."""
    approval: timedelta = timedelta(hours=24)
    """The answer to a plan; no answer is a no."""
    guards: timedelta = timedelta(hours=12)
    """The answer about what the guards keep; no answer: the guards stand."""
    canary: timedelta = timedelta(days=7)
    """The answer whether a canary does well; no answer is a no."""


LONGEST: Final = timedelta(days=365)


def read_timeouts(text: str) -> Timeouts:
    """Return the time limits that KAFKATS_TIMEOUTS gives. Raises UsageError, naming the word."""
    return Timeouts(**_durations("KAFKATS_TIMEOUTS", text, Timeouts._fields))


def read_deadlines(text: str) -> dict[str, timedelta]:
    """Return the deadlines that KAFKATS_DEADLINES gives, by DAG id. Raises UsageError."""
    if text.strip() and not SYNC_DEADLINES:
        raise UsageError("KAFKATS_DEADLINES needs Airflow 3.2 or newer")
    return _durations("KAFKATS_DEADLINES", text, ())


def read_overdue(text: str) -> timedelta:
    """Return KAFKATS_OVERDUE. Raises UsageError."""
    return _duration("KAFKATS_OVERDUE", "overdue", text) if text.strip() else timedelta(hours=36)


def read_notifier(text: str) -> str:
    """Return KAFKATS_NOTIFIER. Raises UsageError for what is no dotted name."""
    names = text.strip().split(".")
    if text and (len(names) < 2 or not all(name.isidentifier() for name in names)):
        raise UsageError(f"KAFKATS_NOTIFIER: {text[:60]!r} is not package.module.name")
    return text.strip()


def read_metrics_file(text: str) -> str:
    """Return KAFKATS_METRICS_FILE. Raises UsageError for a name that no collector reads."""
    if text and (not text.startswith("/") or not text.endswith(".prom")):
        raise UsageError(f"KAFKATS_METRICS_FILE: {text[:80]!r} is no absolute path to a *.prom")
    return text


def _durations(setting: str, text: str, names: tuple[str, ...]) -> dict[str, timedelta]:
    """Return NAME=DURATION words, each once. Without `names` any word may be a name."""
    given: dict[str, timedelta] = {}
    for word in text.replace(",", " ").split():
        name, equals, amount = word.partition("=")
        if not equals or not name or (names and name not in names) or name in given:
            wanted = ", ".join(f"{one}=DURATION" for one in names or ("DAG_ID",))
            raise UsageError(f"{setting}: {word[:60]!r} is not one of {wanted}, each once")
        given[name] = _duration(setting, name, amount)
    return given


def _duration(setting: str, name: str, amount: str) -> timedelta:
    try:
        found = timedelta(milliseconds=parse_duration(amount))
    except (ValueError, OverflowError) as e:
        raise UsageError(f"{setting}: {name}: {e}") from e
    if not timedelta(seconds=1) <= found <= LONGEST:
        raise UsageError(f"{setting}: {name}={amount[:40]} is not between 1s and {LONGEST.days}d")
    return found


_wrong: list[str] = []


def _read(parse: Callable[[str | None], T], name: str, otherwise: T) -> T:
    """Return `parse` of an environment variable. An error is kept for `check`."""
    try:
        return parse(os.environ.get(name))
    except UsageError as e:
        _wrong.append(f"{e}; set it right for the scheduler, the DAG processor and the workers")
        return otherwise


def job_python() -> str:
    """Return the Python of the jobs: KAFKATS_JOB_PYTHON, else PYSPARK_PYTHON, else that of this
    process.
    """
    return JOB_PYTHON or os.environ.get("PYSPARK_PYTHON") or sys.executable


POLICY: Final = policy_file()
FOLDER: Final = folder()
DRY_RUN: Final = os.environ.get("KAFKATS_RETENTION", "") != "apply"
"""Default of the param `dry_run` of retention and rolling."""
CLEAN_DRY_RUN: Final = os.environ.get("KAFKATS_CLEAN_REPORTS", "") != "apply"
"""Default of the param `dry_run` of clean_reports."""
POOL: Final = os.environ.get("KAFKATS_POOL") or "default_pool"
JOB_PYTHON: Final = os.environ.get("KAFKATS_JOB_PYTHON", "")
TABS: Final = os.environ.get("KAFKATS_TABS", "") != "off"
TIMEOUTS: Final = _read(lambda text: read_timeouts(text or ""), "KAFKATS_TIMEOUTS", Timeouts())
NOTIFIER: Final = _read(lambda text: read_notifier(text or ""), "KAFKATS_NOTIFIER", "")
OVERDUE: Final = _read(
    lambda text: read_overdue(text or ""), "KAFKATS_OVERDUE", timedelta(hours=36)
)
"""After this time without a run a log directory is overdue: runs are daily by default."""
METRICS_TOKEN: Final = os.environ.get("KAFKATS_METRICS_TOKEN", "")
METRICS_TOKEN_FILE: Final = os.environ.get("KAFKATS_METRICS_TOKEN_FILE", "")
METRICS_FILE: Final = _read(lambda text: read_metrics_file(text or ""), "KAFKATS_METRICS_FILE", "")
METRICS_PARTITIONS: Final = os.environ.get("KAFKATS_METRICS_PARTITIONS", "") == "on"
DEADLINES: Final = _read(
    lambda text: read_deadlines(text or ""), "KAFKATS_DEADLINES", dict[str, timedelta]()
)


SUBMITTING: Final[dict[str, Any]] = {"pool": POOL, "execution_timeout": TIMEOUTS.job}
"""The arguments of every task that submits to Spark; a mapped one takes them in `partial`."""
OWNED: Final = {"owner": "kafka", "retries": 1, "retry_delay": timedelta(minutes=1)}
"""The arguments of every task of a DAG, unless it names others."""

HARDENED: Final = APPROVERS_NAME in os.environ
"""Whether triggering a DAG is not enough to write."""
APPROVERS: Final[tuple[Approver, ...]] = _read(read_approvers, APPROVERS_NAME, ())
FLOOR_DAYS: Final = _read(read_floor, FLOOR, 7)
UNDO_DAYS: Final = max(7, FLOOR_DAYS) if HARDENED else 7
"""Default of the param `undo_days`."""
WRONG: Final = "; ".join(_wrong)


def check() -> None:
    """Raises UsageError when a setting cannot be read."""
    if WRONG:
        raise UsageError(WRONG)
