"""The files of questions in a run's folder: the models that write them and read them again.

question.json           the plans that each answer lets be applied, who answers, until when
canary-question.json    whether the other brokers may follow a canary, and the answer

Fields of later versions are ignored.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any, Final

from pydantic import BaseModel, ConfigDict, NonNegativeInt

from kafkats.counts import counted
from kafkats_airflow.approvals.stakes import PURGE, UNDO, Stake, together
from kafkats_airflow.runs.started import Started

STOP: Final = "The brokers of these log directories must be stopped: what a broker holds is refused"
KEEP_STOPPED: Final = "Keep these brokers stopped until it is mended, approved or not"


class Record(BaseModel):
    """A small JSON file of a run's folder, or a part of one."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    def content(self) -> dict[str, Any]:
        """Return the JSON object to write: the fields that were given."""
        return self.model_dump(mode="json", exclude_unset=True)


class Totals(Record):
    """The totals of a plan that every operation has. Those that only some have are kept, too."""

    model_config = ConfigDict(extra="allow")

    files: NonNegativeInt
    blocked: NonNegativeInt = 0
    segments: NonNegativeInt = 0
    partitions: NonNegativeInt = 0
    read_bytes: NonNegativeInt = 0
    write_bytes: NonNegativeInt = 0
    freed_bytes: NonNegativeInt | None = None
    cut_bytes: NonNegativeInt = 0
    dropped_bytes: NonNegativeInt = 0


class Plan(Record):
    """A plan as report.json and question.json name it; report.json has the first three, and
    `on_disk`. `operation` and `on_disk` are those of stakes.Stake. `danger` counts the findings of
    danger of the plan's look by kind, None if nothing tells.
    """

    plan: str
    digest: str
    totals: Totals
    log_dirs: list[str] = []
    operation: str = ""
    on_disk: NonNegativeInt | None = None
    danger: dict[str, NonNegativeInt] | None = None

    def stake(self) -> Stake:
        """Return what applying it is about."""
        return Stake(self.plan, self.operation, self.totals.model_dump(), self.on_disk)


class User(Record):
    """A person who may answer."""

    id: str
    name: str = ""


class Question(Record):
    """question.json. `options` are the digests that each answer allows, `default` is the answer
    that counts without one.

    `digest` is that of the only plan, or of all digests together; earlier versions have none. Only
    those in `assigned` may answer; if it is empty, everybody who may edit the DAG's runs. `told`
    are the notifiers that were called. `undo_days`: a later run of the DAG purges the old files so
    many days after they were replaced, None if only a person does, or an earlier version asked.
    """

    options: dict[str, list[str]]
    plans: list[Plan] = []
    asked_ms: NonNegativeInt
    until_ms: NonNegativeInt
    dag_id: str = ""
    run_id: str = ""
    digest: str = ""
    default: str = ""
    assigned: list[User] = []
    told: list[str] = []
    task_id: str = ""
    started: Started = Started()
    undo_days: NonNegativeInt | None = None

    def allowed(self, option: str) -> list[Plan]:
        """Return the plans that an answer lets be applied."""
        digests = self.options.get(option, [])
        plans = [one for one in self.plans if one.digest in digests]
        return plans or (self.plans if digests else [])  # the digests of RUNs name no plan

    def does(self, option: str) -> str:
        """Return what follows an answer."""
        plans = self.allowed(option)
        unknown = bool(self.options.get(option)) and not plans
        done = together([plan.stake() for plan in plans])
        return done or ("the plan is applied" if unknown else "nothing is written")

    def asks(self) -> str:
        """Return what is asked: whether what the first answer lets happen may happen."""
        yes = next((option for option, digests in self.options.items() if digests), "")
        return self.does(yes) if yes else "nothing would be written"

    def stops_brokers(self) -> bool:
        """Return whether a yes writes into log directories: their brokers must be stopped."""
        return {one.operation for one in self.plans} != {PURGE}

    def tells_danger(self) -> bool:
        """Return whether it tells the findings of danger of every plan's look."""
        return bool(self.plans) and all(one.danger is not None for one in self.plans)

    def danger(self) -> dict[str, int]:
        """Return the findings of danger of the plans' looks by kind, as far as it tells them; once
        those of one look.
        """
        looks = {Path(one.plan).parent: one.danger or {} for one in self.plans}
        return dict(sum(map(Counter, looks.values()), Counter[str]()))

    def undoable(self) -> str:
        """Return until when what a yes lets happen can be undone."""
        if {one.operation for one in self.plans} <= {UNDO, PURGE}:
            return "no: a RUN ends once"
        kept = "the old files are kept beside the log directory"
        if self.undo_days is None:
            return f"until a person purges: {kept}"
        return f"for {counted(self.undo_days, 'day')} after it ends: {kept}, and a later run purges"

    def silence(self) -> str:
        """Return what counts without an answer, "" where an earlier version did not tell."""
        return f"{self.default}: {self.does(self.default)}" if self.default else ""


class CanaryQuestion(Record):
    """canary-question.json: whether the other brokers may follow, asked until when. `answered_ms`
    None: nobody has answered. `by` is "" where nobody answered in time. Earlier versions wrote no
    `task_id`, and no answer.
    """

    digest: str = ""
    asked_ms: NonNegativeInt
    until_ms: NonNegativeInt
    task_id: str = ""
    answered_ms: NonNegativeInt | None = None
    option: str = ""
    by: str = ""

    def silence(self) -> str:
        """Return what counts without an answer."""
        return "Reject: the other brokers wait"
