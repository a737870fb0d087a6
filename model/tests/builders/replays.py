"""Scripts for `kafkats replay`, and what lies on the disks of their brokers."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from kafkats.formats import message_set
from kafkats.formats.dispatch import batches
from tests.builders.commands import objects, run

Step: TypeAlias = dict[str, Any]
Row: TypeAlias = dict[str, Any]
BEGIN = 1_704_067_200_000
"""The clock of a script at its begin: 2024-01-01T00:00:00Z."""


def broker(name: str = "1", kafka: str = "kip", **config: str) -> Step:
    return {"do": "broker", "broker": name, "kafka": kafka, "config": config}


def step(do: str, name: str = "1", partition: str = "t-0", **fields: Any) -> Step:
    return {"do": do, "broker": name, "partition": partition, **fields}


def create(name: str = "1", partition: str = "t-0", **config: str | int) -> Step:
    """A partition; `message_format_version="1"` is `message.format.version`."""
    named = {key.replace("_", "."): value for key, value in config.items()}
    return step("create", name, partition, config=named)


def restart(name: str = "1", **config: str | int) -> Step:
    named = {key.replace("_", "."): value for key, value in config.items()}
    return {"do": "restart", "broker": name, "config": named}


def records(*timestamps: int) -> list[dict[str, Any]]:
    return [{"timestamp": t, "key": f"k{n}", "value": f"v{n}"} for n, t in enumerate(timestamps)]


class Replay:
    """The command line, in this process: `kafkats replay`, and commands on what it leaves."""

    def __init__(self, capsys: pytest.CaptureFixture[str], folder: Path) -> None:
        self._capsys, self.folder = capsys, folder

    def __call__(self, *steps: Step) -> list[Row]:
        """Run `kafkats replay`; return the rows of its steps without `broker` and `create`."""
        script = self.folder / "script.jsonl"
        script.write_text("".join(json.dumps(one) + "\n" for one in steps))
        rows = self.run("replay", script, "-o", self.folder / "out", "--json")
        return [row for row in rows if row.get("do", "broker") not in ("broker", "create")]

    def run(self, *words: object) -> list[Row]:
        """Run a command that prints JSON and ends with 0."""
        code, out, err = run(self._capsys, *words)
        assert code == 0, err
        return objects(out)

    def root(self, name: str = "1") -> Path:
        return self.folder / "out" / f"broker-{name}"

    def file(
        self, kind: str = ".log", name: str = "1", base: int = 0, partition: str = "t-0"
    ) -> Path:
        return self.root(name) / partition / f"{base:020}{kind}"

    def dump(self, path: Path) -> list[Row]:
        """Run `kafkats dump --deep --json`."""
        return self.run("dump", "--deep", path)


def outcomes(rows: Sequence[Row]) -> list[str]:
    return [row["outcome"] for row in rows]


def inner_offsets(data: bytes, number: int = 0) -> list[int]:
    """The offsets inside a wrapper of `data`, as they are stored."""
    batch = list(batches(data))[number]
    _, frames = message_set.wrapped(data, batch, broken_lz4=batch.magic == 0)
    return [frame.offset for frame in frames]


def compressed(data: bytes, number: int = 0) -> bytes:
    """The compressed bytes of a wrapper of `data`."""
    return bytes(message_set.value_of(data, list(batches(data))[number]))
