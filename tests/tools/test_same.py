"""The comparison of two commits says no: to another plan, other bytes, another mode, another exit code."""

from __future__ import annotations

import shutil
import time
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tools.same import compare, run, texts

STATE = "matrix-0.10.2.2-v1/data"
"""A small state whose plans to rebuild, to migrate and to roll have something to write."""

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC).timestamp()
HOURS = (3600, 3605, 7200)

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


@pytest.mark.full(11)
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
    assert "plan roll files: file.items.parquet.rows.[" in out
    assert ".index_interval_bytes: 4096 != 4097" in out
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
        return [
            line for line in compare.differences(*trees, where="tree") if "mtime_ns" not in line
        ]

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
        ({"reason": "it is missing"}, {"reason": "the file is missing"}, 1),
        ("one line\nmore", "one line\nless", 1),
        ("one line\n    and its rest", "one line and its rest", 0),
        ({"holder": "ops"}, {"holder": "others"}, 1),
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


def test_a_row_more_moves_no_other_row() -> None:
    rows = [{"partition_dir": "t-0", "file": name, "n": 1} for name in ("a", "b", "c")]
    assert list(compare.differences(rows, rows[1:])) == [".[/t-0/a/]: gone"]
    changed = [rows[0], rows[2] | {"n": 2}, rows[1]]
    assert list(compare.differences(rows, changed)) == [".[/t-0/c/].n: 1 != 2"]
    assert list(compare.differences([rows[0]] * 2, [rows[0]])) == [": 2 != 1 rows"]


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


def test_an_accepted_rewording_counts_with_its_reason_and_another_as_a_difference(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    before, after = "kept\n5 logs end early", "kept\n5 partitions end early"
    found = list(compare.differences(before, after, "printed"))
    assert found == ["printed: '5 logs end early' != '5 partitions end early'"]
    monkeypatch.setattr(texts, "WORDS", [(r"(\d) logs", r"\1 partitions", "they are partitions")])
    (found_one,) = compare.differences(before, after, "printed")
    assert compare.allowed(found_one) == "they are partitions"
    (unlisted,) = compare.differences(before, after.replace("early", "late"), "printed")
    assert compare.allowed(unlisted) is None


def test_what_varies_from_run_to_run_is_no_difference_and_another_length_is_one() -> None:
    out = Path("/tmp/side")
    one = texts.normal("/tmp/side/plan: in 1.3 s, 4 MiB/s, until 2026-01-02T12:00:07Z", out, NOON)
    assert one == "OUT/plan: in TIME, RATE, until NOW+86400s"
    rows = [texts.values({"until_ms": int((NOON + more) * 1000)}, out, NOON) for more in HOURS]
    assert rows[0] == rows[1] != rows[2]
    assert texts.normal("from 2020-01-01T00:00:00Z", out, NOON) == "from 2020-01-01T00:00:00Z"


def test_a_digest_counts_where_nothing_else_differs() -> None:
    one, other = {"digest": "a"}, {"digest": "b"}
    assert list(compare.plans(one, other, [])) == ["file.plan.json.digest: a != b"]
    assert not list(compare.plans(one, other, ["file.items.parquet.rows: 1 != 2 rows"]))
    assert not list(compare.plans(one, one, []))


@pytest.mark.full(15)
def test_a_reworded_sentence_and_a_longer_reservation_are_found(
    other: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    steps = "verify said,release*,plan recover,show plan recover,preflight said 4.3,wrong preflight"
    parts = ("--parts", "commands", "--steps", steps)
    assert compared(other, *parts) == 0, capsys.readouterr().out
    capsys.readouterr()
    module = other / "kafkats/cli/terminal.py"
    reworded(module, "is not reserved", "has no reservation")
    longer = "now_ms() + 2 * DAY_MS if wish"
    reworded(other / "kafkats/reserving/plans.py", "now_ms() + DAY_MS if wish", longer)
    assert compared(other, *parts) == 1
    out = capsys.readouterr().out
    assert "release free: printed: " in out and "has no reservation" in out
    assert "NOW+86400s" in out and "NOW+172800s" in out, out
    assert "verify said" not in out.split("differences", 1)[1]


def reworded(module: Path, before: str, after: str) -> None:
    text = module.read_text()
    assert before in text, module
    module.write_text(text.replace(before, after))
