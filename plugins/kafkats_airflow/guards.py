"""The question whether retention may delete more than the policy's guards let it."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, Final

from airflow.providers.common.compat.sdk import Context
from airflow.providers.standard.operators.hitl import HITLOperator

from kafkats_airflow import questions
from kafkats_airflow.settings import TIMEOUTS

YES: Final = "Delete over the guard"
NO: Final = "Keep to the guard"


class GuardApproval(HITLOperator):
    """Waits for a person where a guard keeps something and the run's param `need_approval` is true; else the guards stand.

    A no, or no answer within `response_timeout`, is no failure: the run goes on within the guards.
    """

    template_fields = ()  # a template in a run id or a name would be rendered, and can read passwords

    def __init__(self, *, response_timeout: timedelta = TIMEOUTS.guards, **kwargs: Any) -> None:
        super().__init__(options=[YES, NO], defaults=NO, response_timeout=response_timeout, **kwargs)
        self.asks = self.subject

    def execute(self, context: Context) -> Any:
        plans = context["ti"].xcom_pull(task_ids=["plan"])
        kept = any("beyond" in plan for plan in plans if plan)
        if kept and context["params"]["need_approval"] and not context["params"]["dry_run"]:
            self.subject, self.body = questions.asked(self.asks, context), questions.of_guards(context)
            return super().execute(context)
        self.log.info("the guards stand: they keep nothing, this run does not ask, or it would write nothing")
        return {"chosen_options": [NO], "params_input": {}}


def over_guards(answer: Any) -> bool:
    """Whether the answer lets more go than the guards do."""
    return bool(answer) and YES in answer["chosen_options"]
