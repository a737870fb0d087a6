"""Scripts on brokers of the dialect `enriched`, played and dumped by the commands."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.builders.commands import objects, run

BEGIN = "2024-01-01T00:00:00Z"
BEGIN_MS = 1_704_067_200_000
LOG = "00000000000000000000.log"
INDEX = "00000000000000000000.index"


def start(name: str = "1", config: dict[str, Any] | None = None) -> list[dict[str, Any]]:
    """A broker of the dialect with the partition t-0."""
    return [
        {"do": "broker", "broker": name, "kafka": "enriched"},
        step("create", name, config=config or {}),
    ]


def step(do: str, name: str = "1", **fields: Any) -> dict[str, Any]:
    return {"do": do, "broker": name, "partition": "t-0", **fields}


def other_cluster() -> list[dict[str, Any]]:
    """A broker 2 with the partition m-0, which is no replica of t-0."""
    return [start("2")[0], {**step("create", "2"), "partition": "m-0"}]


def mirror(**fields: Any) -> dict[str, Any]:
    """The copy of t-0 of broker 1 into m-0 of broker 2."""
    copied = step("mirror", "2", source="1", source_partition="t-0", **fields)
    return copied | {"partition": "m-0"}


def produce(
    keys: str, codec: str = "gzip", name: str = "1", at: str = "", **fields: Any
) -> dict[str, Any]:
    """A set with a record for each letter: its key, or none for a dot."""
    records = [
        {"timestamp": BEGIN, "key": None if key == "." else key, "value": f"v{key}{number}"}
        for number, key in enumerate(keys)
    ]
    fields |= {"at": at} if at else {}
    return step("produce", name, version=1, codec=codec, records=records, **fields)


class Played(NamedTuple):
    """The rows of the steps, and the folder of the brokers."""

    rows: list[dict[str, Any]]
    output: Path

    def log(self, name: str = "1", file: str = LOG, partition: str = "t-0") -> Path:
        return self.output / f"broker-{name}" / partition / file


Play = Callable[..., Played]
Dump = Callable[..., list[dict[str, Any]]]


@pytest.fixture
def play(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Play:
    """Play steps with `kafkats replay`."""

    def play(*steps: dict[str, Any]) -> Played:
        script, output = tmp_path / "script.jsonl", tmp_path / "out"
        script.write_text("".join(json.dumps(one) + "\n" for one in steps))
        code, out, err = run(capsys, "replay", script, "-o", output, "--json", "--not-for-a-broker")
        assert code == 0, err
        return Played([row for row in objects(out) if "line" in row], output)

    return play


@pytest.fixture
def dump(capsys: pytest.CaptureFixture[str]) -> Dump:
    """Dump a file with `kafkats dump --deep`, in the dialect unless another is named."""

    def dump(path: Path, *words: str, dialect: str = "enriched") -> list[dict[str, Any]]:
        named = ("--dialect", dialect) if dialect else ()
        code, out, err = run(capsys, "dump", path, "--deep", *named, *words)
        assert code == 0, err
        return objects(out)

    return dump


def of_kind(rows: list[dict[str, Any]], kind: str) -> list[dict[str, Any]]:
    return [row for row in rows if row["kind"] == kind]


def offsets(rows: list[dict[str, Any]]) -> list[int]:
    """The offsets of the records."""
    return [row["offset"] for row in of_kind(rows, "record")]
