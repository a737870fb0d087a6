"""A plan by request: its digest is that of the command, and whose reservation is in the way is a field."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from kafkats.clock import now_ms
from kafkats.config.policy import Policy
from kafkats.config.reading import read_policy
from kafkats.flow.verbs.plan import _undone_totals
from kafkats.logdir.reservation import read_reservation, reservation_area, reserve
from kafkats.plans.facts import ACTIONS, write_table
from kafkats.plans.plan import read_plan
from kafkats.request import PolicyContent
from kafkats.result import Result
from tests.builders.commands import run as command
from tests.flow.conftest import Scene
from tests.golden import case, retention_moment, retention_policy

HOUR = 3_600_000


def rebuild(scene: Scene, folder: Path, **fields: Any) -> Result:
    options = {"PlanFolder": {"output": folder}, **fields.pop("options", {})}
    log_dirs = [{"path": scene.root}]
    return scene.ask("plan", operation="rebuild", log_dirs=log_dirs, options=options, **fields)


def test_the_plan_is_that_of_the_command(scene: Scene, tmp_path: Path) -> None:
    result = rebuild(scene, tmp_path / "p")
    assert result.plan is not None and (result.plan.digest, result.exit_code) == (scene.digest, 0)
    assert read_plan(Path(result.plan.folder)).digest == scene.digest
    summary = result.summary()
    assert summary["files"] == summary["totals"]["files"] == 1
    assert summary["log_dirs"] == [str(scene.root)] and summary["seen"]["segments"] > 1
    assert (
        result.reservation is None
        and scene.apply(plan={"folder": result.plan.folder, "digest": result.plan.digest}).exit_code
        == 0
    )


def test_the_holder_in_the_way_is_a_field(scene: Scene, tmp_path: Path) -> None:
    reserve(reservation_area(scene.root), "ada@host", now_ms() + HOUR, now_ms=now_ms())
    asked = {"holder": "airflow a b", "until_ms": now_ms() + HOUR}
    refused = rebuild(scene, tmp_path / "p", reservation=asked)
    assert refused.error is not None and refused.exit_code == 3 and refused.plan is None
    assert [one.holder for one in refused.error.holders] == ["ada@host"]
    taken = rebuild(scene, tmp_path / "p", reservation=asked | {"take_over": ["ada@host"]})
    assert taken.reservation is not None and taken.error is None
    mine = {"log_dir": str(scene.root), **asked}
    assert [asdict(one) for one in taken.reservation.mine] == [mine]
    assert taken.summary()["reserves"] == [str(scene.root)]
    standing = read_reservation(reservation_area(scene.root))
    assert standing is not None and standing.holder == "airflow a b"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"PlanFolder": {"into": "/a", "output": "/b"}}, "with -o, or with --into"),
        ({"Rebuild": {"all": True, "depth": "tail"}}, "--depth tail goes neither with"),
        ({"Topics": {"topics": "none-such"}}, "no topic matches"),
    ],
)
def test_options_that_do_not_go_together(
    scene: Scene, tmp_path: Path, options: dict[str, Any], said: str
) -> None:
    result = rebuild(scene, tmp_path / "p", options=options)
    assert result.error is not None and said in result.error.reason
    assert (result.error.kind, result.exit_code) == ("UsageError", 2)
    assert not (tmp_path / "p").exists()


def test_a_policy_by_content_deletes_what_its_file_does(
    scene: Scene, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (root := tmp_path / "kept" / "data").mkdir(parents=True)
    of = case("retention-4.3.1")
    of.unpack("before", root)
    file = tmp_path / "policy.yaml"
    file.write_text(json.dumps(retention_policy(of)))
    words = ("--policy", file, "--now", retention_moment(of), "-o", tmp_path / "words")
    code, _, err = command(capsys, "plan", "retain", root, *words)
    assert code in (0, 1), err
    result = scene.ask(
        "plan",
        operation="retain",
        log_dirs=[{"path": root}],
        policy=PolicyContent.of(read_policy(file)).model_dump(mode="json"),
        options={
            "PlanFolder": {"output": tmp_path / "request"},
            "Retain": {"now": retention_moment(of)},
        },
    )
    assert result.plan is not None and result.plan.totals["files"]
    assert result.plan.digest == read_plan(tmp_path / "words").digest
    assert result.more["over_guard"] == 0


def test_the_first_glob_counts_also_after_json_has_sorted_its_keys() -> None:
    topics = {"z-*": {"retention.ms": 1}, "a-*": {"retention.ms": 2}, "*": {"retention.ms": 3}}
    policy = Policy.model_validate({"topics": topics, "guard": {"max.bytes": "1GiB"}})
    content = PolicyContent.model_validate_json(PolicyContent.of(policy).model_dump_json())
    read = content.policy()
    assert read == policy and list(read.topics) == list(topics)
    assert read.settings("z-1").given() == {"retention_ms": 1}


def test_the_totals_of_an_undo_are_summed_in_pieces(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The report of a whole broker does not fit into the memory of a driver."""
    written = {"outcome": "done", "before_bytes": 3}
    rows = [written, written | {"before_bytes": -1}, {"outcome": "nothing", "before_bytes": 5}]
    for name in ("one", "other"):
        (tmp_path / name).mkdir()
        report = pa.Table.from_pylist(rows, schema=ACTIONS)
        write_table(tmp_path / name / "report.parquet", report)
    monkeypatch.setattr("pyarrow.parquet.ParquetFile.read", None)
    totals = _undone_totals([tmp_path / name for name in ("one", "none", "other")])
    assert (totals["files"], totals["write_bytes"], totals["blocked"]) == (4, 6, 0)
