"""Questions about plans. An answer counts only if it names the digest of what was shown.

Airflow keeps the text of a question when its task is cleared: its form may show an earlier plan
than the one that is asked about now. So the form has a field with the digest, and the answer of a
person that would let another plan be applied is not taken. The question then stays open.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any, Final, NoReturn

from airflow.providers.common.compat.sdk import Context
from airflow.providers.standard.operators.hitl import HITLOperator
from airflow.sdk.definitions.param import ParamsDict
from airflow.sdk.exceptions import TaskAwaitingInput
from airflow.sdk.execution_time.hitl import upsert_hitl_detail

from kafkats_airflow import alerts, deployment
from kafkats_airflow.approvals import answers, question_body, questions
from kafkats_airflow.failing import in_our_words
from kafkats_airflow.forms.params import digest_field
from kafkats_airflow.links import PlanLink, page_of
from kafkats_airflow.results import Answer, PlanResult

MILLISECOND: Final = timedelta(milliseconds=1)
_SHORTEST: Final = timedelta(seconds=1)


class RecordedQuestion(HITLOperator):
    """A question about plans. Question and answer are files in the run's folder, and name digests
    (kafkats_airflow.approvals.answers).
    """

    # A template in a run id or a name would be rendered, and can read passwords.
    template_fields = ()
    operator_extra_links = (PlanLink(),)

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.asks = self.subject

    def ask(
        self,
        context: Context,
        options: Mapping[str, Sequence[PlanResult]],
        text: str,
        shown: Sequence[PlanResult],
    ) -> None:
        """Record the question, and which plans each option allows. The task then waits for the
        answer. Airflow's form shows `text`, the first rows of `shown`, and the digest.

        Raises Refused, CorruptPlan, StorageFailed.
        """
        self.assigned_users = deployment.assigned() or self.assigned_users
        asked = answers.ask(
            context,
            self.task_id,
            options,
            (self.response_timeout or timedelta()) // MILLISECOND,
            default=(self.defaults or [""])[0],
            assigned=self.assigned_users or (),
            told=alerts.question_asked(
                context, page_of("plan", context["dag"].dag_id, context["run_id"])
            ),
        )
        self.params = ParamsDict({answers.DIGEST: digest_field(asked["digest"])})
        self.subject = questions.asked(self.asks, context)
        self.body = question_body.body(context, text, shown, asked)

    def answer_itself(
        self, context: Context, option: str, plans: Sequence[PlanResult], why: str
    ) -> Answer:
        """Record that nobody is asked, with the reason, and return the option as the answer."""
        answers.not_asked(context, option, plans, why)
        self.log.info("nobody is asked: %s", why)
        return {"chosen_options": [option], "params_input": {}}

    @in_our_words
    def execute_complete(self, context: Context, event: dict[str, Any]) -> Answer:
        answer = answers.answer_in(event)
        if why := answers.not_taken(context, answer):
            self.log.warning("%s", why)
            go_on_waiting(self, context, answers.until_ms(context))
        answers.answered(context, answer)
        taken: Answer = super().execute_complete(context, event)
        return taken


def go_on_waiting(task: HITLOperator, context: Context, until_ms: int) -> NoReturn:
    """Wait for another answer until the deadline of the question, epoch ms."""
    upsert_hitl_detail(  # it removes the answer, and keeps the text
        ti_id=context["task_instance"].id, options=task.options, subject=task.subject
    )
    left = timedelta(milliseconds=until_ms - time.time_ns() // 1_000_000)
    raise TaskAwaitingInput(method_name="execute_complete", timeout=max(left, _SHORTEST))
