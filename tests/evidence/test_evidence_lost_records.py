"""Records taken out of cleanly stopped real directories: verify says which offsets are missing and which file says so, plans stay away."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from kafkats import paths
from kafkats.cli import main
from kafkats.inspect.inventory import inventory_units
from kafkats.logdir.checkpoints import encode_offsets, read_offsets
from kafkats.paths import PartitionName
from kafkats.plans.units import list_units
from kafkats.segment.headers import batch_headers
from kafkats.segment.reader import open_source
from tests.golden import Unpacked

CASES = ("rolling-2.8.2", "rolling-4.3.1", "rolling-1.1.1")
PARTITION = "by-bytes-0"
NAME = PartitionName("by-bytes", 0, "")
END = 120
RECOVERY, WATERMARK, START = paths.RECOVERY_POINT, paths.HIGH_WATERMARK, paths.LOG_START


def bases(root: Path) -> list[int]:
    return sorted(int(log.stem) for log in (root / PARTITION).glob("*.log"))


def family(root: Path, base: int) -> list[Path]:
    return list((root / PARTITION).glob(f"{base:020d}.*"))


def rewrite(root: Path, name: str, **offsets: int) -> None:
    """Set the partition's offset in a checkpoint, or take it out with -1."""
    known = read_offsets(root / name) if (root / name).exists() else {}
    known[NAME] = offsets["to"]
    (root / name).write_bytes(encode_offsets({k: v for k, v in known.items() if v >= 0}))


def active_family(root: Path) -> tuple[int, int]:
    last = bases(root)[-1]
    for path in family(root, last):
        path.unlink()
    return last, END


def every_file_emptied(root: Path) -> tuple[int, int]:
    for base in bases(root)[1:]:
        for path in family(root, base):
            path.unlink()
    for path in family(root, 0):
        path.write_bytes(b"")
    return 0, END


def no_file_left(root: Path) -> tuple[int, int]:
    for path in (root / PARTITION).iterdir():
        path.unlink()
    return 0, END


def logs_gone(root: Path) -> tuple[int, int]:
    for path in (root / PARTITION).glob("*.log"):
        path.unlink()
    return 0, END


def first_family(root: Path) -> tuple[int, int]:
    second = bases(root)[1]
    for path in family(root, 0):
        path.unlink()
    return 0, second


def middle_family(root: Path) -> tuple[int, int]:
    _, second, third, *_ = bases(root)
    for path in family(root, second):
        path.unlink()
    return second, third


def a_middle_log_emptied(root: Path) -> tuple[int, int]:
    _, second, third, *_ = bases(root)
    (root / PARTITION / paths.segment_file(second, paths.LOG)).write_bytes(b"")
    return second, third


def last_batches(log: Path, keep: int) -> int:
    """Cut at a border, keeping `keep` batches; returns the new log end."""
    from kafkats.kernels import headers_state as k

    with open_source(log) as source:
        rows = [row for chunk in batch_headers(source) for row in chunk.tolist()]
    assert len(rows) > keep + 1
    with log.open("r+b") as file:
        file.truncate(rows[keep][k.AT])
    return int(rows[keep][k.FIRST_OFFSET])


def cut_at_a_border(root: Path) -> tuple[int, int]:
    return last_batches(root / PARTITION / paths.segment_file(bases(root)[-1], paths.LOG), 3), END


def a_middle_log_cut(root: Path) -> tuple[int, int]:
    _, second, third, *_ = bases(root)
    return last_batches(root / PARTITION / paths.segment_file(second, paths.LOG), 3), third


def high_watermark_above(root: Path) -> tuple[int, int]:
    rewrite(root, WATERMARK, to=END + 7)
    return END, END + 7


def only_high_watermark_tells(root: Path) -> tuple[int, int]:
    found = active_family(root)
    rewrite(root, RECOVERY, to=-1)
    no_snapshots_above(root, found[0])
    return found


def only_a_snapshot_tells(root: Path) -> tuple[int, int]:
    found = active_family(root)
    rewrite(root, RECOVERY, to=-1)
    rewrite(root, WATERMARK, to=-1)
    return found


def no_snapshots_above(root: Path, offset: int) -> None:
    for path in (root / PARTITION).glob("*.snapshot"):
        if int(path.stem) > offset:
            path.unlink()


