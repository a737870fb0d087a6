"""A plan with blocked rows ends with 1, whatever operation makes it; what is not blocked is planned and applied."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from kafkats.cli import main
from kafkats.errors import ReadOnly
from kafkats.logdir.partition import PartitionDir, scan_at_rest
from kafkats.plans import units
from kafkats.recovery import start
from tests.golden import Unpacked

TORN, LOST, WELL = "gzip-ct-0", "zstd-ct-0", "none-ct-0"
"""Partitions: a corrupt first log without its index; the last segment is gone; nothing is wrong but an index."""
WRITTEN = "2026-11-21T06:00:00Z"
"""Soon after the broker wrote them: later nothing but blocked rows would be due."""
PLANS: dict[str, tuple[str, ...]] = {
    "rebuild": (),
    "migrate": ("--to-magic", "2", "--compression-type", "lz4"),
    "retain": (),
    "roll": ("--config", "segment.ms=1"),
    "split": ("--where", "rolled", "--segment-bytes", "1000"),
}


def said(
    capsys: pytest.CaptureFixture[str], *words: object
) -> tuple[int, list[dict[str, Any]], str]:
    """Exit code, JSON lines, standard error."""
    capsys.readouterr()
    with pytest.raises(SystemExit) as end:
        main([str(word) for word in words])
    out, err = capsys.readouterr()
    assert isinstance(end.value.code, int)
    return (
        end.value.code,
        [json.loads(line) for line in out.splitlines() if line.startswith("{")],
        err,
    )


@pytest.fixture
def root(golden: Unpacked, tmp_path: Path) -> Path:
    root = tmp_path / "data"
    shutil.copytree(golden("matrix-4.3.1-v2", "data"), root)
    (root / WELL / f"{0:020d}.timeindex").unlink()
    return root


@pytest.fixture
def policy(tmp_path: Path) -> Path:
    file = tmp_path / "policy.yaml"
    file.write_text('topics:\n  "*": {cleanup.policy: delete, retention.ms: 1}\n')
    return file


def damage(root: Path) -> None:
    log = root / TORN / f"{0:020d}.log"
    content = bytearray(log.read_bytes())
    content[100] ^= 1
    log.write_bytes(content)
    (root / TORN / f"{0:020d}.timeindex").unlink()
    last = sorted((root / LOST).glob("*.log"))[-1].stem
    for path in (root / LOST).glob(f"{last}.*"):
        path.unlink()


@pytest.mark.slow(1)
@pytest.mark.parametrize("operation", PLANS)
def test_it_ends_with_1_and_the_rest_goes_on(
    operation: str, root: Path, policy: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plan = tmp_path / "plan"
    words = ("plan", operation, root, "-o", plan, *PLANS[operation], "--policy", policy)
    code, rows, err = said(capsys, *words, "--json")
    assert (code, rows[-1]["summary"]["blocked"]) == (0, 0), err
    assert said(capsys, "show", plan, "--json")[0] == 0
    damage(root)
    code, rows, err = said(capsys, *words, "--json")
    made = rows.pop()["summary"]
    blocked = {row["partition_dir"] for row in rows if row["action"] == "blocked"}
    assert LOST in blocked and WELL not in blocked, err
    assert (code, made["blocked"] >= len(blocked), made["files"] > 0) == (1, True, True)
    assert said(capsys, "show", plan, "--json")[0] == 1
    code, rows, err = said(capsys, "apply", plan, "--digest", made["digest"], "--json")
    assert code == 0, err
    assert {row["outcome"] for row in rows if "outcome" in row} == {"done"}
    assert not blocked & {row["partition_dir"] for row in rows if "partition_dir" in row}


def test_a_plan_of_nothing_but_blocked_rows(
    root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plan = tmp_path / "plan"
    damage(root)
    words = ("--to-magic", 2, "--compression-type", "lz4", "--topics", "zstd-ct", "--json")
    code, rows, _ = said(capsys, "plan", "migrate", root, "-o", plan, *words)
    made = rows[-1]["summary"]
    assert (code, made["files"], made["blocked"] > 0) == (1, 0, True)
    assert said(capsys, "show", plan)[0] == 1
    assert said(capsys, "apply", plan, "--digest", made["digest"], "--json")[0] == 0
    with pytest.raises(SystemExit):
        main(["apply", str(plan), "--digest", made["digest"]])
    assert "blocked rows, left alone: 1" in capsys.readouterr().out


@pytest.mark.slow(1)
@pytest.mark.examples(3)
@pytest.mark.parametrize("operation", ["rebuild", "migrate", "split"])
@pytest.mark.parametrize("kind", ["fifo", "directory"])
def test_an_index_that_cannot_be_read(
    kind: str, operation: str, root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    index = root / WELL / f"{43:020d}.index"
    index.unlink()
    os.mkfifo(index) if kind == "fifo" else index.mkdir()
    plan = tmp_path / "plan"
    code, rows, err = said(capsys, "plan", operation, root, "-o", plan, *PLANS[operation], "--json")
    made = rows.pop()["summary"]
    [blocked] = [row for row in rows if row["action"] == "blocked"]
    assert blocked["partition_dir"] == WELL and blocked["file"].startswith(index.stem), err
    assert "not a regular file" in blocked["reason"] or "irectory" in blocked["reason"]
    assert (code, made["blocked"], made["files"] > 0) == (1, 1, True)
    assert said(capsys, "apply", plan, "--digest", made["digest"], "--json")[0] == 0


@pytest.fixture
def unlisted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fail the listing of WELL. As root there is no permission that could be missing."""

    def listed(directory: Path, *, live: bool) -> PartitionDir:
        if directory.name == WELL:
            raise ReadOnly("listing the partition directory: Permission denied", path=directory)
        return scan_at_rest(directory, live=live)

    for module in (units, start):
        monkeypatch.setattr(module, "scan_at_rest", listed)


