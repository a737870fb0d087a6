"""The question about a DAG run's plans and its answer, as files in the run's folder.

question.json    what is asked (kafkats_airflow.approvals.recorded)
approval.json    the answer (kafkats.plans.approval); `apply` writes nothing unless it allows the
                 digest

They are files because whoever may use Airflow's API can change XComs and the states of tasks.
A new question removes the old answer.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from airflow.sdk import Context

from kafkats import clock
from kafkats.errors import Changed, CorruptPlan, KafkatsError, Refused
from kafkats_airflow import deployment
from kafkats_airflow.approvals.questions import plain
from kafkats_airflow.approvals.recorded import Plan, Question, Totals, User
from kafkats_airflow.approvals.stakes import UNDO, danger, on_disk
from kafkats_airflow.forms.values import params_of
from kafkats_airflow.results import Answer, PlanResult
from kafkats_airflow.runs.folders import folder_of
from kafkats_airflow.runs.started import started_of
from kafkats_airflow.runs.volumes import labels_of

if TYPE_CHECKING:
    from airflow.sdk.execution_time.hitl import HITLUser

    from kafkats.logdir.strict_json import Json

NOBODY: Final = "nobody"
DIGEST: Final = "digest"
"""The name of the field of an answer that says what was shown."""
SHORTEST_DIGEST: Final = 8


def approval_of(context: Context) -> Path:
    """Return the file that records the answer."""
    return folder_of(context) / "approval.json"


def forget(context: Context) -> None:
    """Remove the earlier question and its answer: the plan may be another one now."""
    for name in ("approval.json", "question.json"):
        (folder_of(context) / name).unlink(missing_ok=True)


def ask(
    context: Context,
    task_id: str,
    options: Mapping[str, Sequence[PlanResult]],
    timeout_ms: int,
    *,
    default: str,
    assigned: Iterable[HITLUser] = (),
    told: Sequence[str] = (),
) -> Question:
    """Write the question: the plans that each option allows to be applied. Return it."""
    from kafkats.plans.files import make_folder, write_json

    path, now_ms = folder_of(context) / "question.json", clock.now_ms()
    make_folder(path.parent, "the question")
    every = {plan["digest"]: plan for plans in options.values() for plan in plans}
    digests = {option: digests_of(plans) for option, plans in options.items()}
    plans = [_asked_about(context, one) for one in every.values()]
    asked = Question(
        options=digests,
        plans=plans,
        digest=joined(chain.from_iterable(digests.values())),
        default=default,
        assigned=[User(id=user["id"], name=user["name"]) for user in assigned],
        told=list(told),
        task_id=task_id,
        asked_ms=now_ms,
        until_ms=now_ms + timeout_ms,
        dag_id=context["dag"].dag_id,
        run_id=context["run_id"],
        started=started_of(context, [one for plan in plans for one in plan.log_dirs]),
        undo_days=params_of(context).get("undo_days"),
    )
    write_json(path, asked.content())
    return asked


def _asked_about(context: Context, plan: PlanResult) -> Plan:
    labels = labels_of(params_of(context), Path(plan["plan"]))
    operation = _operation(context, plan)
    looked = bool(operation) and not plan.get("undo")
    return Plan(
        plan=plan["plan"],
        digest=plan["digest"],
        totals=Totals.model_validate(plan["totals"]),
        log_dirs=[labels.get(log_dir, log_dir) for log_dir in plan["log_dirs"]],
        operation=operation,
        on_disk=on_disk(Path(plan["plan"])) if looked else None,
        danger=danger(Path(plan["plan"])) if looked else None,
    )


def _operation(context: Context, plan: PlanResult) -> str:
    """Return the operation of a plan, the verb of end_run for RUNs, "" for an unreadable plan."""
    from kafkats.plans.files import read_json

    if plan.get("undo"):
        return str(params_of(context).get("verb", UNDO))
    with suppress(KafkatsError):
        return str(read_json(Path(plan["plan"], "plan.json")).get("operation") or "")
    return ""


def joined(digests: Iterable[str]) -> str:
    """Return the only digest, else the sha256 of all of them, sorted, one per line."""
    every = sorted(set(digests))
    return every[0] if len(every) == 1 else hashlib.sha256("\n".join(every).encode()).hexdigest()


def not_taken(context: Context, event: Answer) -> str:
    """Return why a person's answer is not taken, "" if it is.

    An answer that lets something be applied has to name the digest of the question, or its first
    digits. A no needs no digest. Questions of earlier versions have none.
    """
    if "error" in event:
        return ""
    asked, option = question_of(context), event["chosen_options"][0]
    options, wanted = asked.get("options"), asked.get(DIGEST)
    if not isinstance(wanted, str) or not isinstance(options, dict) or not options.get(option):
        return ""
    return names_another(event, wanted)


def names_another(event: Answer, wanted: str) -> str:
    """Return why a person's answer is not one to the digest `wanted`, "" if it is; also if nobody
    has answered.
    """
    if "error" in event or not event.get("responded_by_user"):
        return ""
    shown = str((event.get("params_input") or {}).get(DIGEST) or "").strip().lower()
    if len(shown) >= SHORTEST_DIGEST and wanted.startswith(shown):
        return ""
    named = f"plan {plain(shown[:16])}" if shown else "no plan"
    return (
        f"{event['chosen_options'][0]!r} by {plain(name_in(event))} is not taken: it names {named},"
        f" and the question is about {wanted[:16]}. The question stays open; answer it again with"
        " the digest that its page gives"
    )


def until_ms(asked: Mapping[str, Json]) -> int:
    """Return the deadline of a question, epoch ms; now for one that has none."""
    until = asked.get("until_ms")
    return until if isinstance(until, int) else clock.now_ms()


def question_of(context: Context, name: str = "question.json") -> dict[str, Json]:
    """Return the question of the run, also of an earlier version; {} without one."""
    from kafkats.plans.files import read_json

    path = folder_of(context) / name
    return read_json(path) if path.exists() else {}


def answered(context: Context, event: Answer) -> None:
    """Record the answer in Airflow's `event` to the last question; record nothing if it is an
    error.

    Raises Refused if nobody was asked, or if the deployment names approvers and the responder is
    not one of them; CorruptPlan.
    """
    if "error" in event:
        return
    option, user = event["chosen_options"][0], event.get("responded_by_user")
    deployment.check_responder(user)
    path = folder_of(context) / "question.json"
    if not path.exists():
        raise Refused("an answer without its question; clear the task to ask again", path=path)
    asked = question_of(context)
    options = asked.get("options")
    digests = _digests(options.get(option)) if isinstance(options, dict) else None
    if digests is None:
        raise CorruptPlan(f"the question did not offer {option!r}", path=path)
    by = name_in(event)
    why = f"answered by {by}" if by else "no answer in time: the default holds"
    record(context, option, digests, by or NOBODY, why, question=asked)


def answer_in(event: Mapping[str, Any]) -> Answer:
    """Return Airflow's event as the answer that it is."""
    given: Any = event
    answer: Answer = given
    return answer


