"""What all commands do with the log directories that they are given."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from kafkats.cli.options import units_of
from kafkats.cli.session import Session
from kafkats.config.policy import Policy
from kafkats.config.reading import read_policy
from kafkats.execution.local import LocalExecutor
from tests.builders.commands import run
from tests.builders.partitions import batch

META = "version=1\nnode.id=1\ncluster.id=c\ndirectory.id=d\n"


@pytest.fixture
def log_dir(tmp_path: Path) -> Path:
    root = tmp_path / "data"
    (root / "t-0").mkdir(parents=True)
    (root / "t-0" / "00000000000000000000.log").write_bytes(batch(0, 1000))
    (root / "meta.properties").write_text(META)
    (root / ".kafka_cleanshutdown").touch()
    return root


COMMANDS = (
    "verify", "inventory", "census", "certify --max-magic 2", "plan rebuild -o PLAN",
    "lookup --at 0", "export --at 0 --to json", "simulate roll",
)  # fmt: skip


@pytest.mark.parametrize("command", COMMANDS)
def test_a_copy_beside_its_original_is_refused(
    command: str, log_dir: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(log_dir, copy)
    words = command.replace("PLAN", str(tmp_path / "p")).split()
    code, out, err = run(capsys, *words, log_dir, copy)
    assert code == 3 and f"{log_dir}: is the same volume as {copy}, or one is a copy" in out + err
    assert not (tmp_path / "p").exists()


def test_copies_that_the_policy_names_are_looked_at(
    log_dir: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(log_dir, copy)
    policy = tmp_path / "policy.yaml"
    names = f"volumes: [{{path: {log_dir}, name: a}}, {{path: {copy}, name: b}}]"
    policy.write_text(names)
    code, out, _ = run(capsys, "verify", "--policy", policy, log_dir, copy)
    assert code == 1 and "2 segments in 2 partitions" in out
    code, _, _ = run(
        capsys, "plan", "rebuild", "-o", tmp_path / "p", "--policy", policy, log_dir, copy
    )
    assert code == 0
    assert run(capsys, "apply", tmp_path / "p", "--digest", "any")[0] == 0, "and is proved"
    policy.write_text(names.replace(", name: b", ""))
    assert run(capsys, "verify", "--policy", policy, log_dir, copy)[0] == 3


def test_an_empty_directory_may_be_a_missing_mount(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for words in (*(command.split() for command in COMMANDS), ["plan", "recover", "-o", "PLAN"]):
        code, out, err = run(
            capsys, *(w.replace("PLAN", str(tmp_path / "p")) for w in words), tmp_path
        )
        assert code == 2 and f"{tmp_path}: is an empty directory" in out + err
        assert "is its disk mounted?" in out + err


def test_a_job_says_which_log_directories_go_by_their_paths(
    log_dir: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    monkeypatch.setattr("kafkats.cli.options.session", lambda: Session(LocalExecutor(1)))
    assert (
        len(units_of([log_dir], "*", Policy.model_construct())) == 2
        and capsys.readouterr().err == ""
    )
    (log_dir / "meta.properties").write_text("what")
    units_of([log_dir], "*", Policy.model_construct())
    by_path = f"{log_dir}: has no readable meta.properties, and goes by its path\n"
    assert capsys.readouterr().err == by_path
    (tmp_path / "policy").write_text(f"volumes: [{{path: {log_dir}, broker: 7}}]")
    units_of([log_dir], "*", read_policy(tmp_path / "policy"))
    assert "goes by broker 7 of the policy and its path" in capsys.readouterr().err
