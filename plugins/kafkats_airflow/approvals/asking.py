"""Questions about plans. An answer counts only if it names the digest of what was shown.

Airflow keeps the text of a question when its task is cleared: its form may show an earlier plan
than the one that is asked about now. So the form has a field with the digest, and the answer of a
person that would let another plan be applied is not taken. The question then remains open.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from typing import Any, Final, NoReturn

from airflow.providers.standard.operators.hitl import ApprovalOperator
from airflow.sdk import Context
from airflow.sdk.definitions.param import ParamsDict
from airflow.sdk.execution_time.hitl import upsert_hitl_detail

from kafkats import clock
from kafkats_airflow import airflow_versions, alerts, deployment
from kafkats_airflow.approvals import answers, questions
from kafkats_airflow.failing import in_our_words
from kafkats_airflow.forms.params import digest_field
from kafkats_airflow.forms.values import params_of
from kafkats_airflow.links import PlanLink, page_of
from kafkats_airflow.results import Answer, PhaseWork, PlanResult, Work
from kafkats_airflow.settings import TIMEOUTS

_SHORTEST: Final = timedelta(seconds=1)


class DigestQuestion(airflow_versions.Question):
    """A question whose answer names the digest of what was shown. With `always` it is asked
    whatever the run's param `need_approval` says.
    """

    # A template in a run id or a name would be rendered, and can read passwords.
    template_fields = ()

    def __init__(self, *, always: bool = False, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.asks, self.always = self.subject, always

    @property
    def timeout_ms(self) -> int:
        """Return the time for an answer, in ms."""
        return (self.response_timeout or timedelta()) // timedelta(milliseconds=1)

    def has_to_ask(self, context: Context) -> bool:
        """Return whether a person is asked, if there is anything to ask about."""
        return self.always or deployment.hardened() or params_of(context)["need_approval"]

    def show(self, context: Context, digest: str, body: str) -> None:
        """Set what Airflow's form shows: the question, its body, and the digest."""
        self.params = ParamsDict({answers.DIGEST: digest_field(digest)})
        self.subject = questions.asked(self.asks, context)
        self.body = body
        if missing := airflow_versions.no_triggerer(airflow_versions.health_seen_by_a_task()):
            self.log.warning("%s", missing)
            self.body = f"**{missing}.**\n\n{body}"

    def go_on_waiting(self, context: Context, why: str, until_ms: int) -> NoReturn:
        """Wait for another answer until the deadline of the question, epoch ms. Log why."""
        self.log.warning("%s", why)
        upsert_hitl_detail(  # it removes the answer, and keeps the text; the server refuses None
            ti_id=context["task_instance"].id, options=self.options, subject=self.subject, params={}
        )
        left = timedelta(milliseconds=until_ms - clock.now_ms())
        self.wait(context, max(left, _SHORTEST))


class RecordedQuestion(DigestQuestion):
    """A question about plans. Question and answer are files in the run's folder, and name digests
    (kafkats_airflow.approvals.answers).
    """

    operator_extra_links = (PlanLink(),)

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
            self.timeout_ms,
            default=(self.defaults or [""])[0],
            assigned=self.assigned_users or (),
            told=alerts.question_asked(
                context, page_of("plan", context["dag"].dag_id, context["run_id"])
            ),
        )
        self.show(context, asked.digest, questions.body(context, text, shown, asked))

    def answer_itself(
        self, context: Context, option: str, plans: Sequence[PlanResult], why: str
    ) -> Answer:
        """Record that nobody is asked, with the reason, and return the option as the answer."""
        answers.record(context, option, answers.digests_of(plans), "", why)
        self.log.info("nobody is asked: %s", why)
        return {"chosen_options": [option], "params_input": {}}

    @in_our_words
    def execute_complete(self, context: Context, event: dict[str, Any]) -> Answer:
        answer = answers.answer_in(event)
        if why := answers.not_taken(context, answer):
            self.go_on_waiting(context, why, answers.until_ms(answers.question_of(context)))
        answers.answered(context, answer)
        taken: Answer = super().execute_complete(context, event)
        return taken


class PlanApproval(RecordedQuestion, ApprovalOperator):
    """Asks a person if a plan writes something and the run's param `need_approval` is true.

    Otherwise it records why nobody is asked. Without a recorded answer nothing is applied, whatever
    the state of this task. No answer within `response_timeout` is a no. `question` returns the text
    of the question, as Markdown.
    """

    def __init__(
        self,
        *,
        response_timeout: timedelta = TIMEOUTS.approval,
        question: Callable[[Context, Sequence[PlanResult]], str] = questions.of_rebuild,
        **kwargs: Any,
    ) -> None:
        super().__init__(defaults=self.REJECT, response_timeout=response_timeout, **kwargs)
        self.question = question

    @in_our_words
    def execute(self, context: Context) -> Answer:
        answers.forget(context)
        plans = [answers.from_disk(context, plan) for plan in self.plans(context)]
        writes = any(plan.get("undo") or plan["totals"]["files"] for plan in plans)
        if writes and self.has_to_ask(context):
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
