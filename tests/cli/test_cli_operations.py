"""The verbs of migrate, retain, roll and lookup from end to end, on directories of real brokers."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from kafkats.plans.disks import read_disks
from tests.builders.commands import run_mixed
from tests.golden import case

NOW = "2026-11-21T05:02:13Z"


def objects(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines() if line.startswith("{")]


@pytest.fixture
def old(tmp_path: Path) -> Path:
    root = tmp_path / "old"
    root.mkdir()
    return case("matrix-2.8.2-v1").unpack("data", root)


@pytest.fixture
def full(tmp_path: Path) -> Path:
    root = tmp_path / "full"
    root.mkdir()
    return case("retention-4.3.1").unpack("before", root)


def test_the_census_is_every_byte(old: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, text = run_mixed(capsys, "inventory", old, "--by", "format", "--json")
    rows = objects(text)
    assert code == 0 and {row["magic"] for row in rows if "magic" in row} == {1}
    assert rows[-1]["summary"]["log_bytes"] == sum(p.stat().st_size for p in old.glob("*/*.log"))


def test_the_report_of_a_census_says_how_full_the_disk_is(
    old: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_mixed(capsys, "census", old, "--report", tmp_path / "report")[0] == 0
    assert read_disks(tmp_path / "report")[str(old)].bytes == shutil.disk_usage(old).total


def test_a_certificate_and_its_check(
    old: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_mixed(capsys, "certify", old, "--min-magic", 2)[0] == 1
    assert run_mixed(capsys, "certify", old, "--max-magic", 1, "-o", tmp_path / "cert")[0] == 0
    assert run_mixed(capsys, "certify", "--check", tmp_path / "cert")[0] == 0
    log = next(p for p in sorted(old.glob("none-ct-0/*.log")) if p.stat().st_size)
    log.write_bytes(log.read_bytes() + log.read_bytes()[:0] + bytes(1))
    code, text = run_mixed(capsys, "certify", "--check", tmp_path / "cert")
    assert code == 1 and "none-ct-0" in text
    assert run_mixed(capsys, "certify", old, "--check", tmp_path / "cert")[0] == 2


def test_a_migration_in_phases(
    old: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ledger, step = tmp_path / "ledger", ("--ledger", tmp_path / "ledger", "--broker", "1")
    plan = ("plan", "migrate", old, "--to-magic", 2, "-o", tmp_path / "plan", *step)
    assert (
        run_mixed(
            capsys, "ledger", "begin", ledger, "--from-magic", 1, "--to-magic", 2, "--broker", "1"
        )[0]
        == 0
    )
    code, text = run_mixed(capsys, *plan, "--phase", "canary")
    assert code == 3 and "attested" in text
    assert (
        run_mixed(capsys, "ledger", "attest", ledger, "--broker", "1", "--text", "2.8.2 runs")[0]
        == 0
    )
    assert run_mixed(capsys, "certify", old, "--max-magic", 1, *step, "--phase", "phase-1")[0] == 0
    certify = ("certify", old, "--max-magic", 1)
    for wrong in (
        (*step, "--phase", "phase-1", "--topics", "none-*"),
        ("--phase", "phase-1"),
        (*step, "--phase", "phase-one"),
        step,
    ):
        assert run_mixed(capsys, *certify, *wrong)[0] == 2, "half a step, or half a broker, is none"
    assert run_mixed(capsys, *plan, "--phase", "canary", "--json")[0] == 0
    assert run_mixed(capsys, "apply", tmp_path / "plan", "--digest", "any")[0] == 0
    assert run_mixed(capsys, "verify", old, *step, "--phase", "canary")[0] == 0
    assert run_mixed(capsys, "certify", old, "--min-magic", 2, *step, "--phase", "canary")[0] == 0
    assert run_mixed(capsys, "ledger", "approve", ledger, "--broker", "1")[0] == 0
    (row, _) = objects(run_mixed(capsys, "ledger", "show", ledger, "--json")[1])
    assert row["status"] == "approved"
    assert run_mixed(capsys, "undo", tmp_path / "plan.run")[0] == 0
    (row, _) = objects(run_mixed(capsys, "ledger", "show", ledger, "--json")[1])
    assert row["status"] == "rolled-back"
    code, text = run_mixed(
        capsys, "plan", "migrate", old, "--to-magic", 2, "-o", tmp_path / "p", "--ledger", ledger
    )
    assert code == 2 and "go together" in text


def policy(tmp_path: Path, **settings: object) -> Path:
    file = tmp_path / "policy.yaml"
    given = {"cleanup.policy": "delete", "retention.ms": 86_400_000} | settings
    file.write_text(json.dumps({"topics": {"*": given}}))
    return file


def test_retention_is_told_planned_done_and_undone(
    full: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ("--policy", policy(tmp_path), "--now", NOW)
    code, text = run_mixed(capsys, "simulate", "retain", full, *words, "--json")
    rows = {row["partition_dir"]: row for row in objects(text) if "partition_dir" in row}
    assert code == 1 and rows["future-pins-0"]["pinned_bytes"] > 0
    assert run_mixed(capsys, "plan", "retain", full, *words, "-o", tmp_path / "plan")[0] == 0
    logs = len(list(full.glob("*/*.log")))
    assert run_mixed(capsys, "apply", tmp_path / "plan", "--digest", "any")[0] == 0
    assert len(list(full.glob("*/*.log"))) < logs
    assert run_mixed(capsys, "verify", full)[0] == 0
    assert run_mixed(capsys, "undo", tmp_path / "plan.run")[0] == 0
    assert len(list(full.glob("*/*.log"))) == logs
    proved = run_mixed(capsys, "verify", full, "--of-run", tmp_path / "plan.run")
    assert proved[0] == 0 and "proved: nothing. The run wrote no file" in proved[1]


def test_purge_says_in_the_runs_folder_that_it_is_done(
    full: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ("--policy", policy(tmp_path), "--now", NOW)
    assert run_mixed(capsys, "plan", "retain", full, *words, "-o", tmp_path / "plan")[0] == 0
    assert run_mixed(capsys, "apply", tmp_path / "plan", "--digest", "any")[0] == 0
    code, text = run_mixed(capsys, "purge", tmp_path / "plan.run", "--json")
    assert code == 0
    freed, told = objects(text)[-1]["summary"]["freed_bytes"], tmp_path / "plan.run" / "purge.json"
    assert freed > 0 and json.loads(told.read_text())["freed_bytes"] == freed
    before = told.read_text()
    assert run_mixed(capsys, "purge", tmp_path / "plan.run")[0] == 0
    assert told.read_text() == before, "again frees nothing: what was freed stays told"


@pytest.mark.parametrize("now", [2**63, -9999999999999999999, 2**63 - 1, -(2**63)])
@pytest.mark.parametrize(
    "verb", [("plan", "retain"), ("simulate", "retain"), ("plan", "roll"), ("simulate", "roll")]
)
def test_any_moment_is_taken_or_refused_in_words(
    full: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], verb: tuple[str, str], now: int
) -> None:
    out = ("-o", tmp_path / "plan") if verb[0] == "plan" else ()
    code, text = run_mixed(capsys, *verb, full, f"--now={now}", "--policy", policy(tmp_path), *out)
    if -(2**63) <= now < 2**63:
        assert code in (0, 1)
    else:
        assert code == 2 and "no time that a record can have" in text


def test_an_export_makes_limits_explicit(
    full: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    export = tmp_path / "topics.txt"
    export.write_text(
        "Dynamic configs for topic time-all are:\n"
        "  cleanup.policy=delete sensitive=false synonyms={DYNAMIC_TOPIC_CONFIG:cleanup.policy=delete}\n"
        "  retention.ms=86400000 sensitive=false synonyms={DYNAMIC_TOPIC_CONFIG:retention.ms=86400000}\n"
    )
    code, text = run_mixed(
        capsys,
        "plan",
        "retain",
        full,
        "--export",
        export,
        "--now",
        NOW,
        "-o",
        tmp_path / "plan",
        "--json",
    )
    assert code == 0
    assert {row["partition_dir"] for row in objects(text) if "file" in row} == {"time-all-0"}


EXPORT = """Dynamic configs for topic time-all are:
  cleanup.policy=delete sensitive=false synonyms={}
  retention.ms=86400000 sensitive=false synonyms={}
  segment.ms=60000 sensitive=false synonyms={}
