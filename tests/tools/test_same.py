"""The comparison of two commits says no: to another plan, other bytes, another mode, another exit code."""

from __future__ import annotations

import shutil
import time
from pathlib import Path

import pytest

from tools.same import compare, run

STATE = "matrix-0.10.2.2-v1/data"
"""A small state whose plans to rebuild, to migrate and to roll have something to write."""

LONGER = """
from pathlib import Path
_write_bytes = Path.write_bytes
Path.write_bytes = lambda path, data: _write_bytes(path, data + b"x" if path.name.endswith(".timeindex") else data)
"""
"""Some files that are built beside get a byte more."""


@pytest.fixture
def other(tmp_path: Path) -> Path:
    """A second tree of the product's folders, machine code included, in which to plant a difference."""
    for name in run.PRODUCT:
        shutil.copytree(run.ROOT / name, tmp_path / "other" / name)
    return tmp_path / "other"


def plant(tree: Path, file: str, text: str) -> None:
    """At the end of a module that stays where it is, whatever is moved."""
    with (tree / file).open("a") as module:
        module.write(f"\n{text}\n")


def compared(other: Path, *words: str) -> int:
    return run.main([str(run.ROOT), str(other), "--only", STATE, *words])


@pytest.mark.slow(11)
def test_equal_trees_are_the_same_and_a_planted_difference_is_found(
    other: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    parts = (
        "--parts",
        "commands",
        "--steps",
        "plan roll,plan rebuild all,roll:,wrong digest,inventory topic",
    )
    assert compared(other, *parts) == 0, capsys.readouterr().out
    assert " 0 differences" in capsys.readouterr().out
    plant(other, "kafkats/errors.py", "Refused.exit_code = Changed.exit_code = 2")
    plant(other, "kafkats/errors.py", LONGER)
    plant(other, "kafkats/generations.py", "INDEX_INTERVAL_BYTES = 4097")
    assert compared(other, *parts) == 1
    out = capsys.readouterr().out
    assert "wrong digest: exit code: 3 != 2" in out
    assert "plan roll files: file.items.parquet.rows[0].index_interval_bytes" in out
    assert "roll: tree after apply by a plan of BEFORE: tree." in out
    assert "inventory topic:" not in out


def test_a_tree_differs_by_bytes_mode_and_time(tmp_path: Path) -> None:
    for name in ("one", "other"):
        (tmp_path / name / "topic-0").mkdir(parents=True)
        (tmp_path / name / "topic-0" / "0.log").write_bytes(b"records")
        (tmp_path / name / "topic-0" / "0.index").write_bytes(b"index")
    since = time.time_ns() + 1

    def differences() -> list[str]:
        trees = [compare.tree(tmp_path / name, since) for name in ("one", "other")]
        return [line for line in compare.differences(*trees, "tree") if "mtime_ns" not in line]

    assert differences() == []
    (tmp_path / "other" / "topic-0" / "0.log").chmod(0o600)
    assert ".mode" in differences()[0]
    (tmp_path / "other" / "topic-0" / "0.log").write_bytes(b"recordz")
    assert any(".sha256" in line for line in differences())
    (tmp_path / "other" / "topic-0" / "0.index").unlink()
    assert any("0.index: gone" in line for line in differences())


def test_a_kept_time_and_a_new_one_differ(tmp_path: Path) -> None:
    (tmp_path / "0.log").write_bytes(b"")
    written = (tmp_path / "0.log").stat().st_mtime_ns
    kept, new = compare.tree(tmp_path, written + 1), compare.tree(tmp_path, written)
    assert list(compare.differences(kept, new, "tree")) == [
        f'tree.0.log.mtime_ns: {written} != "new"'
    ]


@pytest.mark.parametrize(
    ("one", "other", "count"),
    [
        ({"action": "replace"}, {"action": "remove"}, 1),
        ({"reason": "it is missing"}, {"reason": "the file is missing"}, 0),
        ({"reason": "past-end"}, {"reason": "no-record"}, 1),
        ({"files": 1}, {"files": 1, "more": 2}, 1),
        ({"files": 1, "gone": 2}, {"files": 1}, 1),
        ([1, 2], [1, 2, 3], 1),
        ({"size": 1}, {"size": True}, 1),
        ({"before": {"inode": 1, "size": 2}}, {"before": {"inode": 3, "size": 2}}, 1),
        ({"seconds": 1.0}, {"seconds": 2.0}, 0),
    ],
)
def test_what_counts(one: object, other: object, count: int) -> None:
    assert len(list(compare.differences(one, other, "x"))) == count


def test_identity_counts_only_where_both_saw_the_same_file() -> None:
    one, other = {"before": {"inode": 1}}, {"before": {"inode": 2}}
    assert not list(compare.differences(one, other, identity=False))


def test_a_wanted_difference_needs_a_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    line = "crash-4.3.1/before: apply: printed.proof: new"
    assert compare.allowed(line) is None
    monkeypatch.setattr(
        compare, "ALLOWED", [("*: apply: printed.proof: new", "apply ends with the proof")]
    )
    assert compare.allowed(line) == "apply ends with the proof"
