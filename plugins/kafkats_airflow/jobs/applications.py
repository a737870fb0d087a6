"""The Spark applications of a run, with the arguments of their jobs.

There is one application per Spark connection. Volumes that differ in `owner_stopped` or
`work_area` get separate applications. So do volumes of different brokers, in DAGs that handle one
broker at a time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, cast

from airflow.providers.common.compat.sdk import Context

from kafkats.config.option import declared
from kafkats.errors import UsageError
from kafkats.operations import OPERATIONS
from kafkats_airflow import checks
from kafkats_airflow.failing import in_our_words
from kafkats_airflow.forms.catalogue import declared_in, flag_of, form_of
from kafkats_airflow.forms.values import RunParams, params_of
from kafkats_airflow.results import Arguments, PlanResult, Work
from kafkats_airflow.runs.folders import folder_of
from kafkats_airflow.runs.tries import work_of
from kafkats_airflow.runs.volumes import Group, groups_of, listed

START: Final = "start"
"""The folder of a report of preflight, in the folder of its broker."""


@in_our_words
def planning(context: Context, operation: str) -> list[Arguments]:
    """Return arguments of PlanJobOperator, one dict per application. The form of the operation
    (kafkats_airflow.forms.catalogue) has the options. Raises as `groups_of`.
    """
    params = params_of(context)
    checks.writable(params["folder"])
    words = [*_reading(params), *words_of(operation, params)]
    return [
        {
            "conn_id": group.connection,
            "application_args": [
                operation, *group.log_dirs, *words,
                *places(folder_of(context) / group.name, group),
            ],
        }
        for group in groups_of(params)
    ]  # fmt: skip


@in_our_words
def starting(context: Context) -> list[Arguments]:
    """Return arguments of the job preflight, one dict per broker; [] if no release is given.

    Raises as `groups_of`.
    """
    params = params_of(context)
    kafka = (params.get("kafka") or "").strip()
    if not kafka:
        return []
    folder = folder_of(context)
    return [
        {
            "conn_id": group.connection,
            "application_args": [
                *group.log_dirs, "--kafka", kafka, "--go-on",
                "--report", str(folder / group.name / START),
            ],
        }
        for group in groups_of(params, by_broker=True, writes=False)
    ]  # fmt: skip


def words_of(operation: str, params: RunParams) -> list[str]:
    """Return the operation's own options as its form gives them. Empty boxes give none."""
    own = {one.option for model in OPERATIONS[operation].models for one in declared(model)}
    words: list[str] = []
    values = cast("Mapping[str, object]", params)
    for name, one in declared_in(form_of(operation)).items():
        # A run that was made before the form had the option takes what the form begins with.
        value = values.get(name, one.option.initial) if one.option in own else None
        if value in (None, "", False):
            continue
        word = flag_of(one)
        if one.kind.base is Path and not Path(str(value)).is_absolute():
            raise UsageError(
                f"{name}: {value!r} does not begin with /: workers have no such folder"
            )
        if value is True:
            words.append(word)
        elif isinstance(value, list):
            given = listed(value)
            given = [",".join(given)] if given and one.kind.commas else given
            words += [part for text in given for part in (word, text)]
        else:
            words += [word, str(value)]
    return words


@in_our_words
def changing(
    context: Context, planning: Sequence[Arguments], plans: Sequence[PlanResult]
) -> list[Work]:
    """Return the Work of each application (kafkats_airflow.runs.tries); nothing for a dry run."""
    params = params_of(context)
    if params["dry_run"]:
        return []
    proof = _reading(params) + (["--generation", params["rule"]] if "rule" in params else [])
    found = [
        work_of(asked["conn_id"], plan, proof, writes=bool(plan["totals"]["files"]))
        for asked, plan in zip(planning, plans, strict=True)
    ]
    return [work for work in found if work]


def places(folder: Path, group: Group) -> list[str]:
    """Return the arguments that name the plan's folder, the report and the work area."""
    area = ["--work-area", group.work_area] if group.work_area else []
    return ["--into", str(folder), "--report", str(folder / "before"), *area]


def _reading(params: RunParams) -> list[str]:
    return ["--policy", params["policy"], "--topics", params["topics"]]
