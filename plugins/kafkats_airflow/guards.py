"""The question whether retention may delete more than the policy's guards let it."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, Final

from airflow.providers.common.compat.sdk import Context
from airflow.providers.standard.operators.hitl import HITLOperator

from kafkats_airflow.settings import TIMEOUTS

YES: Final = "Delete over the guard"
NO: Final = "Keep to the guard"
BODY: Final = """\
| volumes | segments, bytes within the guard | over it | digest | plan |
|---|---|---|---|---|
{% for one in ti.xcom_pull(task_ids=['plan']) if one and 'beyond' in one -%}
| {{ one.log_dirs | join(', ') }} | {{ one.totals.segments }}, {{ one.totals.freed_bytes }} \
| {{ one.beyond.totals.segments - one.totals.segments }}, {{ one.beyond.totals.freed_bytes - one.totals.freed_bytes }} \
| `{{ one.beyond.digest[:16] }}` | `{{ one.beyond.plan }}` |
{% endfor %}

`kafkats show PLAN` names each segment and why it goes. Without an answer the guards stand, and what is within them goes.
"""


class GuardApproval(HITLOperator):
    """Waits for a person where a guard keeps something and the run's param `need_approval` is true; else the guards stand.

    A no, or no answer within `response_timeout`, is no failure: the run goes on within the guards.
    """

    def __init__(self, *, response_timeout: timedelta = TIMEOUTS.guards, **kwargs: Any) -> None:
        super().__init__(options=[YES, NO], defaults=NO, body=BODY, response_timeout=response_timeout, **kwargs)

    def execute(self, context: Context) -> Any:
        plans = context["ti"].xcom_pull(task_ids=["plan"])
        kept = any("beyond" in plan for plan in plans if plan)
        if kept and context["params"]["need_approval"] and not context["params"]["dry_run"]:
            return super().execute(context)
        self.log.info("the guards stand: they keep nothing, this run does not ask, or it would write nothing")
        return {"chosen_options": [NO], "params_input": {}}


def over_guards(answer: Any) -> bool:
    """Whether the answer lets more go than the guards do."""
    return bool(answer) and YES in answer["chosen_options"]
