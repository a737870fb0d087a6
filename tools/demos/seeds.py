"""The demo of the documents: the matrix of requests and formats, the phases, a canary and the limit for timestamps, played by brokers.

Called by scripts/demo, which sets the environment. Plays the scripts model/docs/seeds/*.jsonl with `kafkats replay`. Proved is that each
cell is what KIP-31 and KIP-32 say, and that `kafkats verify` finds nothing in the log directories.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from rich.table import Table

from kafkats_model.broker.script import Create, Fetch, Produce, read_script
from tools import demo_kip228
from tools.demo_stage import HOME, begin, console

SCRIPTS = Path(__file__).parents[2] / "model" / "docs" / "seeds"
PLAYED = ("phases", "canary", "threshold")
TYPES = {"CreateTime": "ct", "LogAppendTime": "lat"}


class Cell(NamedTuple):
    """A produce request to a partition of its own, and fetches of it."""

    version: int
    codec: str
    disk: int
    kind: str
    produced: dict[str, Any]
    fetched: dict[int, dict[str, Any]]


def replay(name: str, *more: str) -> list[dict[str, Any]]:
    """Play model/docs/seeds/NAME.jsonl into a folder of the demo; return its rows."""
    words = ["replay", str(SCRIPTS / f"{name}.jsonl"), "-o", str(HOME / name), *more]
    return [json.loads(line) for line in kafkats(*words, "--json").splitlines()][:-1]


def kafkats(*words: str) -> str:
    """Standard output of the command, which must end with 0."""
    done = subprocess.run(
        [sys.executable, "-m", "kafkats", *words], stdout=subprocess.PIPE, text=True
    )
    if done.returncode:
        raise SystemExit(f"kafkats {' '.join(words)}: exit code {done.returncode}\n{done.stdout}")
    return done.stdout


def cells(rows: list[dict[str, Any]]) -> Iterator[Cell]:
    """The cells of the matrix, in the order of the script."""
    by_line = {row["line"]: row for row in rows}
    created: dict[str, Create] = {}
    steps = read_script(SCRIPTS / "matrix.jsonl")
    for line, step in steps:
        if isinstance(step, Create):
            created[step.partition] = step
        if isinstance(step, Produce):
            config = created[step.partition].config
            disk = ("0.9.0", "0.10.0", "0.11.0").index(str(config["message.format.version"]))
            kind = TYPES[str(config["message.timestamp.type"])]
            fetched = {
                one.version: by_line[number]
                for number, one in steps
                if isinstance(one, Fetch) and one.partition == step.partition
            }
            yield Cell(step.version, step.codec, disk, kind, by_line[line], fetched)


def expected(cell: Cell) -> str:
    """The outcome of a produce request as KIP-31 words it."""
    sent = cell.version - 1
    if sent != cell.disk:
        return "converted"
    return "recompressed" if sent == 0 and cell.codec != "none" else "in place"


def differences(cell: Cell) -> Iterator[str]:
    """What of a cell is not as the documents say."""
    name = cell.produced["partition"]
    if cell.produced["outcome"] != expected(cell):
        yield f"{name}: {cell.produced['outcome']}, not {expected(cell)}"
    stamped = cell.kind == "lat" and cell.version == 2
    if (cell.produced["timestamp"] >= 0) != stamped:
        yield f"{name}: the response's timestamp is {cell.produced['timestamp']}"
    for version, row in cell.fetched.items():
        newer = cell.disk > {1: 0, 2: 1, 4: 2}[version]
        if row["outcome"] != ("converted" if newer else "as stored"):
            yield f"{name}: fetch version {version}: {row['outcome']}"


def produce_table(every: list[Cell]) -> Table:
    """A row per request, a column per format on the disk."""
    table = Table("request", "codec", "type", *(f"disk v{disk}" for disk in range(3)), box=None)
    for version in (1, 2):
        for codec in ("none", "gzip", "snappy", "lz4"):
            for kind in TYPES.values():
                of = [c for c in every if (c.version, c.codec, c.kind) == (version, codec, kind)]
                table.add_row(
                    f"produce v{version}", codec, kind, *(produced(c.produced) for c in of)
                )
    return table


def produced(row: dict[str, Any]) -> str:
    stamped = ", stamped" if row["timestamp"] >= 0 else ""
    return f"{row['outcome']} {row['bytes']}{cpu(row)}{stamped}"


def fetch_table(every: list[Cell]) -> Table:
    """A row per format and codec on the disk, a column per version of fetch."""
    table = Table(
        "disk", "codec", "stored", *(f"fetch v{version}" for version in (1, 2, 4)), box=None
    )
    for cell in every:
        if (cell.version, cell.kind) == (2, "ct"):
            row = (f"{one['outcome']} {one['bytes']}{cpu(one)}" for one in cell.fetched.values())
            table.add_row(f"v{cell.disk}", cell.codec, str(cell.produced["bytes"]), *row)
    return table


def cpu(row: dict[str, Any]) -> str:
    """Processor time, where the row has it."""
    return f" {row['cpu_us']} us" if "cpu_us" in row else ""


def main() -> int:
    begin()
    every = list(cells(replay("matrix")))
    console.rule("[bold]1 Produce requests: what the leader does, and bytes on its disk")
    console.print(
        "Sent are 90 messages. ct: CreateTime, lat: LogAppendTime; stamped: the response has the broker's time."
    )
    console.print(produce_table(every))
    console.rule("[bold]2 Fetches: what a consumer receives, and bytes sent")
    console.print(fetch_table(every))
    for number, name in enumerate(PLAYED, 3):
        console.rule(f"[bold]{number} kafkats replay model/docs/seeds/{name}.jsonl")
        console.print(
            kafkats("replay", str(SCRIPTS / f"{name}.jsonl"), "-o", str(HOME / name)), markup=False
        )
    console.rule("[bold]KIP-228: what a broker records, and what a consumer reads")
    played = demo_kip228.tables(replay("kip228-tables", "--not-for-a-broker"))
    for table in demo_kip228.shown(played):
        console.print(table)
    wrong = [text for cell in every for text in differences(cell)]
    wrong += demo_kip228.differences(played)
    for text in wrong:
        console.print(f"DIFFERENT {text}")
    kafkats("verify", str(HOME / "matrix" / "broker-1"), "--deep")
    console.print(
        f"{len(every)} produce requests and {3 * len(every)} fetches, and KIP-228's cells: {len(wrong)} are not as the documents say"
    )
    return bool(wrong) or len(every) != 48


if __name__ == "__main__":
    sys.exit(main())
