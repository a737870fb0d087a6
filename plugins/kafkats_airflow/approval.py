"""A person's yes, asked for when the run wants it: to a plan's digest before it is applied, to a canary after it has run."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

from airflow.providers.common.compat.sdk import AirflowSkipException, Context
from airflow.providers.standard.operators.hitl import ApprovalOperator

from kafkats_airflow import questions, steps
from kafkats_airflow.failing import in_our_words
from kafkats_airflow.settings import TIMEOUTS


class PlanApproval(ApprovalOperator):
    """Waits for a person when the run's param `need_approval` is true and there is something to write; else it approves itself.

    No answer within `response_timeout` is a no. `question` gives the body of what is asked, as Markdown.
    """

    template_fields = ()  # a template in a run id or a name would be rendered, and can read passwords

    def __init__(
        self,
        *,
        response_timeout: timedelta = TIMEOUTS.approval,
        question: Callable[[Context], str] = questions.of_rebuild,
        **kwargs: Any,
    ) -> None:
        super().__init__(defaults=self.REJECT, response_timeout=response_timeout, **kwargs)
        self.asks, self.question = self.subject, question

    def execute(self, context: Context) -> Any:
        if context["params"]["need_approval"] and self.concerns(context):
            self.subject, self.body = questions.asked(self.asks, context), self.question(context)
            return super().execute(context)
        self.log.info("approved: this run does not ask for approval, or would write nothing")
        return {"chosen_options": [self.APPROVE], "params_input": {}}

    def concerns(self, context: Context) -> bool:
        """Whether a plan writes anything."""
        return any(one["plan"]["totals"]["files"] for one in context["ti"].xcom_pull(task_ids="changes"))

    def execute_complete(self, context: Context, event: dict[str, Any]) -> Any:
        # A no ends this task before its result is kept; the report wants to know.
        context["ti"].xcom_push("answer", event.get("chosen_options"))
        return super().execute_complete(context, event)


class CanaryApproval(PlanApproval):
    """The same for a canary that has been converted and verified, whose ledger is told of a yes; skipped in every other run."""

    def __init__(self, *, response_timeout: timedelta = TIMEOUTS.canary, **kwargs: Any) -> None:
        super().__init__(response_timeout=response_timeout, question=questions.of_canary, **kwargs)

    @in_our_words
    def execute(self, context: Context) -> Any:
        if not steps.waits_for_approval(context["params"]):
            raise AirflowSkipException("this run has no canary to approve")
        answer = super().execute(context)
        if answer["chosen_options"] == [self.APPROVE]:
            steps.approve(context["params"], f"airflow {context['run_id']}")
        return answer

    @in_our_words
    def execute_complete(self, context: Context, event: dict[str, Any]) -> Any:
        answer = super().execute_complete(context, event)
        if answer["chosen_options"] == [self.APPROVE]:
            user = answer.get("responded_by_user") or {}
            steps.approve(context["params"], str(user.get("name") or user.get("id") or f"airflow {context['run_id']}"))
        return answer

    def concerns(self, context: Context) -> bool:
        return True
