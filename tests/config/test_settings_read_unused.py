"""A setting that is given and not gone by is said."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest

from kafkats.config.policy import Policy
from kafkats.config.settings import TopicSettings
from kafkats.config.settings_read import INDEXES, NOWHERE
from kafkats.inspect.inventory import inventory_units
from kafkats.plans.facts import SEGMENTS
from kafkats.plans.units import list_units
from kafkats.retention.plan import RetainOptions, plan_retain
from tests.builders.commands import run
from tests.golden import case


def test_what_no_operation_reads_is_still_accepted_and_said() -> None:
    given = dict.fromkeys(NOWHERE - {"compression.type"}, 5)
    given |= {"compression.type": "zstd", "retention.ms": 7}  # type: ignore[dict-item]
    policy = Policy.model_validate({"topics": {"a": given}})
    assert len(policy.ignored()) == len(NOWHERE) == 3
    assert all(any(f" {key} is given" in said for said in policy.remarks(["a"])) for key in NOWHERE)
    assert Policy.model_validate({"defaults": {"retention.ms": 7}}).ignored(INDEXES) == (), (
        "a file is for many operations"
    )
    over = Policy(
        overrides=TopicSettings.model_validate({"retention.ms": 7, "index.interval.bytes": 9})
    )
    assert over.ignored() == ()
    assert over.ignored(INDEXES) == (
        "--config retention.ms is given, and not read by this operation",
    )


def test_commands_say_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    root = tmp_path / "data"
    root.mkdir()
    case("matrix-2.8.2-v1").unpack("data", root)
    words = (
        "--config",
        "compression.type=zstd",
        "--config",
        "retention.ms=5",
        "--topics",
        "none-ct",
    )
    for verb in (
        ("verify", root),
        ("plan", "rebuild", root, "-o", tmp_path / "p"),
        ("lookup", root, "--at", "latest"),
    ):
        code, out, err = run(capsys, *verb, *words, "--json")
        assert code == 0 and "compression.type" not in out
        assert "policy: compression.type is given, and read by no operation" in err
        assert "--config retention.ms is given, and not read by this operation" in err
    policy = tmp_path / "policy.json"
    policy.write_text(json.dumps({"defaults": {"file.delete.delay.ms": 5}}))
    code, out, err = run(capsys, "simulate", "retain", root, "--policy", policy, "--json")
    assert "file.delete.delay.ms is given" in out.splitlines()[-1]


def test_an_emptied_index_is_told_as_that(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    root = case("matrix-2.8.2-v1").unpack("data", tmp_path)
    index = root / "none-ct-0" / f"{0:020d}.index"
    assert index.stat().st_size
    index.write_bytes(b"")
    code, out, _ = run(
        capsys,
        "verify",
        root,
        "--topics",
        "none-ct",
        "--config",
        "index.interval.bytes=1000",
        "--json",
    )
    found = [json.loads(line) for line in out.splitlines()]
    (told,) = (one for one in found if one.get("file") == index.name and one["base_offset"] == 0)
    assert (told["kind"], told["severity"], code) == ("no-entries", "remark", 0)
    assert "the file is empty, and a rebuild gives" in told["reason"]


@pytest.mark.parametrize(
    ("version", "timed"), [(None, True), ("0.9.0", False), ("0.10.0", True), ("2.8", True)]
)
def test_kip33_loads_timestamps_where_the_format_has_them(
    tmp_path: Path, version: str | None, timed: bool
) -> None:
    root = case("matrix-2.8.2-v1").unpack("data", tmp_path)
    given = {"cleanup.policy": "delete", "retention.ms": 5} | (
        {"message.format.version": version} if version else {}
    )
    policy = Policy.model_validate({"topics": {"none-ct": given}})
    facts = pa.Table.from_batches([inventory_units(list_units([root], topics="none-ct"))], SEGMENTS)
    for rule in ("kip33", "0.10.1"):
        _, verdicts = plan_retain(facts, policy, RetainOptions(2**42, rule))
        expected = "timestamp" if timed or rule != "kip33" else "mtime"
        assert set(verdicts["evidence"].to_pylist()) == {expected}
