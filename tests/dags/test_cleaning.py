"""clean_reports on what real runs have left: what anything needs stays, and the rest goes."""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from kafkats_airflow.shared_folder import PREFIX, look
from kafkats_airflow.tasks.cleaning_rules import Kept, RunFolder, needed_in, run_folder, why_kept

from kafkats.cli import cli
from kafkats.counts import size_text
from kafkats.errors import KafkatsError
from kafkats.logdir.reservation import release, reservation_area, reserve
from kafkats.migration import ledger
from kafkats.plans.run import read_run
from tests.dags.runs import DAMAGED, REBUILT, rebuild, report

DAG = "clean_reports"
DAY_S = 86_400
LONG_AGO = time.time() - 200 * DAY_S
NEW = "rebuild_time_indexes"


def age(folder: Path, when: float = LONG_AGO) -> None:
    """Everything in a folder was written then."""
    for above, folders, files in os.walk(folder):
        for name in (*folders, *files):
            os.utime(Path(above, name), (when, when), follow_symlinks=False)
    os.utime(folder, (when, when))


_made: list[Path] = []


@pytest.fixture
def made(bag: Any, here: list[str], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with `reports` after a rebuild that was applied and proved; made once for all."""
    if not _made:
        place = tmp_path_factory.mktemp("made")
        (root := place / "broker" / "data").mkdir(parents=True)
        REBUILT.unpack("data", root)
        (root / DAMAGED[0]).unlink()
        rebuild(bag, root, need_approval=False)
        assert report(root)["outcome"] == "rebuilt and proved"
        shutil.copytree(place / "reports", place / "kept", symlinks=True)
        _made.append(place)
    return _made[0]


class Scene:
    """A copy of what was made: `run` is the old run, `newer` a later one of the same DAG."""

    def __init__(self, made: Path) -> None:
        # At the path where it was made: reports and RUNs name their paths.
        shutil.rmtree(made / "reports", ignore_errors=True)
        shutil.copytree(made / "kept", made / "reports", symlinks=True)
        self.root, self.volume = made / "reports", made / "broker" / "data"
        [self.run] = (self.root / NEW).iterdir()
        [self.RUN] = self.run.glob("*/run-*")
        for record in self.run.rglob("reservation.json"):
            record.write_text(json.dumps(json.loads(record.read_text()) | {"until_ms": 1}))
        age(self.run)
        self.newer = self.root / NEW / "newer"
        self.newer.mkdir()
        shutil.copy2(self.run / "report.json", self.newer)
        told = json.loads((self.run / "overview.json").read_text())
        told |= {"run_id": "newer", "written_ms": told["written_ms"] + 1, "undo": []}
        (self.newer / "overview.json").write_text(json.dumps(told))
        age(self.newer, LONG_AGO + DAY_S)

    def __call__(self, **more: Any) -> Kept | None:
        """Why the old run is kept, 90 days being kept and no DAG run active."""
        now_ns = time.time_ns()
        asked = {"before_ns": now_ns - 90 * DAY_S * 10**9, "now_ms": now_ns // 10**6}
        asked |= {"active": lambda dag_id, run_id: False} | more
        found = [run_folder(path, self.root) for path in (self.run, self.newer)]
        runs = [one for one in found if isinstance(one, RunFolder)]
        assert runs and runs[0].path == self.run, found
        return why_kept(runs[0], needed_in(self.root, runs, **asked))[0]

    def purge(self) -> None:
        """End the undo, as `kafkats purge` notes it. The volume is shared by all tests."""
        (self.RUN / "purge.json").write_text('{"at_ms": 1, "files": 1, "freed_bytes": 1}')
        age(self.run)


@pytest.fixture
def scene(made: Path) -> Scene:
    return Scene(made)


@pytest.mark.slow(7)
def test_without_any_need_it_may_go(scene: Scene) -> None:
    scene.purge()
    assert scene() is None


@pytest.mark.slow(2)
def test_an_undo_is_possible(scene: Scene) -> None:
    kept = scene()
    assert kept is not None and kept.why == "undo"
    assert f"kafkats purge {scene.RUN}" in kept.what


@pytest.mark.slow(2)
def test_an_undone_run_may_go(scene: Scene) -> None:
    (scene.RUN / "undone.json").write_text('{"at_ms": 1}')
    age(scene.run)
    assert scene() is None


def interrupted(scene: Scene) -> None:
    (scene.RUN / "report.json").unlink()
    age(scene.run)


def not_proved(scene: Scene) -> None:
    scene.purge()
    (scene.RUN / "proof.json").unlink()
    age(scene.run)


def named_in_the_ledger(scene: Scene) -> None:
    scene.purge()
    write_ledger(scene.root / "ledger.jsonl", {"folder": str(scene.RUN)})


def known_to_the_ledger(scene: Scene) -> None:
    scene.purge()
    write_ledger(scene.root / "ledger.jsonl", {"runs": [read_run(scene.RUN).run_id]})


def in_a_ledger_elsewhere(scene: Scene) -> None:
    """The param `ledger` names it, and so does the report."""
    scene.purge()
    elsewhere = scene.root.parent / "elsewhere.jsonl"
    write_ledger(elsewhere, {"certificates": [str(scene.run / "spark" / "certificate")]})
    said = json.loads((scene.newer / "report.json").read_text())
    (scene.newer / "report.json").write_text(json.dumps(said | {"ledger": str(elsewhere)}))


def without_its_ledger(scene: Scene) -> None:
    scene.purge()
    said = json.loads((scene.run / "report.json").read_text())
    (scene.run / "report.json").write_text(json.dumps(said | {"ledger": "/gone/ledger.jsonl"}))
    age(scene.run)


def certified(scene: Scene) -> None:
    scene.purge()
    (scene.run / "spark").mkdir(exist_ok=True)
    (scene.run / "spark" / "certificate.json").write_text("{}")
    age(scene.run)


def recorded_reservation(scene: Scene) -> None:
    scene.purge()
    held = {"holder": "airflow x y", "until_ms": time.time_ns() // 10**6 + 60_000, "tokens": {}}
    (scene.RUN / "reservation.json").write_text(json.dumps(held))
    age(scene.run)


def unclear_reservation(scene: Scene) -> None:
    scene.purge()
    (scene.RUN / "reservation.json").write_text("{")
    age(scene.run)


def open_question(scene: Scene) -> None:
    scene.purge()
    (scene.run / "approval.json").unlink(missing_ok=True)
    until = {"until_ms": time.time_ns() // 10**6 + 60_000}
    (scene.run / "question.json").write_text(json.dumps(until))
    age(scene.run)


def half_a_question(scene: Scene) -> None:
    open_question(scene)
    (scene.run / "question.json").write_text("{}")
    age(scene.run)


def written_to(scene: Scene) -> None:
    scene.purge()
    (scene.RUN / "report.parquet.123.tmp").write_text("")


def written_to_below(scene: Scene) -> None:
    scene.purge()
    [plan] = scene.run.glob("*/plan-*/plan.json")
    os.utime(plan)


def alone(scene: Scene) -> None:
    scene.purge()
    shutil.rmtree(scene.newer)


def alone_on_its_volume(scene: Scene) -> None:
    scene.purge()
    said = json.loads((scene.newer / "report.json").read_text())
    (scene.newer / "report.json").write_text(json.dumps(said | {"volumes": ["/another"]}))


def deeper_than_the_newer_one(scene: Scene) -> None:
    scene.purge()
    path = scene.newer / "overview.json"
    told = json.loads(path.read_text())
    told["volumes"] = [one | {"depth": "tail"} for one in told["volumes"]]
    path.write_text(json.dumps(told))


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (deeper_than_the_newer_one, "newest"),
        (interrupted, "interrupted"),
        (not_proved, "not proved"),
        (named_in_the_ledger, "ledger"),
        (known_to_the_ledger, "ledger"),
        (in_a_ledger_elsewhere, "ledger"),
        (without_its_ledger, "ledger"),
        (certified, "proof"),
        (recorded_reservation, "reserved"),
        (unclear_reservation, "unreadable"),
        (open_question, "question"),
        (half_a_question, "unreadable"),
        (written_to, "recent"),
        (written_to_below, "recent"),
        (alone, "newest"),
        (alone_on_its_volume, "newest"),
    ],
)
def test_it_is_needed(scene: Scene, make: Callable[[Scene], None], why: str) -> None:
    make(scene)
    kept = scene()
    assert kept is not None
    assert kept.why == why


@pytest.mark.parametrize("name", ["report.json", "overview.json", "question.json"])
def test_a_pipe_stops_nobody(scene: Scene, name: str) -> None:
    """Who opens a pipe waits for its other end: one in an old folder must not stop all cleaning."""
    scene.purge()
    for one in ("overview.json", "approval.json", name):
        (scene.run / one).unlink(missing_ok=True)
    os.mkfifo(scene.run / name)
    age(scene.run)
    found = run_folder(scene.run, scene.root)
    if isinstance(found, RunFolder):
        kept = scene()
        assert (kept.why if kept else "") == ("unreadable" if name == "question.json" else "")
    else:
        assert found.what == "report.json is no file"


def test_a_tree_too_deep_to_be_deleted_is_kept(scene: Scene) -> None:
    scene.purge()
    deep = scene.run / "/".join("d" * 900)
    deep.mkdir(parents=True)
    with pytest.raises(KafkatsError, match="nested more than 100 folders deep"):
        scene()
    for above in (deep, *deep.parents):
        if above == scene.run:
            break
        above.rmdir()


def test_a_question_that_ended_needs_nothing(scene: Scene) -> None:
    open_question(scene)
    (scene.run / "question.json").write_text('{"until_ms": 1}')
    age(scene.run)
    assert scene() is None


def test_a_dag_run_that_is_not_over(scene: Scene) -> None:
    scene.purge()
    asked = []
    kept = scene(active=lambda dag_id, run_id: asked.append((dag_id, run_id)) or True)
    assert kept == ("running", "this DAG run is not over")
    assert asked == [(NEW, json.loads((scene.run / "approval.json").read_text())["run_id"])]


def test_a_reservation_on_the_volume(scene: Scene) -> None:
    scene.purge()
    run_id = json.loads((scene.run / "approval.json").read_text())["run_id"]
    area, until = reservation_area(scene.volume), time.time_ns() // 10**6 + 600_000
    entered = reserve(area, f"airflow {NEW} {run_id}", until, now_ms=until - 600_000)
    try:
        kept = scene()
        assert kept is not None and kept.why == "reserved"
    finally:
        release(entered.area, token=entered.reservation.token)
    assert scene() is None


def write_ledger(path: Path, details: dict[str, Any]) -> None:
    ledger.append(path, "begin", by="a test", now_ms=1_700_000_000_000, details=details)


@pytest.mark.parametrize("content", [b"{}\n", b"not a ledger\n"])
def test_a_ledger_that_cannot_be_read_stops_all(scene: Scene, content: bytes) -> None:
    scene.purge()
    (scene.root / "ledger.jsonl").write_bytes(content)
    with pytest.raises(KafkatsError):
        scene()


@pytest.mark.parametrize("content", ["", "{", "[]", '{"outcome": 3}', "\0"])
def test_a_folder_without_a_report_of_ours(scene: Scene, content: str) -> None:
    (scene.run / "report.json").write_text(content)
    assert isinstance(run_folder(scene.run, scene.root), Kept)


def test_a_run_that_lies_among_the_folders(scene: Scene) -> None:
    """`kafkats apply` of a person: its report is not that of a DAG run."""
    assert isinstance(run_folder(scene.RUN, scene.root), Kept)


@pytest.fixture
def cleaned(bag: Any, scene: Scene) -> Callable[..., dict[str, Any]]:
    def run(**params: Any) -> dict[str, Any]:
        conf = {"folder": str(scene.root), "keep_days": 90} | params
        ran = bag.dags[DAG].test(run_conf=conf, logical_date=None)
        found = max((scene.root / DAG).glob("*/report.json"), key=lambda p: p.stat().st_mtime_ns)
        return {"state": str(ran.state)} | json.loads(found.read_text())

    return run


def test_a_dry_run_removes_nothing(scene: Scene, cleaned: Callable[..., Any]) -> None:
    scene.purge()
    said = cleaned()
    assert (said["state"], said["outcome"]) == ("success", "dry run: 1 folder may be removed, " + size_text(said["may_be_removed_bytes"]))  # fmt: skip
    assert said["removed"] == [] and said["removed_bytes"] == 0 and scene.run.exists()
    assert said["may_be_removed"] == [str(scene.run)] and said["may_be_removed_bytes"] > 10_000
    [newer] = [one for one in said["kept_folders"] if one["folder"] == str(scene.newer)]
    assert newer["what"], "each says why exactly"


def test_only_the_old_one_goes(scene: Scene, cleaned: Callable[..., Any]) -> None:
    """The links in FOLDER and in a run lead to what stays."""
    scene.purge()
    outside = scene.root.parent / "outside"
    shutil.copytree(scene.run, outside / NEW / "linked", symlinks=True)
    age(outside)
    (scene.root / "linked-dag").symlink_to(outside / NEW)
    (scene.root / NEW / "linked-run").symlink_to(outside / NEW / "linked")
    (scene.run / "link").symlink_to(outside)
    (scene.root / "lookup" / "table").mkdir(parents=True)
    os.utime(scene.run, (LONG_AGO, LONG_AGO))
    os.utime(scene.run / "link", (LONG_AGO, LONG_AGO), follow_symlinks=False)
    said = cleaned(dry_run=False)
    assert (said["state"], said["outcome"]) == ("success", "1 folder removed, " + size_text(said["removed_bytes"]))  # fmt: skip
    assert said["may_be_removed"] == []
    assert said["removed"] == [str(scene.run)]
    assert said["removed_bytes"] > 10_000
    assert not scene.run.exists()
    assert scene.newer.exists() and (outside / NEW / "linked" / "report.json").exists()
    kept = {name for name in os.listdir(scene.root) if not name.startswith(PREFIX)}
    assert kept == {"lookup", "linked-dag", NEW, DAG}
    assert look(str(scene.root)).is_at(scene.root)
    again = cleaned(dry_run=False)
    assert again["outcome"] == "nothing to remove"
    shutil.rmtree(outside)


def test_what_a_kill_left_is_ended(scene: Scene, cleaned: Callable[..., Any]) -> None:
    scene.purge()
    (scene.root / NEW / ".removed-older" / "spark").mkdir(parents=True)
    aside = scene.run.rename(scene.run.with_name(f".removing-{scene.run.name}"))
    said = cleaned(dry_run=False)
    assert said["remarks"] == [f"{scene.run} has its name back"]
    assert not aside.exists() and scene.run.exists(), "it was not chosen in this run"
    assert sorted(os.listdir(scene.root / NEW)) == sorted([scene.run.name, "newer"])


def test_why_each_is_kept_is_said(scene: Scene, cleaned: Callable[..., Any]) -> None:
    said = cleaned()
    kept = {one["folder"]: (one["why"], one["what"]) for one in said["kept_folders"]}
    assert kept[str(scene.run)][0] == "undo"
    assert kept[str(scene.newer)][0] == "newest"
    assert said["kept"] == {"newest": 1, "undo": 1}


def test_a_purge_by_the_command_frees_it(scene: Scene) -> None:
    result = CliRunner().invoke(cli, ["purge", str(scene.RUN)], input="y\n")
    assert result.exit_code == 0, result.output
    age(scene.run)
    assert scene() is None
