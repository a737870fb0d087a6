"""The sizes of file systems beside a plan's report."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner

from kafkats.cli import cli
from kafkats.plans.disks import NAME, read_disks, room_of
from kafkats.plans.plan import read_plan
from tests.golden import Unpacked


def test_a_plan_with_a_report_keeps_them(golden: Unpacked, tmp_path: Path) -> None:
    root, report = golden("matrix-4.3.1-v2", "data"), tmp_path / "report"
    words = ["plan", "rebuild", str(root), "-o", str(tmp_path / "plan"), "--report", str(report)]
    assert CliRunner().invoke(cli, words).exit_code == 0
    [(log_dir, disk)] = read_disks(report).items()
    assert log_dir == str(root)
    assert disk.bytes == shutil.disk_usage(root).total
    assert 0 < disk.free_bytes < disk.bytes


@pytest.mark.parametrize(
    "content",
    ["", "[]", '{"/a": 7}', '{"/a": {"bytes": 5}}', '{"/a": {"bytes": 5, "free_bytes": 6}}'],
)
def test_a_file_that_is_none_tells_nothing(tmp_path: Path, content: str) -> None:
    (tmp_path / NAME).write_text(content)
    assert read_disks(tmp_path) == {}
    (tmp_path / NAME).write_text(json.dumps({"/a": {"bytes": 5, "free_bytes": 4}}))
    assert read_disks(tmp_path)["/a"] == (5, 4)
    (tmp_path / NAME).unlink()
    assert read_disks(tmp_path) == {}


def test_the_space_counts_the_tails_that_are_copied_but_no_zeros(
    golden: Unpacked, tmp_path: Path
) -> None:
    root = tmp_path / "killed"
    shutil.copytree(golden("crash-4.3.1", "before"), root)
    (root / ".kafka_cleanshutdown").unlink(missing_ok=True)
    words = ["plan", "recover", str(root), "-o", str(tmp_path / "plan"), "--go-on"]
    assert CliRunner().invoke(cli, words).exit_code == 0
    plan = read_plan(tmp_path / "plan")
    [room] = room_of(plan)
    totals = plan.header["totals"]
    assert totals["cut_bytes"] > 0 and totals["zero_bytes"] > 0
    assert room.needed_bytes == totals["write_bytes"]