"""


@pytest.mark.parametrize(
    "verb", [("plan", "retain"), ("simulate", "retain"), ("plan", "roll"), ("simulate", "roll")]
)
def test_globs_without_a_topic_and_contradictions_are_told(
    full: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], verb: tuple[str, str]
) -> None:
    (tmp_path / "topics.txt").write_text(EXPORT)
    file = tmp_path / "policy.yaml"
    file.write_text(
        'topics:\n  "tmie-*": {}\n  "time-*": {cleanup.policy: delete, retention.ms: 1}\n'
    )
    words = (*verb, full, "--policy", file, "--export", tmp_path / "topics.txt", "--now", NOW)
    words += ("-o", tmp_path / "plan") if verb[0] == "plan" else ()
    misspelt = "policy: no topic comes under 'tmie-*': is it misspelt?"
    differs = "policy: time-all: retention.ms: the policy says 1, the export 86400000"
    code, text = run_mixed(capsys, *words)
    assert misspelt in text and differs in text
    again = (*words[:-1], tmp_path / "again") if verb[0] == "plan" else words
    more, text = run_mixed(capsys, *again, "--json", "--topics", "time-*")
    assert objects(text)[-1]["summary"]["remarks"] == [differs], "nobody looked for the others"
    assert code == more, "a remark is no finding"


def test_an_export_is_what_rolling_goes_by(
    full: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "topics.txt").write_text(EXPORT.replace("60000", "9000000000000000"))
    words = (
        "plan",
        "roll",
        full,
        "--topics",
        "time-*",
        "--export",
        tmp_path / "topics.txt",
        "-o",
        tmp_path / "plan",
    )
    assert {
        row["partition_dir"]
        for row in objects(run_mixed(capsys, *words, "--json")[1])
        if "file" in row
    } == {"time-some-0"}
    words = (
        "simulate",
        "roll",
        full,
        "--topics",
        "time-all",
        "--json",
        "--export",
        tmp_path / "topics.txt",
    )
    (tmp_path / "topics.txt").write_text(EXPORT.replace("segment.ms=60000", "segment.ms=1"))
    assert objects(run_mixed(capsys, *words)[1])[-1]["summary"]["simulated"] > 10


def test_a_forecast_of_our_own_deletions(
    full: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = (
        "simulate",
        "retain",
        full,
        "--policy",
        policy(tmp_path),
        "--topics",
        "time-*",
        "--now",
        NOW,
        "--json",
    )

    def now_bytes(*more: object) -> int:
        return int(objects(run_mixed(capsys, *words, *more)[1])[-1]["summary"]["now_bytes"])

    assert 0 < now_bytes("--free", "1") < now_bytes() < now_bytes("--last-segment")
    file = policy(tmp_path, **{"retention.ms": 195_237_170_827})
    assert 0 < now_bytes("--policy", file) < now_bytes("--policy", file, "--inside-segments")


@pytest.mark.parametrize("verb", ["plan", "simulate"])
def test_what_would_fill_a_full_volume_is_refused(
    full: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], verb: str
) -> None:
    out = ("-o", tmp_path / "plan") if verb == "plan" else ()
    words = (
        verb,
        "retain",
        full,
        "--policy",
        policy(tmp_path),
        "--inside-segments",
        "--free",
        "1GiB",
        *out,
    )
    code, text = run_mixed(capsys, *words)
    assert code == 2 and "does not go with --free" in text


@pytest.mark.parametrize("rule", ["3.0", "0.11", "0.10.1", "0.8", "kip33"])
def test_a_rule_without_a_high_watermark_says_so(
    full: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], rule: str
) -> None:
    words = (full, "--policy", policy(tmp_path), "--now", NOW, "--generation", rule)
    said = (
        "also deletes segments above the high watermark"
        in run_mixed(capsys, "plan", "retain", *words, "-o", tmp_path / "p")[1]
    )
    assert said == (rule not in {"3.0", "0.11"})
    assert (
        "also deletes segments above the high watermark"
        in run_mixed(capsys, "show", tmp_path / "p")[1]
    ) == said
    assert (
        "also deletes segments above the high watermark"
        in run_mixed(capsys, "simulate", "retain", *words)[1]
    ) == said
    last = objects(run_mixed(capsys, "show", tmp_path / "p", "--json")[1])[-1]["summary"]
    assert any("above the high watermark" in remark for remark in last["remarks"]) == said


def test_expired_heads_go(full: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = policy(tmp_path, **{"retention.ms": 195_237_170_827})
    words = ("plan", "retain", full, "--policy", file, "--topics", "time-some", "--now", NOW)
    assert "the rest begins" not in run_mixed(capsys, *words, "-o", tmp_path / "whole")[1]
    code, text = run_mixed(capsys, *words, "--inside-segments", "-o", tmp_path / "plan")
    assert code == 0 and "the rest begins at 124" in text
    early = (
        *words,
        "--inside-segments",
        "--before",
        "2001-01-01T00:00:00Z",
        "-o",
        tmp_path / "none",
    )
    assert "the rest begins" not in run_mixed(capsys, *early)[1], (
        "--before counts, not retention.ms"
    )
    before = {p.name: p.read_bytes() for p in full.glob("time-some-0/*")}
    assert run_mixed(capsys, "apply", tmp_path / "plan", "--digest", "any")[0] == 0
    assert min(p.name for p in full.glob("time-some-0/*.log")) == "00000000000000000124.log"
    assert run_mixed(capsys, "verify", full)[0] == 0
    assert run_mixed(capsys, "undo", tmp_path / "plan.run")[0] == 0
    assert {p.name: p.read_bytes() for p in full.glob("time-some-0/*")} == before


def test_rolling_is_told_planned_and_done(
    full: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, text = run_mixed(
        capsys, "simulate", "roll", full, "--config", "segment.bytes=2000", "--json"
    )
    assert (
        code == 0
        and objects(text)[-1]["summary"]["simulated"] > objects(text)[-1]["summary"]["segments"]
    )
    assert run_mixed(capsys, "plan", "roll", full, "-o", tmp_path / "plan")[0] == 0
    assert run_mixed(capsys, "apply", tmp_path / "plan", "--digest", "any")[0] == 0
    assert (full / "time-all-0" / "00000000000000000130.log").stat().st_size == 0
    assert run_mixed(capsys, "verify", full)[0] == 0
    mixed = (
        "plan",
        "split",
        full,
        "--where",
        "mixed",
        "--topics",
        "order*",
        "-o",
        tmp_path / "split",
    )
    assert run_mixed(capsys, *mixed)[0] == 0
    assert (
        run_mixed(capsys, "plan", "split", full, "--where", "rolled", "-o", tmp_path / "no")[0] == 2
    )


def test_which_offset_was_it(full: Path, capsys: pytest.CaptureFixture[str]) -> None:
    times = ("--at", "2020-09-13T12:27:30Z", "--at", "latest", "--at", "1600000050000")
    code, text = run_mixed(capsys, "lookup", full, *times, "--topics", "time-all", "--json")
    rows = [row for row in objects(text) if "offset" in row]
    assert code == 0
    assert [(row["offset"], row["reason"], row["kafka_offset"]) for row in rows] == [
        (39, "first-after", 39), (130, "exact", 130), (39, "first-after", 39),
    ]  # fmt: skip
    assert run_mixed(capsys, "lookup", full, "--at", "10:00")[0] == 2
    assert run_mixed(capsys, "lookup", full, "--at", "latest", "--topics", "none-such")[0] == 2


def test_a_table_and_what_is_made_of_it(
    full: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    hour = (
        "--from",
        "2020-09-13T12:26:00Z",
        "--until",
        "2020-09-13T12:30:00Z",
        "--topics",
        "time-*",
    )
    words = ("lookup", full, "--every", "1s", *hour, "-o", tmp_path / "table", "--json")
    code, text = run_mixed(capsys, *words)
    assert code == 0 and objects(text)[-1]["summary"]["added"] == 2 * 240
    assert objects(run_mixed(capsys, *words)[1])[-1]["summary"]["added"] == 0, "there already"
    code, text = run_mixed(
        capsys,
        "export",
        tmp_path / "table",
        "--at",
        "2020-09-13T12:27:30Z",
        "--to",
        "spark-offsets",
    )
    assert code == 0 and json.loads(json.loads(text[: text.rindex("}") + 1])["startingOffsets"])[
        "time-all"
    ] == {"0": 39}
    assert run_mixed(capsys, "lookup", full, "--every", "1s")[0] == 2
    assert run_mixed(capsys, "lookup", full)[0] == 2
    assert run_mixed(capsys, "lookup", full, "--every", "1s", "--at", "latest")[0] == 2


def test_a_retention_without_limits_says_where_the_reasons_are(
    full: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, text = run_mixed(capsys, "plan", "retain", full, "-o", tmp_path / "plan")
    assert code == 0 and "0 B in 0 segments to delete\n" in text
    assert "no retention settings were given" in text and "(--policy)" in text
    assert "a broker" not in text, "its own settings are not known"
    assert "kafkats simulate retain gives the reason for each partition" in text
