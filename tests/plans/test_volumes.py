"""A plan and its run belong to the volumes that the planner saw: elsewhere nothing is read, locked or written."""

from __future__ import annotations

import json
import os
import re
import shutil
from pathlib import Path

import pytest

from kafkats.errors import CorruptPlan
from kafkats.logdir.volume import Volume
from kafkats.plans.volumes import VOLUMES, read_volumes, write_volumes
from tests.builders.commands import run
from tests.builders.partitions import batch

META = "version=1\nnode.id=1\ncluster.id=c\ndirectory.id=d\n"
MINE = Volume("c", 1, "d")


@pytest.fixture
def log_dir(tmp_path: Path) -> Path:
    """A log directory whose partition lacks its indexes, in a folder of its own."""
    root = tmp_path / "disk" / "data"
    (root / "t-0").mkdir(parents=True)
    (root / "t-0" / "00000000000000000000.log").write_bytes(batch(0, 1000, 2000, 3000))
    (root / "meta.properties").write_text(META)
    (root / ".kafka_cleanshutdown").touch()
    return root


@pytest.fixture
def plan(log_dir: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Path:
    assert run(capsys, "plan", "rebuild", log_dir, "-o", tmp_path / "p")[0] == 0
    return tmp_path / "p"


def everything(log_dir: Path) -> list[str]:
    """All names on the disk of a log directory, with the work area beside it."""
    disk = log_dir.parent
    return sorted(str(path.relative_to(disk)) for path in disk.rglob("*"))


def replace(log_dir: Path, by: str) -> None:
    """Put something else where the log directory was."""
    log_dir.rename(log_dir.parent.parent / "away")
    if by == "missing":
        return
    if by == "empty":
        log_dir.mkdir()
        return
    shutil.copytree(log_dir.parent.parent / "away", log_dir)
    (log_dir / ".lock").unlink(missing_ok=True)
    (log_dir / "meta.properties").write_text(META.replace("node.id=1", "node.id=2"))


OTHERS = {
    "missing": "is empty or missing on host",
    "empty": "is empty or missing on host .* is its disk mounted",
    "another": r"is another volume on host .*node 2.*listed was cluster c, node 1, directory d",
}


def refused(log_dir: Path, why: str, found: tuple[int, str, str]) -> None:
    code, out, err = found
    assert code == 3, out + err
    assert re.search(rf"{log_dir}: {why}", out + err)


@pytest.mark.parametrize("other", OTHERS)
def test_apply_leaves_nothing_on_another_volume(
    other: str, plan: Path, log_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    replace(log_dir, other)
    before = everything(log_dir)
    refused(log_dir, OTHERS[other], run(capsys, "apply", plan, "--digest", "any"))
    assert everything(log_dir) == before
    assert not (plan.parent / "p.run").exists(), "no run has begun"


@pytest.mark.parametrize("other", OTHERS)
@pytest.mark.parametrize("verb", ["undo", "purge", "verify"])
def test_a_run_is_ended_and_proved_on_its_volume_only(
    verb: str, other: str, plan: Path, log_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(capsys, "apply", plan, "--digest", "any")[0] == 0
    ran = plan.with_name("p.run")
    replace(log_dir, other)
    before = everything(log_dir)
    words = ("verify", log_dir, "--of-run", ran) if verb == "verify" else (verb, ran)
    refused(log_dir, OTHERS[other], run(capsys, *words))
    assert everything(log_dir) == before
    shutil.rmtree(log_dir, ignore_errors=True)
    (log_dir.parent.parent / "away").rename(log_dir)
    assert run(capsys, *words)[0] == 0, "it is mounted again"


def test_other_volumes_of_a_run_are_undone(
    tmp_path: Path, log_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    second = tmp_path / "second" / "data"
    shutil.copytree(log_dir, second)
    (second / "meta.properties").write_text(META.replace("=d", "=e"))
    assert run(capsys, "plan", "rebuild", log_dir, second, "-o", tmp_path / "p")[0] == 0
    assert run(capsys, "apply", tmp_path / "p", "--digest", "any")[0] == 0
    replace(log_dir, "empty")
    code, out, _ = run(capsys, "undo", tmp_path / "p.run")
    assert code == 3 and "undone" in out
    assert not list((second / "t-0").glob("*index")), "undone where the volume is the run's"


def test_an_id_that_appears_and_one_that_is_lost_refuse_nothing(
    plan: Path, log_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_volumes(plan, {str(log_dir): MINE._replace(directory_id=None)})
    assert run(capsys, "apply", plan, "--digest", "any")[0] == 0
    (log_dir / "meta.properties").unlink()
    code, out, err = run(capsys, "undo", plan.with_name("p.run"))
    assert code == 0
    assert f"{log_dir}: has no readable meta.properties, and goes by its path" in out + err


def test_a_plan_without_identities_still_refuses_an_empty_directory(
    plan: Path, log_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (plan / VOLUMES).unlink()
    replace(log_dir, "empty")
    refused(log_dir, OTHERS["empty"], run(capsys, "apply", plan, "--digest", "any"))


@pytest.mark.parametrize(
    "value", [3, {}, {"cluster_id": 1, "node_id": 1, "directory_id": None}, {"x": 1}]
)
def test_a_file_that_was_edited(value: object, tmp_path: Path) -> None:
    (tmp_path / VOLUMES).write_text(json.dumps({"/data": value}))
    with pytest.raises(CorruptPlan):
        read_volumes(tmp_path)


def test_what_is_written_is_read(tmp_path: Path) -> None:
    write_volumes(tmp_path, {})
    assert os.listdir(tmp_path) == [] and read_volumes(tmp_path) == {}
    volumes = {"/data": MINE, "/more": Volume(None, None, None)}
    write_volumes(tmp_path, volumes)
    assert read_volumes(tmp_path) == volumes
    write_volumes(tmp_path, {})
    assert read_volumes(tmp_path) == {}, "a plan that is written again has its own volumes"