def only_an_index_tells(root: Path) -> tuple[int, int]:
    begin, _ = cut_at_a_border(root)
    rewrite(root, RECOVERY, to=-1)
    rewrite(root, WATERMARK, to=-1)
    no_snapshots_above(root, bases(root)[-1])
    return begin, END


def only_epochs_tell(root: Path) -> tuple[int, int]:
    begin, _ = only_an_index_tells(root)
    for path in family(root, bases(root)[-1]):
        if path.suffix != ".log":
            path.write_bytes(b"")
    (root / PARTITION / paths.LEADER_EPOCH).write_text("0\n2\n0 0\n5 118\n")
    return begin, 118


def log_start_above(root: Path) -> tuple[int, int]:
    rewrite(root, START, to=END + 9)
    return END, END + 9


LOSSES: dict[str, tuple[Callable[[Path], tuple[int, int]], tuple[str, ...]]] = {
    "the active segment's family": (active_family, (RECOVERY, WATERMARK, f"{END:020d}.snapshot")),
    "every file emptied": (every_file_emptied, (RECOVERY, WATERMARK)),
    "no file left": (no_file_left, (RECOVERY, WATERMARK)),
    "the logs": (logs_gone, (RECOVERY, WATERMARK, f"{END:020d}.snapshot")),
    "the first segment's family": (first_family, (paths.LEADER_EPOCH,)),
    "a middle segment's family": (middle_family, ("the segment ends at",)),
    "a middle log emptied": (a_middle_log_emptied, ("the segment ends at",)),
    "a middle log cut at a border": (a_middle_log_cut, ("the segment ends at",)),
    "cut at a batch border": (cut_at_a_border, (RECOVERY, WATERMARK, ".timeindex", ".index")),
    "high watermark above the end": (high_watermark_above, (WATERMARK,)),
    "only the high watermark tells": (only_high_watermark_tells, (WATERMARK,)),
    "only a snapshot tells": (only_a_snapshot_tells, (f"{END:020d}.snapshot",)),
    "only an index tells": (only_an_index_tells, (".timeindex",)),
    "only epochs tell": (only_epochs_tell, (paths.LEADER_EPOCH,)),
    "log start above the end": (log_start_above, (START,)),
}


class Said(NamedTuple):
    code: int
    rows: list[dict[str, Any]]
    text: str


@pytest.fixture
def kafkats(capsys: pytest.CaptureFixture[str]) -> Callable[..., Said]:
    def run(*words: object, as_json: bool = True) -> Said:
        with pytest.raises(SystemExit) as end:
            main([*map(str, words), *(["--json"] if as_json else [])])
        out, err = capsys.readouterr()
        rows = [json.loads(line) for line in out.splitlines()] if as_json else []
        return Said(
            int(end.value.code or 0), [row for row in rows if "summary" not in row], out + err
        )

    return run


@pytest.fixture(params=CASES)
def root(request: pytest.FixtureRequest, golden: Unpacked, tmp_path: Path) -> Path:
    copy = tmp_path / "data"
    shutil.copytree(golden(request.param, "data"), copy)
    assert (copy / paths.CLEAN_SHUTDOWN).exists() and read_offsets(copy / RECOVERY)[NAME] == END
    return copy


