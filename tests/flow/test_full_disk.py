"""A full disk: the error says what is free, which purge frees more, and that the work goes on."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Generator
from pathlib import Path

import pytest

from kafkats.flow.full_disk import finished_runs
from tests.builders.commands import run
from tests.crash.commands import small_disk
from tests.golden import case

INDEX = "none-ct-0/00000000000000000043.timeindex"
OTHER = "none-ct-0/00000000000000000000.timeindex"

mounts = pytest.mark.root("mounts a file system")


@pytest.fixture
def disk(tmp_path: Path) -> Generator[Path]:
    with small_disk(tmp_path / "disk", "4m") as disk:
        root = disk / "data"
        root.mkdir()
        case("matrix-4.3.1-v2").unpack("data", root)
        yield disk


def filled(disk: Path) -> Path:
    """Leave no byte free, but inodes."""
    filler = disk / "filler"
    with filler.open("wb", buffering=0) as file:
        for size in (1 << 16, 1 << 12, 1):
            try:
                while file.write(b"x" * size):
                    pass
            except OSError:
                pass
    return filler


@mounts
def test_the_error_names_what_frees_space_and_the_same_command_finishes(
    disk: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    root = disk / "data"
    for name in (INDEX, OTHER):
        (root / name).write_bytes(b"x" * 24)
    first, second = tmp_path / "first", tmp_path / "second"
    assert run(capsys, "plan", "rebuild", root / "none-ct-0", "-o", first)[0] == 0
    assert run(capsys, "apply", first, "--digest", "any")[0] == 0
    [kept] = finished_runs(disk, [root], None)
    assert kept.run_id.startswith("rebuild-") and kept.bytes == 2 * 4096
    (root / INDEX).unlink()
    assert run(capsys, "plan", "rebuild", root, "-o", second)[0] == 0
    filler = filled(disk)

    code, _, err = run(capsys, "verify", root, "-o", disk / "report")
    said = f"0 B free on its disk, and 8.0 KiB more after kafkats purge RUN of 1 finished run ({kept.run_id})"
    assert (code, said in err, "the same command finishes the work" in err) == (2, True, True)
    assert "trying again may help" not in err

    code, _, err = run(capsys, "apply", second, "--digest", "any")
    assert (code, said in err) == (2, True)
    assert not (root / INDEX).exists()

    freed = run(capsys, "purge", first.with_name("first.run"))
    assert (freed[0], "8.0 KiB freed" in freed[1]) == (0, True)
    assert finished_runs(disk, [root], None) == []
    filler.unlink()
    code, out, _ = run(capsys, "apply", second, "--digest", "any")
    assert (code, "proved: 1 of 1 file as planned" in out) == (0, True)


@mounts
def test_a_disk_without_finished_runs_is_told_by_what_is_free(
    disk: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    filled(disk)
    code, _, err = run(capsys, "plan", "rebuild", disk / "data", "-o", disk / "plan")
    assert (code, "0 B free on its disk. Every file is whole" in err) == (2, True)
    assert "purge" not in err


def test_an_apply_says_it_once_for_all_partitions_without_room(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    root = tmp_path / "disk" / "data"
    root.mkdir(parents=True)
    case("matrix-4.3.1-v2").unpack("data", root)
    words = ("--to-magic", 1, "--accept-loss", "all", "--topics", "none-ct,gzip-ct")
    assert run(capsys, "plan", "migrate", root, *words, "-o", tmp_path / "plan")[0] == 0
    usage = shutil.disk_usage(root)._replace(free=0)
    with monkeypatch.context() as patched:
        patched.setattr(shutil, "disk_usage", lambda _: usage)
        code, out, _ = run(capsys, "apply", tmp_path / "plan", "--digest", "any")
    assert (code, out.count("nothing was begun") > 1) == (2, True)
    assert out.count(f"{root}: 0 B free on its disk. Every file is whole") == 1
    assert run(capsys, "apply", tmp_path / "plan", "--digest", "any")[0] == 0


@mounts
def test_a_read_only_disk_is_no_question_of_rights(
    disk: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    root, plan = disk / "data", tmp_path / "plan"
    (root / INDEX).write_bytes(b"x" * 24)
    assert run(capsys, "plan", "rebuild", root, "-o", plan)[0] == 0
    subprocess.run(["mount", "-o", "remount,ro", disk], check=True)
    for words in (
        ("apply", plan, "--digest", "any"),
        ("plan", "rebuild", root, "-o", tmp_path / "second"),
    ):
        code, _, err = run(capsys, *words)
        assert (code, "file system is read-only" in err, "see dmesg" in err) == (2, True, True)
        assert "a broker takes this log directory offline" in err
    code, out, _ = run(capsys, "preflight", root, "--kafka", "4.3")
    said = " ".join(out.split())
    assert (code, "will not start" in said, "file system is read-only" in said) == (1, True, True)
    assert "next: mend what stops the broker" in out
