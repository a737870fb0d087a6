"""The sets of DAGs that pages read: each has a folder of runs, and policies with its volumes.

A page shows one set. That of the deployment has the folder KAFKATS_FOLDER; another one is named in
the address of the page.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Mapping
from itertools import groupby
from pathlib import Path
from typing import Annotated, Final, NamedTuple

from fastapi import Depends, HTTPException, Query, Request
from sqlalchemy.exc import SQLAlchemyError

from kafkats.config.reading import read_policy
from kafkats_airflow import settings
from kafkats_airflow.forms.tags import Dag, name_of, prefix_of
from kafkats_airflow.reading import runs
from kafkats_airflow.reading.files import Unreadable, cached
from kafkats_airflow.reading.runs import Found
from kafkats_airflow.runs.volumes import named
from kafkats_airflow.ui import dags, unseen
from kafkats_airflow.ui.dags import Dags
from kafkats_airflow.ui.rights import Readable

_LOG: Final = logging.getLogger(__name__)


class Listed(NamedTuple):
    """The volumes of policies, {label: broker}; `why` one could not be read, or ""."""

    volumes: dict[str, str]
    why: str


class Set(NamedTuple):
    """A set of DAGs; `name` is "" for that of the deployment."""

    name: str
    folder: Path
    dags: Dags

    def runs_of(self, dag_ids: Iterable[str]) -> tuple[list[Found], str]:
        """Return the runs of these DAGs, and why their folder cannot be listed, or ""."""
        try:
            return runs.runs_in(self.folder, dag_ids), ""
        except OSError as e:
            return [], (e.strerror or str(e)).lower()

    def listed(self, dag_ids: Collection[str]) -> Listed:
        """Return the volumes of the policies of these DAGs, of those that are in the set: a person
        sees what the DAGs are about whose runs he may read. Of two with one label the first counts.

        In the set of the deployment the policy of the deployment is the first, and that of a DAG
        that names none. DAGs that are stale count where all are.
        """
        own = "" if self.name else settings.POLICY
        of = [one for one in self.dags.dags if not one.stale] or self.dags.dags
        named = {one.policy or own for one in of if one.dag_id in dag_ids} - {""}
        found = [_listed(Path(one)) for one in sorted(named, key=lambda one: (one != own, one))]
        volumes = {label: one.volumes[label] for one in reversed(found) for label in one.volumes}
        return Listed(volumes, next((one.why for one in found if one.why), ""))


def _listed(path: Path) -> Listed:
    try:
        found = cached(path.resolve(), _parse)
    except (OSError, RuntimeError) as e:  # a loop of links
        found = Unreadable(path, str(e))
    if isinstance(found, dict):
        return Listed(found, "")
    return Listed({}, found.why if found else "it is not there")


def _parse(path: Path) -> dict[str, str]:
    """Parse the policy. Raises KafkatsError."""
    return {one.label: one.broker for one in named(read_policy(path).volumes)}


def sets(known: Dags) -> list[Set]:
    """Return the sets of the deployed DAGs, that of the deployment first."""

    def place(one: Dag) -> str:
        return str(Path(one.folder or settings.FOLDER))

    groups = {folder: [*of] for folder, of in groupby(sorted(known.dags, key=place), place)}
    own = groups.pop(str(Path(settings.FOLDER)), [])
    found = [Set("", Path(settings.FOLDER), Dags(tuple(own)))]
    for folder, of in groups.items():
        of.sort(key=lambda one: one.stale)  # an earlier prefix gives no name
        name = name_of(folder, next(filter(None, (prefix_of(one.dag_id) for one in of)), ""))
        unique = name if name not in {one.name for one in found} else folder
        found.append(Set(unique, Path(folder), Dags(tuple(of))))
    return found


def folders() -> Mapping[str, Path]:
    """Return the folder of each set, by name; only that of the deployment while Airflow's database
    does not answer.
    """
    try:
        known = dags.deployed()
    except SQLAlchemyError as e:
        _LOG.warning("only the folder of the deployment is known: %s", e)
        known = Dags(())
    return {one.name: one.folder for one in sets(known)}


class Chosen(NamedTuple):
    """The set that a page shows. `dag_ids` are those of its DAGs whose runs the person may read."""

    one: Set
    dag_ids: frozenset[str]

    def runs(self) -> tuple[list[Found], str]:
        """Return the runs that the person may read, and why their folder cannot be listed."""
        return self.one.runs_of(self.dag_ids)


def of_dag(request: Request, dag_id: str) -> Set:
    """Return the set of a DAG, and note it for the links of the page."""
    every = sets(dags.deployed())
    found = next((one for one in every if dag_id in one.dags.ids), every[0])
    request.state.of_set = found.name
    return found


def chosen(
    request: Request, person: Readable, of: Annotated[str, Query(max_length=500, alias="set")] = ""
) -> Chosen:
    """Return the set that the address names, else the first with DAGs that the person may read.

    Raises 404 if the person may read no DAG of such a set.
    """
    every = sets(dags.deployed())
    others = frozenset().union(*(one.dags.ids for one in every[1:]))
    seen = [
        Chosen(one, person.dag_ids & one.dags.ids if one.name else person.dag_ids - others)
        for one in every
    ]
    shown = [one for one in seen if one.dag_ids] or seen[:1]
    found = [one for one in shown if one.one.name == of] if of else shown
    if not found:
        raise HTTPException(404, f"There is no set of DAGs {of} whose runs you may see.")
    one, dag_ids = found[0]
    request.state.of_set = one.name
    request.state.elsewhere = unseen.elsewhere(one.folder, dag_ids) if dag_ids else None
    request.state.sets = [one.one.name for one in shown]
    return found[0]


Asked = Annotated[Chosen, Depends(chosen)]
