"""DAGs are found by the tag of their operation and by the default of their param `policy`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from kafkats_airflow.forms.tags import Dag, chosen, deployed_dag
from kafkats_airflow.tasks.recovery import dag_of

from kafkats.errors import UsageError

ONE, EAST = Dag("recover_log_dirs", "recover", "/one"), Dag("recover_east", "recover", "/east")

FILE = """
from airflow.sdk import DAG, Param

with DAG({dag_id!r}, tags=["kafkats", "kafkats:{operation}"], params={{"policy": Param({policy!r})}}):
    pass
"""


def copied(folder: Path, *dags: Dag) -> Path:
    """A folder with a DAG file for each, one of them in a folder of its own."""
    for n, one in enumerate(dags):
        path = folder / ("more" if n else "") / f"{one.dag_id}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(FILE.format(**one._asdict()))
    (folder / "other.py").write_text("raise ImportError('somebody else must not be run')")
    return folder


@pytest.mark.parametrize(
    ("dags", "policy", "dag_id"),
    [
        ((), "/one", ""),
        ((ONE,), "/another", "recover_log_dirs"),
        ((ONE, EAST), "/one", "recover_log_dirs"),
        ((ONE, EAST), "/east", "recover_east"),
        ((ONE, EAST), "/another", ""),
        ((ONE, EAST, Dag("recover_again", "recover", "/east")), "/east", "recover_again"),
        ((Dag("rebuild", "rebuild", "/one"), EAST), "/one", "recover_east"),
    ],
)
def test_the_only_dag_of_an_operation_or_the_first_with_the_policy(
    dags: tuple[Dag, ...], policy: str, dag_id: str
) -> None:
    assert chosen(dags, "recover", policy) == dag_id


def test_of_two_dags_with_one_policy_that_with_the_folder_of_the_run() -> None:
    other = Dag("a_recover", "recover", "/one", "/other/runs")
    dags = (other, ONE._replace(folder="/runs"))
    assert chosen(dags, "recover", "/one", "/runs") == "recover_log_dirs"
    assert chosen(dags, "recover", "/one", "/other/runs") == "a_recover"
    assert chosen(dags, "recover", "/one", "/a/third") == "a_recover"


def test_a_dag_says_its_operation_by_its_tag() -> None:
    found = deployed_dag("copy", ["repair", "kafkats", "kafkats:rebuild"], {"policy": "/p"})
    assert found == Dag("copy", "rebuild", "/p")
    assert deployed_dag("other", ["kafkats"], {}) is None


def test_a_worker_finds_the_dag_among_the_files(tmp_path: Path) -> None:
    folder = copied(tmp_path, ONE, EAST, Dag("rebuild_east", "rebuild", "/east"))
    assert dag_of(folder, "recover", "/one", "/runs") == "recover_log_dirs"
    assert dag_of(folder, "recover", "/east", "/runs") == "recover_east"
    with pytest.raises(UsageError, match="no DAG with the tag kafkats:migrate is deployed"):
        dag_of(folder, "migrate", "/one", "/runs")


def test_pages_find_the_deployed_dags_in_the_database(bag: Any) -> None:
    from kafkats_airflow.ui.dags import deployed

    found = deployed()
    params = bag.dags["recover_log_dirs"].params
    assert Dag("recover_log_dirs", "recover", params["policy"], params["folder"]) in found.dags
    assert {one.dag_id for one in found.dags} == set(bag.dags)
    assert found.of("end", like="apply_retention") == "end_run"
    assert found.having(frozenset({"table", "export"})) == {"build_lookup_tables", "export_offsets"}


def test_pages_know_a_dag_whose_file_airflow_cannot_parse(bag: Any) -> None:
    from airflow.models.dag import DagModel
    from airflow.utils.session import create_session
    from kafkats_airflow.ui.dags import deployed

    def mark(is_stale: bool) -> None:
        with create_session() as session:
            session.get_one(DagModel, "end_run").is_stale = is_stale

    mark(True)
    try:
        found = deployed()
    finally:
        mark(False)
    assert [one.dag_id for one in found.dags if one.stale] == ["end_run"]
    assert (found.of("end"), deployed().of("end")) == ("", "end_run")
