"""The question whether retention may delete more than the policy's guards let it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any, Final

from airflow.sdk import Context

from kafkats_airflow import deployment
from kafkats_airflow.approvals import answers, questions
from kafkats_airflow.approvals.asking import RecordedQuestion
from kafkats_airflow.failing import in_our_words
from kafkats_airflow.forms.values import RunParams, params_of
from kafkats_airflow.results import Answer, PlanResult
from kafkats_airflow.runs.moment import by_schedule
from kafkats_airflow.settings import TIMEOUTS

YES: Final = "Delete over the guard"
NO: Final = "Keep to the guard"
NOTHING: Final = "Delete nothing"


class GuardApproval(RecordedQuestion):
    """Asks a person about every deletion, if the run's param `need_approval` is true; no answer
    within `response_timeout` means that nothing is deleted.

    In a run by schedule or a backfill it asks only if a guard keeps something. A no, or no answer,
    then is no failure: the run deletes what the guards allow. With `always` it asks about every
    deletion in these runs too, whatever `need_approval` says.
    """

    def __init__(
        self, *, response_timeout: timedelta = TIMEOUTS.guards, always: bool = False, **kwargs: Any
    ) -> None:
        super().__init__(
            options=[YES, NO, NOTHING],
            defaults=NOTHING if always else NO,
            response_timeout=response_timeout,
            always=always,
            **kwargs,
        )

    @in_our_words
    def execute(self, context: Context) -> Answer:
        answers.forget(context)
        params = params_of(context)
        made = [] if params["dry_run"] else self._plans(context)
        within = [answers.from_disk(context, plan) for plan in made]
        beyond = [answers.from_disk(context, beyond_guards(plan)) for plan in made]
        always = self.always or deployment.hardened()
        always = always or (params["need_approval"] and not by_schedule(context))
        kept = [one["digest"] for one in within] != [one["digest"] for one in beyond]
        offered = {YES: beyond} if kept and not deployment.hardened() else {}
        offered[NO] = within
        if always:
            offered[NOTHING] = []
        about = beyond if YES in offered else within
        if (
            any(plan["totals"]["files"] for plan in about)
            if always
            else kept and params["need_approval"]
        ):
            self.defaults = [NOTHING if always else NO]
            self.options = list(offered)
            self.asks = self.asks if YES in offered else "Delete the expired segments?"
            text = questions.of_guards(within, about, answers_itself=not always)
            self.ask(context, offered, text, about)
            waiting: Answer = super().execute(context)
            return waiting
        why = _unasked(params, within, kept=kept)
        return self.answer_itself(context, NO, within, why)

    def _plans(self, context: Context) -> Sequence[PlanResult]:
        return [plan for plan in context["ti"].xcom_pull(task_ids=["plan"]) if plan]


def _unasked(params: RunParams, within: Sequence[PlanResult], *, kept: bool) -> str:
    """Return why nobody is asked; `kept`: the guards keep something back."""
    if params["dry_run"]:
        return "a dry run only plans"
    if kept:
        return "this run does not ask, and keeps to the guards of the policy"
    if not any(plan["totals"]["files"] for plan in within):
        return "nothing would be deleted"
    return "the guards of the policy keep nothing back"


def beyond_guards(plan: PlanResult) -> PlanResult:
    """Return the plan without guards if they keep something, else the plan itself."""
    return {**plan, **plan["beyond"], "over_guard": 0} if "beyond" in plan else plan


def over_guards(answer: Answer | None) -> bool:
    """Return whether the answer allows more than the guards do."""
    return answer is not None and YES in answer["chosen_options"]


def nothing(answer: Answer | None) -> bool:
    """Return whether the answer allows nothing."""
    return answer is not None and NOTHING in answer["chosen_options"]
