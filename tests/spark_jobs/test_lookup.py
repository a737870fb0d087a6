"""The jobs of looking up: rows, tables and exports are those of the kafkats command and library."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from kafkats import search, tables
from kafkats.cli import cli
from kafkats.errors import BadInput, UsageError
from kafkats.lookup.partitions import LookupOptions, lookup_partitions
from kafkats.lookup.record_scatter import CLOUDS, clouds_in, read_cloud
from kafkats.plans.facts import read_table
from kafkats.plans.files import read_json
from pyspark_kafkats.execution import SparkExecutor
from tests.answers import lookup
from tests.golden import Unpacked
from tests.spark_jobs.words import job

CASE = "timestamps-4.3.1"
HOUR_MS = 3_600_000
FIRST = 444_444 * HOUR_MS
"""The hour that most records of the case are of."""
TIMES = [FIRST + 1_600_000, FIRST + 1_600_500, FIRST + 3 * HOUR_MS]


def looked_up(executor: SparkExecutor, *given: object) -> dict[str, Any]:
    return job(executor, "lookup", *given)


def exported(executor: SparkExecutor, *given: object) -> dict[str, Any]:
    return job(executor, "export", *given)


def content(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.name != ".lock"}


@pytest.mark.parametrize(("how", "generation"), [("exact", "3.8"), ("kafka", "0.11")])
def test_the_rows_of_the_library(
    executor: SparkExecutor, golden: Unpacked, tmp_path: Path, how: str, generation: str
) -> None:
    root = golden(CASE, "data")
    words = [word for ms in TIMES for word in ("--at", ms)]
    more = [
        "--at",
        "latest",
        "--how",
        how,
        "--generation",
        generation,
        "--report",
        tmp_path / "rows",
    ]
    said = looked_up(executor, root, *words, *more)
    ours = pq.read_table(tmp_path / "rows" / "lookup.parquet")
    theirs = lookup([root], [*TIMES, search.Word.LATEST], LookupOptions(how, generation))
    assert ours.to_pylist() == theirs.to_pylist()
    assert (said["times"], said["unreadable"], said["exit_code"]) == (4, 0, 0)
    assert said["partitions"] * 4 == theirs.num_rows > 0


def test_what_cannot_be_read_fails_the_job_unless_told_to_go_on(
    executor: SparkExecutor, golden: Unpacked, tmp_path: Path
) -> None:
    root = tmp_path / "data"
    shutil.copytree(golden(CASE, "data"), root)
    log = root / "ts-equal-0" / f"{0:020d}.log"
    data = bytearray(log.read_bytes())
    data[40] ^= 1
    log.write_bytes(data)
    said = looked_up(executor, root, "--at", TIMES[0])
    assert (said["unreadable"], said["exit_code"]) == (1, 1)
    assert looked_up(executor, root, "--at", TIMES[0], "--go-on")["exit_code"] == 0


@pytest.mark.parametrize("exact", [[], ["--depth", "full"]], ids=["indexes", "exact"])
def test_the_table_of_the_library(
    executor: SparkExecutor, golden: Unpacked, tmp_path: Path, exact: list[str]
) -> None:
    root = golden(CASE, "data")
    hours = [(FIRST + n * HOUR_MS, FIRST + (n + 1) * HOUR_MS) for n in (1, 0)]
    for begin, end in hours:
        said = looked_up(
            executor,
            root,
            "--every",
            "1s",
            "--from",
            begin,
            "--until",
            end,
            "-o",
            tmp_path / "spark",
            *exact,
        )
        theirs = tables.build(
            tmp_path / "library", lookup_partitions([root]), begin, end, step_ms=1000
        )
        assert {name: said[name] for name in theirs._fields} == theirs._asdict()
        assert theirs.added > 0
    ours, others = content(tmp_path / "spark"), content(tmp_path / "library")
    assert ours == others
    assert len(ours) == 3, "two hours and the manifest"


@pytest.mark.slow(1)
def test_what_is_kept_for_pictures(
    executor: SparkExecutor, golden: Unpacked, tmp_path: Path
) -> None:
    root = golden("retention-4.1.0", "after")
    words = [
        "--every",
        "1s",
        "--from",
        FIRST,
        "--until",
        FIRST + HOUR_MS,
        "-o",
        tmp_path / "t",
        "--report",
        tmp_path / "r",
    ]
    said = looked_up(executor, root, *words)
    rows = tables.read(tmp_path / "t").rows
    clouds = clouds_in(read_table(tmp_path / "r" / "clouds.parquet", CLOUDS))
    assert set(clouds) == set(tables.busiest(rows))
    for (topic, partition), cloud in clouds.items():
        ours, _ = read_cloud(root / f"{topic}-{partition}", FIRST, FIRST + HOUR_MS)
        assert (cloud.offset.tolist(), cloud.late.tolist()) == (
            ours.offset.tolist(),
            ours.late.tolist(),
        )
    assert sum(len(cloud.offset) for cloud in clouds.values()) > 100
    assert read_json(tmp_path / "r" / "report.json")["added"] == said["added"]
    at, edge = FIRST + 1_650_000, 2**63 - 1
    for target, around in ((at, "20s"), (at, "0s"), (edge, "1d"), (0, "1d"), (-5, "1s")):
        asked = [
            "--at",
            target,
            "--around",
            around,
            "--at",
            "latest",
            "--report",
            tmp_path / f"{target}-{around}",
        ]
        step_ms = looked_up(executor, root, *asked)["cells_step_ms"]
        assert step_ms == (0 if target == edge else 288_000 if around == "1d" else 1000)
        if step_ms:
            cells = read_table(tmp_path / f"{target}-{around}" / "cells.parquet", tables.TABLE)
            times = set(cells["timestamp"].to_pylist())
            assert min(times) <= target < max(times) + step_ms


def test_a_broker_with_none_of_the_topics(
    executor: SparkExecutor, golden: Unpacked, tmp_path: Path
) -> None:
    root, more = golden(CASE, "data"), ["--topics", "none-like-this"]
    said = looked_up(
        executor,
        root,
        *more,
        "--every",
        "1m",
        "--from",
        FIRST,
        "--until",
        FIRST + HOUR_MS,
        "-o",
        tmp_path / "t",
    )
    assert (said["added"], tables.read_manifest(tmp_path / "t").covered) == (
        0,
        ((FIRST, FIRST + HOUR_MS),),
    )
    assert looked_up(executor, root, *more, "--at", FIRST, "--go-on")["partitions"] == 0


def test_the_exports_of_the_command(
    executor: SparkExecutor, golden: Unpacked, tmp_path: Path
) -> None:
    root = golden(CASE, "data")
    begin, end = FIRST, FIRST + HOUR_MS
    looked_up(
        executor, root, "--every", "1s", "--from", begin, "--until", end, "-o", tmp_path / "table"
    )
    for place in (root, tmp_path / "table"):
        for to, more in (
            ("spark-offsets", ["--until", TIMES[1]]),
            ("group-csv", ["--group", "copies"]),
            ("json", ["--margin", "1s"]),
        ):
            asked = [place, "--at", TIMES[0], "--to", to, "--missing", "all", *more]
            ours, theirs = tmp_path / "ours", tmp_path / "theirs"
            said = exported(executor, *asked, "-o", ours)
            ran = CliRunner().invoke(cli, [str(word) for word in ("export", *asked, "-o", theirs)])
            assert said["exit_code"] == ran.exit_code, ran.output
            assert ours.read_bytes() == theirs.read_bytes() != b""


@pytest.mark.parametrize(
    "words",
    [
        [],
        ["--at", "0", "--every", "1m"],
        ["--every", "1m", "--from", "0"],
        ["--at", "noon"],
        ["--at", "0", "--topics", "none-like-this"],
        ["--every", "1ms", "--from", "0", "--until", "1000", "-o", "unused"],
    ],
    ids=" ".join,
)
def test_words_that_lead_nowhere(
    executor: SparkExecutor, golden: Unpacked, words: list[str]
) -> None:
    with pytest.raises((UsageError, BadInput)):
        looked_up(executor, golden(CASE, "data"), *words)
