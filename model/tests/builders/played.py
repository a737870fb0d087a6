"""Partitions that `kafkats replay` makes, for tests of what other commands say of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kafkats_model.broker.replay import BEGIN_MS as T
from tests.builders.commands import objects, run

HOUR = 3_600_000
DAY = 24 * HOUR
DENSE = {"index.interval.bytes": 0}
"""An index entry with every append but a segment's first."""

Row = dict[str, Any]


class Played:
    """A script and what it leaves, as the commands show it."""

    def __init__(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.folder, self.capsys = folder, capsys
        self.out = folder / "out"
        self.root = self.out / "broker-1"
        """The log directory of broker 1."""

    def __call__(self, *steps: Row) -> list[Row]:
        """The rows of `kafkats replay`."""
        script = self.folder / "script.jsonl"
        script.write_text("".join(json.dumps(one) + "\n" for one in steps))
        code, out, err = run(self.capsys, "replay", script, "-o", self.out, "--json")
        assert code == 0, err
        *rows, _ = objects(out)
        return rows

    def path(self, base: int = 0, kind: str = "timeindex", name: str = "t-0") -> Path:
        return self.root / f"{name}/{base:020d}.{kind}"

    def times(self, base: int = 0, name: str = "t-0") -> list[tuple[int, int]]:
        """Time index entries: (timestamp - T, offset)."""
        rows = self.dump(base, "timeindex", name)
        return [(r["timestamp"] - T, r["offset"]) for r in rows if r["kind"] == "time-entry"]

    def dump(self, base: int, kind: str, name: str = "t-0") -> list[Row]:
        code, out, _ = run(self.capsys, "dump", self.path(base, kind, name))
        assert code == 0
        return objects(out)

    def bases(self) -> list[int]:
        return sorted(int(p.stem) for p in (self.root / "t-0").glob("*.log"))


def begin(kafka: str = "kip", **config: Any) -> list[Row]:
    return [{"do": "broker", "broker": "1", "kafka": kafka}, step("create", config=config)]


def step(do: str, **fields: Any) -> Row:
    return {"do": do, "broker": "1", "partition": "t-0", **fields}


def send(*times: int, at: int | None = None, version: int = 2) -> Row:
    """One request with a message per time, all relative to T; the clock moves to `at`."""
    clock = {} if at is None else {"at": T + at}
    records = [{"timestamp": T + time, "key": "k", "value": "v"} for time in times]
    return step("produce", version=version, records=records, **clock)


def old(at: int | None = None) -> Row:
    """A message of magic 0, which has no timestamp."""
    clock = {} if at is None else {"at": T + at}
    return step("produce", version=1, records=[{"key": "k", "value": "v"}], **clock)


def restart(**fields: Any) -> Row:
    return {"do": "restart", "broker": "1", **fields}
