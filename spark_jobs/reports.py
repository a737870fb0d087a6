"""Report folders of the jobs, and what they print about rows."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from kafkats.flow.proving import Proof
from kafkats.migration.census import summarize
from kafkats.plans.facts import make_folder, summary, write_report, write_table

PRINTED: Final = 200
"""Lines that a job prints about rows; its report has them all."""


def keep(segments: pa.Table, folder: Path | None, **more: Any) -> Mapping[str, Any]:
    """The summary of what was seen; with a folder also written there, beside the rows themselves."""
    seen = summary(segments)
    if folder is not None:
        write_report(folder, segments, seen)
        more["report"] = str(folder)
    return seen | more


def keep_census(census: pa.Table, folder: Path | None) -> Mapping[str, Any]:
    """Bytes and batches per magic; with a folder all rows are also written there."""
    said: dict[str, Any] = dict(summarize(census))
    if folder is not None:
        make_folder(folder, "the report")
        write_table(folder / "census.parquet", census)
        said["report"] = str(folder)
    return said


def keep_proof(proof: Proof, folder: Path | None, **more: Any) -> Mapping[str, Any]:
    """What a proof found, printed and as `keep`; exit code 1 unless every file is as it should be."""
    print_proof(proof)
    return {
        **keep(proof.segments, folder, **proof.summary(), **more),
        "exit_code": int(bool(proof.not_equal)),
    }


def print_proof(proof: Proof) -> None:
    for line in proof.reasons[:PRINTED]:
        print(f"not as it should be: {line}")


def print_rows(rows: Sequence[Mapping[str, Any]]) -> None:
    """One JSON object per row."""
    print_lines(map(json.dumps, rows), len(rows))


def print_lines(lines: Iterable[str], count: int) -> None:
    for _, line in zip(range(PRINTED), lines, strict=False):
        print(line)
    if count > PRINTED:
        print(f"... and {count - PRINTED} more")
