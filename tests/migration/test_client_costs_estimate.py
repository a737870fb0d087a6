"""`plan migrate --clients`: the summary and the words of the estimate. The plan is the same as without."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.builders.commands import objects, run
from tests.golden import Unpacked

GOLDEN = "content-2.8.2-v1-gzip"
MIX = """\
kafka: 2.8.2
message.format.version: 0.10.2
brokers: 2
topics:
  "*":
    produce: {2: 0.5, 3: 0.5}
    fetch: {2: 0.25, 4: 0.75}
    bytes.per.day: 4GB
"""


@pytest.fixture
def root(golden: Unpacked) -> Path:
    return golden(GOLDEN, "data")


def planned(
    capsys: pytest.CaptureFixture[str], root: Path, to: Path, *words: object
) -> dict[str, Any]:
    code, out, _ = run(capsys, "plan", "migrate", root, "--to-magic", 2, "-o", to, "--json", *words)
    assert code == 0
    summary: dict[str, Any] = objects(out)[-1]["summary"]
    return summary


def test_the_summary(root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    mix = tmp_path / "clients.yaml"
    mix.write_text(MIX)
    plain = planned(capsys, root, tmp_path / "plain")
    summary = planned(capsys, root, tmp_path / "with", "--clients", mix)
    assert summary["digest"] == plain["digest"] and "clients" not in plain
    told = summary["clients"]
    before, canary, after = told["phases"]
    topics = len({
        p.name.rpartition("-")[0]
        for p in root.iterdir()
        if p.is_dir() and not p.name.startswith("__")
    })
    day = 4_000_000_000 * topics
    assert (before["phase"], before["per"], before["produced_bytes"]) == ("phase-1", "day", day)
    assert before["converted_bytes"] == after["converted_bytes"] == day / 2
    assert (
        before["zero_copy_lost_bytes"],
        canary["zero_copy_lost_bytes"],
        after["zero_copy_lost_bytes"],
    ) == (0, day / 8, day / 4)
    assert 0 <= before["cpu_seconds"] < after["cpu_seconds"]
    assert "measured on Kafka 2.8.2" in told["estimate"]


def test_the_words(root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    mix = tmp_path / "clients.yaml"
    mix.write_text(MIX.replace('"*"', "nothing-*"))
    words = ("plan", "migrate", root, "--to-magic", 2, "--clients", mix)
    _, out, _ = run(capsys, *words, "-o", tmp_path / "none")
    assert "the file of clients has no glob for" in out and "CPU seconds more" not in out
    mix.write_text(MIX.replace("    bytes.per.day: 4GB\n", ""))
    _, out, _ = run(capsys, *words, "-o", tmp_path / "some")
    text = " ".join(out.split())
    assert "phase-2, for the bytes that are stored now: leaders convert" in text
    assert "lose zero-copy" in text and "these are estimates: CPU time per GB measured on" in text


def test_what_is_wrong_is_told_before_anything_is_read(
    root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    mix = tmp_path / "clients.yaml"
    for text, says in (
        (MIX.replace("2.8.2", "4.0.0"), "converts nothing"),
        (MIX.replace("kafka: 2.8.2", "kafka: 0.10.2"), "does not write magic 2"),
        (MIX.replace("0.75", "0.5"), "line 7"),
    ):
        mix.write_text(text)
        code, _, err = run(
            capsys,
            "plan",
            "migrate",
            root,
            "--to-magic",
            2,
            "--clients",
            mix,
            "-o",
            tmp_path / "plan",
        )
        assert code == 2 and says in err and "clients.yaml" in err
    assert not (tmp_path / "plan").exists()
