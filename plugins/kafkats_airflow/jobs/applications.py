"""The Spark applications of a run, with the arguments of their jobs.

There is one application per Spark connection. Volumes that differ in `owner_stopped` or
`work_area` get separate applications. So do volumes of different brokers, in DAGs that handle one
broker at a time.
"""

from __future__ import annotations

import fnmatch
import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple, cast

from airflow.providers.common.compat.sdk import Context

from kafkats.config import Volume
from kafkats.config.option import declared
from kafkats.errors import UsageError
from kafkats.operations import OPERATIONS
from kafkats_airflow import checks
from kafkats_airflow.failing import in_our_words
from kafkats_airflow.forms.catalogue import declared_in, flag_of, form_of
from kafkats_airflow.forms.values import RunParams, params_of
from kafkats_airflow.results import Arguments, PlanResult, Work
from kafkats_airflow.runs.folders import folder_of, readable, with_digest
from kafkats_airflow.runs.tries import work_of

START: Final = "start"
"""The folder of a report of preflight, in the folder of its broker."""
_LONGEST: Final = 200


class Group(NamedTuple):
    """The volumes of one application. `broker` is "" if the DAG does not separate brokers."""

    connection: str
    broker: str
    stopped: bool
    work_area: str
    """Where undo material goes; "" for beside each log directory."""
    log_dirs: list[str]
    name: str
    """Names its folder: no other group of the policy has the same."""


Key = tuple[str, str, bool, str]
"""Connection, broker, owner_stopped, work_area: what tells groups apart."""


def groups_of(params: RunParams, *, by_broker: bool = False, writes: bool = True) -> list[Group]:
    """Group the volumes of the run into applications; `writes`: also by owner_stopped and
    work_area.

    Raises UsageError if the policy cannot be read or has no such volume.
    """

    def key_of(volume: Volume) -> Key:
        area = str(volume.work_area) if writes and volume.work_area else ""
        return (
            volume.connection,
            volume.broker if by_broker else "",
            writes and volume.owner_stopped,
            area,
        )

    volumes = checks.policy_of(params).volumes
    names = _names(dict.fromkeys(map(key_of, volumes)))
    groups: dict[Key, Group] = {}
    for volume in _chosen(volumes, listed(params["volumes"])):
        key = key_of(volume)
        groups.setdefault(key, Group(*key, [], names[key])).log_dirs.append(str(volume.path))
    return list(groups.values())


def chosen_volumes(params: RunParams) -> list[Volume]:
    """Return the volumes of the run; all of the policy if the form has no `volumes`.

    Raises as `groups_of`.
    """
    return _chosen(checks.policy_of(params).volumes, listed(params.get("volumes")))


def listed(given: Sequence[str] | None) -> list[str]:
    """Return the words of a list param. A form gives None, or an empty line for a removed word."""
    return [word for line in given or [] if (word := line.strip())]


def _names(keys: Iterable[Key]) -> dict[Key, str]:
    """Name a folder for each key. A name gets a digest if it is not unique or not a safe path."""

    def text(key: Key) -> str:
        return "-".join(filter(None, [key[0], key[1], "owner-stopped" if key[2] else "", key[3]]))

    every = list(keys)
    read = [readable(text(key)) for key in every]
    plain = [
        name
        for name in read
        if read.count(name) == 1 and not name.startswith(".") and len(name) <= _LONGEST
    ]
    return {
        key: name if name in plain else with_digest(text(key), json.dumps(key))
        for key, name in zip(every, read, strict=True)
    }


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


def _chosen(volumes: Sequence[Volume], wanted: Sequence[str]) -> list[Volume]:
    """Return the volumes whose path or broker matches one of the globs; all without a glob."""

    def matches(volume: Volume, glob: str) -> bool:
        return fnmatch.fnmatchcase(str(volume.path), glob) or fnmatch.fnmatchcase(
            volume.broker, glob
        )

    for glob in wanted:
        if not any(matches(volume, glob) for volume in volumes):
            raise UsageError(f"no volume of the policy has a path or broker like {glob!r}")
    chosen = [v for v in volumes if not wanted or any(matches(v, glob) for glob in wanted)]
    if not chosen:
        raise UsageError("the policy has no volumes")
    return chosen


def _reading(params: RunParams) -> list[str]:
    return ["--policy", params["policy"], "--topics", params["topics"]]
