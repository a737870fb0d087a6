"""The question to a person whether a plan may be applied."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

from airflow.providers.common.compat.sdk import Context
from airflow.providers.standard.operators.hitl import ApprovalOperator

from kafkats_airflow import deployment
from kafkats_airflow.approvals import answers, questions
from kafkats_airflow.approvals.asking import RecordedQuestion
from kafkats_airflow.failing import in_our_words
from kafkats_airflow.forms.values import params_of
from kafkats_airflow.results import Answer, PhaseWork, PlanResult, Work
from kafkats_airflow.settings import TIMEOUTS


class PlanApproval(RecordedQuestion, ApprovalOperator):
    """Asks a person if a plan writes something and the run's param `need_approval` is true.

    Otherwise it records why nobody is asked. Without a recorded answer nothing is applied, whatever
    the state of this task. No answer within `response_timeout` is a no. `question` returns the text
    of the question, as Markdown. With `always` it asks whatever `need_approval` says.
    """

    def __init__(
        self,
        *,
        response_timeout: timedelta = TIMEOUTS.approval,
        question: Callable[[Context, Sequence[PlanResult]], str] = questions.of_rebuild,
        always: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(defaults=self.REJECT, response_timeout=response_timeout, **kwargs)
        self.question, self.always = question, always

    @in_our_words
    def execute(self, context: Context) -> Answer:
        answers.forget(context)
        plans = [answers.from_disk(context, plan) for plan in self.plans(context)]
        writes = any(plan.get("undo") or plan["totals"]["files"] for plan in plans)
        if writes and (self.always or deployment.hardened() or params_of(context)["need_approval"]):
            options = {self.APPROVE: plans, self.REJECT: list[PlanResult]()}
            self.ask(context, options, self.question(context, plans), plans)
            waiting: Answer = super().execute(context)
            return waiting
        why = "this run does not ask for approval" if writes else "nothing would be written"
        return self.answer_itself(context, self.APPROVE, plans, why)

    def plans(self, context: Context) -> list[PlanResult]:
        """Return the plans that the answer is about."""
        work: Sequence[Work | PhaseWork] = context["ti"].xcom_pull(task_ids="changes") or []
        return [one["plan"] for one in work if one["plan"] and one.get("convert", True)]
