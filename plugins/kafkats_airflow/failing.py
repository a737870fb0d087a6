"""Tasks that fail with our own sentences, and without a retry if none can help.

The first line of a failure is also kept in the task's XCom FAILURE. The run's report repeats it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from typing import Any, Final, ParamSpec, TypedDict, TypeGuard, TypeVar

from airflow.sdk import Context, get_current_context

from kafkats.errors import Holder, KafkatsError
from kafkats_airflow import checks, deployment, sentences, settings, shared_folder
from kafkats_airflow.airflow_versions import AirflowException, AirflowFailException
from kafkats_airflow.forms import values
from kafkats_airflow.forms.values import given_params

FAILURE: Final = "failure"
UNFINISHED: Final = "not finished"
"""The end of the outcome of a run that must not count as a success."""

P = ParamSpec("P")
R = TypeVar("R")


class Held(AirflowFailException):
    """Others have reserved log directories of the task's job."""

    def __init__(self, sentence: str, holders: Sequence[Holder]) -> None:
        super().__init__(sentence)
        self.holders = tuple(holders)


def in_our_words(do: Callable[P, R]) -> Callable[P, R]:
    """Decorate the function of a Python task: errors of ours fail it in their own words."""

    @wraps(do)
    def checked(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            settings.check()
            context = _task_of(args)
            first = context if context and values.is_first(context) else None
            if first:
                values.refuse_unknown(first)
                checks.one_pyspark()
            if deployment.hardened():
                deployment.check(context_of(args))
            if first:
                shared_folder.compare(first)
            return do(*args, **kwargs)
        except KafkatsError as e:
            # Without the cause: the first line of the task's error is the sentence.
            context = _task_of(args)
            sentence = sentences.of(e, given_params(context) if context else None)
            raise failed(
                sentence, retryable=e.retryable, holders=e.holders, context=context
            ) from None

    return checked


def context_of(args: tuple[object, ...]) -> Context:
    """Return the task's context: the argument if there is one, else Airflow's own."""
    return next(filter(_is_context, args), None) or get_current_context()


def _task_of(args: tuple[object, ...]) -> Context | None:
    """Return the task's context, None outside of a task."""
    try:
        return context_of(args)
    except RuntimeError:
        return None


def _is_context(arg: object) -> TypeGuard[Context]:
    return isinstance(arg, Mapping) and "params" in arg and "dag_run" in arg


def failed(
    sentence: str,
    *,
    retryable: bool = False,
    holders: Sequence[Holder] = (),
    context: Context | None = None,
) -> AirflowException:
    """Return the exception to raise, and keep its sentence for the report."""
    keep(sentence, context)
    if holders:
        return Held(sentence, holders)
    return AirflowException(sentence) if retryable else AirflowFailException(sentence)


def keep(sentence: str, context: Context | None = None) -> None:
    """Keep the first line of a sentence for the report. Outside of a task, only log it."""
    first = sentence.partition("\n")[0]
    logging.getLogger(__name__).error(first)
    context = context or _task_of(())
    if context is not None:
        context["ti"].xcom_push(FAILURE, first)


def failures(context: Context) -> list[str]:
    """Return the failures of the run's other tasks as `TASK: sentence`, in the tasks' order, each
    sentence once.
    """
    ti, run_id = context["ti"], context["run_id"]
    found: list[str] = []
    states = ti.get_task_states(dag_id=context["dag"].dag_id, run_ids=[run_id]).get(run_id, {})
    bad = sorted(
        key for key, state in states.items() if str(getattr(state, "value", state)) == "failed"
    )
    if not bad:
        return found
    for task in context["dag"].topological_sort():  # type: ignore[no-untyped-call]  # Airflow's
        for key in bad:
            name, index = _instance(key, task.task_id)
            if name == task.task_id != ti.task_id:
                sentence = ti.xcom_pull(task_ids=name, map_indexes=index, key=FAILURE)
                words = str(sentence or "ended without a word, as if killed; its log has more")
                found.append(f"{name}: {words.removeprefix(f'{name}: ')}")
    return list(dict.fromkeys(found))


def _instance(key: str, task_id: str) -> tuple[str, int]:
    """Split a key of `get_task_states` into task and map index; -1: the task is not mapped."""
    number = key.removeprefix(f"{task_id}_")
    return (task_id, int(number)) if number != key and number.isdecimal() else (key, -1)


class Ended(TypedDict):
    """The fields of report.json that say how a run ended."""

    outcome: str
    failures: list[str]
    report: str


def unfinished(report: Mapping[str, Any]) -> AirflowException:
    """Return the exception of report.json: how the run ended, and the first reason."""
    why = f": {sentences.first_of(report['failures'])}" if report["failures"] else ""
    return failed(f"{report['outcome']}{why}; see {report['report']}")
