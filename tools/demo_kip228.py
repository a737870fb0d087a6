"""KIP-228's two tables, from a replay of model/docs/seeds/kip228-tables.jsonl: what brokers record, and what consumers read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from rich.table import Table

from kafkats_model.broker.script import Fetch, Produce, read_script

SCRIPT: Final = Path(__file__).parents[1] / "model" / "docs" / "seeds" / "kip228-tables.jsonl"
NONE: Final = "NO_TIMESTAMP (-1)"
EXTENDED: Final = "NO_TIMESTAMP (Long.MIN_VALUE)"
MINUS_1: Final = "-1 ms"
PRODUCERS: Final = {
    "none-of-an-old-producer-0": (f"old producer sends {NONE}", NONE, EXTENDED),
    "none-of-a-new-producer-0": (f"new producer sends {EXTENDED}", NONE, EXTENDED),
    "minus-1-ms-0": (f"new producer sends {MINUS_1}", NONE, MINUS_1),
}
"""Partition -> the row, and its cells for an old and a new broker."""
CONSUMERS: Final = {
    "none-of-an-old-producer-0": ("record has -1, bit 0", NONE, EXTENDED),
    "minus-1-ms-0": ("record has -1, bit 1", NONE, MINUS_1),
    "none-of-a-new-producer-0": (
        "record has Long.MIN_VALUE, bit 1", f"error: {-(2**63)} is negative", EXTENDED,
    ),
}  # fmt: skip
"""Partition -> the row, and its cells for an old and a new consumer."""


class Tables(NamedTuple):
    """The cells as played: partition -> for the old and the new side."""

    producers: dict[str, tuple[str, str]]
    consumers: dict[str, tuple[str, str]]


def tables(rows: Sequence[Mapping[str, Any]]) -> Tables:
    """The cells of a replay of SCRIPT, whose rows are given."""
    times = {row["line"]: str(row.get("time", row["outcome"])) for row in rows}
    sent: dict[str, list[str]] = {}
    read: dict[str, list[str]] = {}
    for line, step in read_script(SCRIPT):
        if isinstance(step, Produce):
            sent.setdefault(step.partition, []).append(times[line])
        elif isinstance(step, Fetch):
            read.setdefault(step.partition, []).append(times[line])
    return Tables(
        {name: (old, new) for name, (old, new) in sent.items()},
        {name: (old, new) for name, (old, new) in read.items()},
    )


def shown(played: Tables) -> Iterator[Table]:
    """Both tables as the text prints them."""
    for side, texts, cells in (
        ("broker", PRODUCERS, played.producers),
        ("consumer", CONSUMERS, played.consumers),
    ):
        table = Table("", f"old {side}", f"new {side}", box=None)
        for name, (text, _, _) in texts.items():
            table.add_row(text, *cells[name])
        yield table


def differences(played: Tables) -> list[str]:
    """What is not as the text says: "error or NO_TIMESTAMP" is either of both."""
    return [
        f"{text}: {cells[name]}"
        for texts, cells in ((PRODUCERS, played.producers), (CONSUMERS, played.consumers))
        for name, (text, *wanted) in texts.items()
        if cells[name] != tuple(wanted)
    ]
