"""An interval that was given and is not the one of the index beside; the true one never is contradicted, whoever wrote the index."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from kafkats.cli import main
from kafkats.errors import KafkatsError
from kafkats.index.infer import contradicted
from kafkats.index.structure import examine_offset_index
from kafkats.segment.reader import open_source
from tests.golden import Unpacked, case, segments, states


@pytest.mark.slow(3)
def test_on_real_indexes(golden: Unpacked) -> None:
    """Of leaders, followers, after crashes and compaction: none contradicts its own topic's setting; much larger ones most do."""
    found: Counter[str] = Counter()
    wrong = []
    for one, state in states():
        for segment in segments(one, state, golden(str(one), state)):
            try:
                offsets = examine_offset_index(segment.log.with_suffix(".index"))
                with open_source(segment.log) as source:
                    told = contradicted(segment.interval, offsets, source, segment.base_offset)
                    sparser = contradicted(2**30, offsets, source, segment.base_offset)
            except KafkatsError:
                continue
            if told is not None:
                wrong.append((repr(segment), segment.interval, told))
            found["entries"] += bool(offsets and offsets.entries.strip(b"\0"))
            found["told"] += sparser is not None
    assert wrong == []
    assert found["entries"] > 500
    assert found["told"] > 0.9 * found["entries"]


def said(capsys: pytest.CaptureFixture[str], *words: object) -> list[dict[str, object]]:
    with pytest.raises(SystemExit):
        main([str(word) for word in words])
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


@pytest.mark.parametrize(
    "operation",
    [
        ("rebuild",),
        ("migrate", "--to-magic", 2, "--compression-type", "zstd"),
        ("split", "--where", "rolled", "--segment-bytes", 3000),
    ],
    ids=lambda words: str(words[0]),
)
def test_a_plan_says_so(
    operation: tuple[object, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    one = case("matrix-4.3.1-v2")
    (tmp_path / "data").mkdir()
    root = one.unpack("data", tmp_path / "data")
    assert one.interval("none-ct-0") == 256
    (root / "none-ct-0" / f"{67:020d}.index").unlink()
    policy = tmp_path / "policy.yaml"
    policy.write_text("defaults:\n  index.interval.bytes: 4096\n")
    words = (
        "plan",
        *operation[:1],
        root,
        *operation[1:],
        "--topics",
        "none-ct",
        "--json",
        "-o",
        tmp_path / "plan",
    )
    [*_, last] = said(capsys, *words, "--policy", policy)
    [remark] = last["summary"]["remarks"]
    assert remark.startswith(
        "index.interval.bytes is given as 4096, and indexes of 1 partition that this plan writes to have 256"
    )
    assert "sparser" in remark
    for true in (("--config", "index.interval.bytes=256"), ()):
        [*_, last] = said(capsys, *words, *true)
        assert last["summary"]["remarks"] == []


def test_verify_says_so_of_each_segment(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    root = case("matrix-4.3.1-v2").unpack("data", tmp_path)
    words = ("verify", root, "--topics", "none-ct", "--json", "--config")
    *rows, last = said(capsys, *words, "index.interval.bytes=4096")
    told = {
        (row["kind"], row["expected"], row["found"])
        for row in rows
        if str(row["file"]).endswith(".index")
    }
    assert told == {("other-interval", "4096", "256")}
    assert last["summary"]["worst"] == "remark"
    assert said(capsys, *words, "index.interval.bytes=256")[-1]["summary"]["kinds"] == {}