def missing(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [row for row in rows if row.get("kind") == "missing-records"]


@pytest.mark.examples(5)
@pytest.mark.parametrize("what", LOSSES)
def test_what_is_missing_is_told(kafkats: Callable[..., Said], root: Path, what: str) -> None:
    take, files = LOSSES[what]
    assert missing(kafkats("verify", "--deep", root).rows) == []
    begin, end = take(root)
    said = kafkats("verify", root)
    assert said.code == 1
    (found,) = missing(said.rows)
    assert (found["severity"], found["partition_dir"]) == ("danger", PARTITION)
    assert found["reason"].startswith(f"offsets {begin} to {end - 1} are missing: ")
    assert all(file in found["reason"] for file in files), found["reason"]
    assert missing(kafkats("verify", "--deep", root).rows) == [found]
    (tail,) = missing([
        f for row in inventory_units(list_units([root])).to_pylist() for f in row["findings"]
    ])
    assert tail["reason"] == found["reason"]


@pytest.mark.examples(9)
@pytest.mark.parametrize("what", LOSSES)
def test_no_advice_that_takes_the_evidence_away(
    kafkats: Callable[..., Said], root: Path, what: str
) -> None:
    LOSSES[what][0](root)
    text = kafkats("verify", root, as_json=False).text
    assert "kafkats plan rebuild" not in text
    assert "records are missing in 1 partition" in text


PLANS: dict[str, tuple[object, ...]] = {
    "rebuild": ("--all",),
    "migrate": ("--to-magic", 2, "--compression-type", "gzip"),
    "retain": ("--config", "retention.ms=1", "--config", "cleanup.policy=delete"),
    "roll": ("--config", "segment.ms=1"),
    "split": ("--where", "rolled", "--segment-bytes", 500),
}


@pytest.mark.examples(6)
@pytest.mark.parametrize(
    "what", ["the active segment's family", "cut at a batch border", "no file left"]
)
@pytest.mark.parametrize("operation", PLANS)
def test_plans_leave_it_alone(
    kafkats: Callable[..., Said], root: Path, tmp_path: Path, operation: str, what: str
) -> None:
    healthy = kafkats("plan", operation, root, *PLANS[operation], "-o", tmp_path / "healthy")
    others = {row["partition_dir"] for row in healthy.rows if row["action"] != "blocked"} - {
        PARTITION,
        "",
        ".",
    }
    assert healthy.code == 0
    LOSSES[what][0](root)
    plan = kafkats("plan", operation, root, *PLANS[operation], "-o", tmp_path / "plan")
    about = [row for row in plan.rows if row["partition_dir"] == PARTITION]
    assert plan.code == 1
    assert about and {row["action"] for row in about} == {"blocked"}
    assert all(row["reason"].startswith("records are missing: offset") for row in about)
    assert {row["partition_dir"] for row in plan.rows if row["action"] != "blocked"} >= others, (
        "the others go on"
    )
    accepted = kafkats(
        "plan",
        operation,
        root,
        *PLANS[operation],
        "--accept-loss",
        "offsets",
        "-o",
        tmp_path / "given",
    )
    blocked = [row for row in accepted.rows if row["action"] == "blocked"]
    assert accepted.code == int(bool(blocked))  # roll: the index names offsets that the log lost
    assert not any(row["reason"].startswith("records are missing") for row in blocked)
    if operation in ("migrate", "split") and what != "no file left":
        assert any(
            row["partition_dir"] == PARTITION and row["action"] != "blocked"
            for row in accepted.rows
        )


def test_another_word_than_offsets_is_refused(
    kafkats: Callable[..., Said], root: Path, tmp_path: Path
) -> None:
    for operation in ("rebuild", "retain", "roll", "split"):
        words = (
            "plan",
            operation,
            root,
            *PLANS[operation],
            "--accept-loss",
            "headers",
            "-o",
            tmp_path / "plan",
        )
        said = kafkats(*words)
        assert said.code == 2 and "headers" in said.text


@pytest.mark.parametrize("without", [(), (WATERMARK,), (RECOVERY,)])
def test_a_directory_that_checkpoints_name(
    kafkats: Callable[..., Said], root: Path, without: tuple[str, ...]
) -> None:
    shutil.rmtree(root / PARTITION)
    for name in without:
        (root / name).unlink()
    said = kafkats("verify", root)
    (found,) = [row for row in said.rows if row["severity"] == "danger"]
    assert said.code == 1
    assert (found["kind"], found["file"], found["expected"]) == (
        "missing-partition",
        PARTITION,
        str(END),
    )
    assert all(name in found["reason"] for name in {RECOVERY, WATERMARK} - {*without})
    elsewhere = kafkats("verify", root, "--topics", "by-ms")
    assert elsewhere.code == 0, "of other topics nothing is asked"


def test_every_directory_gone(kafkats: Callable[..., Said], root: Path) -> None:
    for path in root.iterdir():
        if path.is_dir() and path.name != paths.CLUSTER_METADATA:
            shutil.rmtree(path)
    said = kafkats("verify", root)
    assert said.code == 1
    assert {row["kind"] for row in said.rows} == {"missing-partition"} and len(said.rows) == 9