def name_in(answer: Answer) -> str:
    """Return the name of who answered, else the id; "" if nobody did."""
    user = answer.get("responded_by_user")
    return str(user.get("name") or user.get("id") or "") if user else ""


def digests_of(plans: Iterable[PlanResult]) -> list[str]:
    """Return the digests that an approval of these plans covers: of the RUNs, if a plan undoes
    RUNs.
    """
    from kafkats.plans.run import read_run

    found = [
        digest
        for plan in plans
        for digest in (
            [read_run(Path(run)).digest for run in plan["undo"]]
            if plan.get("undo")
            else [plan["digest"]]
        )
    ]
    return sorted(set(found))


def from_disk(context: Context, plan: PlanResult) -> PlanResult:
    """Return the plan with totals and digest from its files: people see what would be applied.

    Raises Refused for a plan of another DAG run, Changed if its digest differs, CorruptPlan for
    files that it is not the digest of, StorageFailed.
    """
    from kafkats.plans.parts import listed_plan

    if plan.get("undo"):
        return plan  # the RUNs' own digests count
    folder = inside(context, Path(plan["plan"]))
    found = listed_plan(folder)
    if found.digest != plan["digest"]:
        raise Changed(
            f"the plan that was made had digest {plan['digest'][:16]}; clear the run to make a new"
            " plan",
            path=folder,
        )
    totals: Any = found.header["totals"]
    return {**plan, "totals": totals}


def inside(context: Context, path: Path) -> Path:
    """Return `path`. Raises Refused unless it lies in the DAG run's own folder."""
    folder = folder_of(context)
    if ".." in path.parts or not path.is_relative_to(folder) or path == folder:
        raise Refused(f"not a plan of this DAG run, whose folder is {folder}", path=path)
    return path


def _digests(value: Json) -> list[str] | None:
    """Return a list of texts, None for anything else."""
    texts = [one for one in value if isinstance(one, str)] if isinstance(value, list) else []
    return texts if texts == value else None


def record(
    context: Context,
    option: str,
    digests: Sequence[str],
    by: str,
    why: str,
    **more: Json,
) -> None:
    """Record an answer, with `more` fields. `by` is "" where nobody had to be asked."""
    from kafkats.plans.approval import Approval, write_approval

    dag_id, run_id = context["dag"].dag_id, context["run_id"]
    approval = Approval(option, tuple(digests), by, why, clock.now_ms())
    write_approval(approval_of(context), approval, **more, dag_id=dag_id, run_id=run_id)