@pytest.mark.usefixtures("unlisted")
@pytest.mark.parametrize("operation", ["recover", "rebuild", "retain", "roll"])
def test_a_partition_that_cannot_be_listed_is_a_blocked_row(
    root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], operation: str
) -> None:
    (root / ".kafka_cleanshutdown").unlink(missing_ok=True)
    now = () if operation in ("recover", "rebuild") else ("--now", WRITTEN)
    for topics, code in (("none-*", 1), ("none-ct", 1), ("none-lat", 0)):
        words = ("-o", tmp_path / f"plan-{len(topics)}", "--topics", topics, *now, "--json")
        made = said(capsys, "plan", operation, root, *words)
        blocked = [row for row in made[1] if row.get("action") == "blocked"]
        assert (made[0], [row["file"] for row in blocked]) == (code, [WELL] * code), made[2]
        assert all("Permission denied" in row["reason"] for row in blocked)


@pytest.fixture
def linked(root: Path, tmp_path: Path) -> Path:
    """Where the directory of WELL lies; a link leads to it."""
    place = tmp_path / "another disk"
    (root / WELL).rename(place)
    (root / WELL).symlink_to(place)
    return place


@pytest.mark.parametrize("operation", ["recover", "rebuild", "retain", "roll"])
def test_a_linked_partition_directory_is_a_blocked_row(
    root: Path, linked: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], operation: str
) -> None:
    (root / ".kafka_cleanshutdown").unlink(missing_ok=True)
    plan = tmp_path / "plan"
    code, rows, err = said(capsys, "plan", operation, root, "-o", plan, "--json")
    blocked = [row for row in rows if row.get("partition_dir") == WELL]
    assert [(row["action"], row["file"]) for row in blocked] == [("blocked", WELL)], err
    assert code == 1 and "a symbolic link" in blocked[0]["reason"]


@pytest.mark.usefixtures("linked")
def test_a_linked_partition_directory_is_not_lost(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A broker follows the link."""
    _, rows, _ = said(capsys, "verify", root, "--json")
    kinds = [row["kind"] for row in rows if WELL in (row.get("partition_dir"), row.get("file"))]
    assert kinds == ["unreadable"]
    _, rows, _ = said(capsys, "preflight", root, "--kafka", "4.3", "--json")
    (row,) = (row for row in rows if row.get("partition_dir") == WELL)
    assert (row["outcome"], row["log_end_offset"] > 0) == ("loads", True)


def test_apply_writes_nothing_behind_a_link(
    root: Path, linked: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = sorted(path.name for path in linked.iterdir())
    plan = tmp_path / "plan"
    _, rows, err = said(capsys, "plan", "rebuild", root / WELL, "-o", plan, "--json")
    digest = rows[-1]["summary"]["digest"]
    code, rows, err = said(capsys, "apply", plan, "--digest", digest, "--json")
    assert (code, {row["outcome"] for row in rows if "outcome" in row}) == (3, {"refused"}), err
    assert all("a symbolic link" in row["error"] for row in rows if "outcome" in row)
    assert sorted(path.name for path in linked.iterdir()) == before


@pytest.mark.usefixtures("unlisted")
def test_layouts_names_a_partition_that_cannot_be_listed(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, rows, _ = said(capsys, "layouts", root, "--topics", "none-*", "--json")
    unread = [row for row in rows if row.get("reason")]
    assert [(row["partition_dir"], row["segments"]) for row in unread] == [(WELL, 0)]
    assert (code, rows[-1]["summary"]["unreadable"]) == (1, 1)


@pytest.mark.usefixtures("unlisted")
def test_preflight_sets_no_partition_aside_that_it_could_not_list(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It names no topic id, but a broker goes offline before it looks for one."""
    code, rows, _ = said(capsys, "preflight", root, "--kafka", "4.3", "--json")
    (row,) = (row for row in rows if row.get("partition_dir") == WELL)
    assert (code, row["outcome"], row["set_aside"]) == (1, "offline", "")
