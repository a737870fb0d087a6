"""A migration that was cleared half-way, and a rollback of what an earlier version has converted."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from kafkats_airflow.runs import folders

from kafkats.migration import ledger
from tests.dags.runs import refusing
from tests.dags.test_migrate_message_format import (
    CANARY,
    DAG,
    GOLDEN,
    PARAMS,
    PHASE_1,
    Pretended,
    last_report,
    magics,
    reached,
    states,
    write_policy,
)
from tests.dags.test_migrate_message_format import pretended as pretended


@pytest.mark.slow(4)
def test_a_conversion_that_was_refused_in_part_and_cleared_names_and_proves_both_tries(
    bag: Any,
    tmp_path: Path,
    here: list[str],
    again: Callable[..., Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (root := tmp_path / "broker" / "data").mkdir(parents=True)
    GOLDEN.unpack("data", root)
    policy = write_policy(
        tmp_path / "policy.yaml", [{"broker": "1", "path": str(root), "owner_stopped": True}]
    )
    folder, late = (
        tmp_path / "reports",
        sorted(path.parent.name for path in root.glob("*/*.log"))[0],
    )

    def phase(name: str, **conf: Any) -> Any:
        conf = PARAMS | {"policy": str(policy), "folder": str(folder), "phase": name} | conf
        return bag.dags[DAG].test(run_conf=conf, logical_date=None)

    assert str(phase("phase-1", attested_by="the tests").state) == "success"
    refusing(monkeypatch, root, late)
    run = phase("canary", volumes=["1"])
    first = last_report(folder)
    assert (str(run.state), first["outcome"].startswith("not finished")) == ("failed", True), (
        states(run)
    )
    assert len(first["runs"]) == 1 and magics(root) == {0, 2}, "some of it is converted"
    assert first["failures"][0].startswith("convert: ")

    run = again(run)
    second = last_report(folder)
    assert (str(run.state), second["outcome"]) == ("success", "converted and proved"), states(run)
    assert magics(root) == {2}
    assert second["runs"][0] == first["runs"][0] and len(second["runs"]) == 2
    assert [one["run"] for one in second["parity"]] == second["runs"], "each record by record"
    assert sum(one["records"] for one in second["parity"]) == len(GOLDEN.records())
    proofs = [json.loads(Path(one, "proof.json").read_text())["files"] for one in second["runs"]]
    assert all(proofs) and sum(proofs) == second["files_proved"]
    [verified] = [
        one for one in ledger.read(folder / "ledger.jsonl").entries if one.event == "verified"
    ]
    assert verified.details["runs"] == [os.path.basename(one) for one in second["runs"]]


def test_a_rollback_finds_the_run_of_an_earlier_version(
    tmp_path: Path, pretended: Pretended, monkeypatch: pytest.MonkeyPatch
) -> None:
    """That had its runs in FOLDER/<run id>, without the DAG's id."""
    with monkeypatch.context() as patch:
        patch.setattr(folders, "run_folder", lambda folder, dag_id, run_id: Path(folder, run_id))
        reached(pretended, tmp_path, PHASE_1, CANARY)
    [run] = (tmp_path / "r").glob("*/*/run-*")
    pretended.ran.clear()
    assert reached(pretended, tmp_path, ("rollback", {"volumes": ["1"]})) == "undone"
    assert pretended.ran[0][1]["runs"] == [str(run)]
    said = last_report(tmp_path / "r")
    assert Path(said["report"]).parent == tmp_path / "r" / DAG and said["runs"] == [str(run)]
