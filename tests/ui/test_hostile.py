"""What is in the folder of all runs may be broken or hostile: a page says so, and neither fails, hangs nor runs it."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.ui.folders import change, ended, live, volume, write
from tests.ui.harness import every_route

NOW_MS = time.time_ns() // 1_000_000
RUN = "dag_id=rebuild_time_indexes&run_id=r1"
DATA = "&partition=t-0&log_dir=/data&topic=t&retention_ms=5&at=now"
HUGE = 10**400
LONE = "\ud800"


def everything(client: Any) -> dict[str, Any]:
    """Every route's answer about the run, by path."""
    found = {}
    for path in every_route():
        more = DATA.replace("at=now", "at=5&to=json&partition=0") if "offsets" in path else DATA
        answer = client.get(f"/kafkats{path}?{RUN}{more}", follow_redirects=False)
        found[path] = answer
    return found


def none_fails(client: Any) -> None:
    for path, answer in everything(client).items():
        assert answer.status_code < 500, (path, answer.text[:2000])
        assert answer.headers["content-security-policy"].startswith("default-src 'none'"), path


def question(**more: Any) -> dict[str, Any]:
    plan = {"plan": "/x/plan-1", "digest": "d" * 64, "totals": {"files": 3}}
    return {
        "options": {"apply": ["d" * 64], "reject": []},
        "plans": [plan],
        "asked_ms": NOW_MS,
        "until_ms": NOW_MS + 10**6,
        "run_id": "r1",
        "digest": "e" * 64,
        "task_id": "approve",
    } | more


@pytest.mark.slow(1)
@pytest.mark.examples(5)
@pytest.mark.parametrize(
    "name",
    [
        "overview.json", "report.json", "question.json", "approval.json", "progress-plan-0.json",
        "board.json", "what-if.json", "spark_default/run-1/run.json", "spark_default/run-1/report.json",
        "spark_default/plan-1/plan.json",
    ],
)  # fmt: skip
@pytest.mark.parametrize(
    "content",
    ["[]", '{"a":' * 100_000, "\ud800", '{"format": NaN, "volumes": "x", "tables": [3]}'],
    ids=["list", "deep", "no-utf8", "types"],
)
def test_a_broken_file_breaks_no_page(client: Any, folder: Path, name: str, content: str) -> None:
    run = ended(folder, NOW_MS, volume("/data"), run="r1")
    (run / name).parent.mkdir(parents=True, exist_ok=True)
    (run / name).write_bytes(content.encode(errors="surrogatepass"))
    none_fails(client)


@pytest.mark.parametrize("number", [HUGE, 2**63, 10**18])
def test_numbers_that_no_time_or_size_has(client: Any, folder: Path, number: int) -> None:
    run = ended(
        folder, number, volume("/data", bytes=number, kinds={"damage": {"k": number}}), run="r1"
    )
    live(run, number, task="plan", bytes=number, of_bytes=number, seconds_left=number)
    write(run / "question.json", question(asked_ms=number, until_ms=number))
    undo = change(run, "f" * 64, {"/data": number}, number)
    overview = json.loads((run / "overview.json").read_text()) | {"undo": [undo]}
    write(run / "overview.json", overview)
    none_fails(client)
    (run / "overview.json").unlink()
    (run / "report.json").unlink()
    none_fails(client)


def test_texts_that_utf8_cannot_write(client: Any, folder: Path) -> None:
    run = ended(folder, NOW_MS, run="r1")
    (run / "overview.json").unlink()
    write(run / "report.json", {"outcome": LONE, "volumes": [f"/data/{LONE}"]})
    none_fails(client)
    os.mkdir(os.fsencode(run.parent) + b"/\xff\xfe")
    none_fails(client)


@pytest.mark.slow(4)
def test_parquet_of_other_types(client: Any, folder: Path) -> None:
    run = ended(folder, NOW_MS, volume("/data"), run="r1")
    plan = run / "spark_default" / "plan-1"
    write(
        run / "question.json",
        question(plans=[{"plan": str(plan), "digest": "d" * 64, "totals": {"files": 1}}]),
    )
    write(plan / "plan.json", {"operation": "rebuild"})
    bad = pa.array([b"\xff\xfe"]).cast(pa.binary())
    text = pa.Array.from_buffers(pa.string(), 1, bad.buffers())
    names = ["log_dir", "partition_dir", "file", "action", "reason"]
    state = pa.array([{"size": 1}])
    for cell in (text, pa.array([1]), pa.array(["a\0b"]), pa.array([None], pa.string())):
        for before in (
            state,
            pa.array([5]),
            pa.array([{"size": None, "mtime_ns": 3}]),
            pa.array([{"size": "x", "mtime_ns": "y"}]),
        ):
            columns = dict.fromkeys(names, cell) | {
                "directory_ctime_ns": pa.array([1]), "after_bytes": pa.array(["x"]), "before": before, "log": before,
            }  # fmt: skip
            pq.write_table(pa.table(columns), plan / "items.parquet")
            none_fails(client)
            answer = client.get(f"/kafkats/plan?{RUN}&find=a&action=b")
            assert answer.status_code == 200, answer.text
    for name in (
        "segments.parquet",
        "after.parquet",
        "retention.parquet",
        "x/cells.parquet",
        "x/clouds.parquet",
    ):
        (run / name).parent.mkdir(exist_ok=True)
        pq.write_table(pa.table(columns), run / name)
    none_fails(client)


def test_no_link_pipe_or_device_is_read(client: Any, folder: Path, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    other = ended(secret, NOW_MS, volume("/secret"), run="r1")
    change(other, "f" * 64, {"/secret": 5}, None)
    write(
        other / "spark_default/run-ffffffffffffffff/run.json",
        {"operation": "SECRET", "run_id": "SECRET", "digest": "SECRET"},
    )
    run = folder / "rebuild_time_indexes" / "r1"
    run.mkdir(parents=True)
    (run / "spark_default").symlink_to(other / "spark_default")
    (run / "overview.json").symlink_to(other / "overview.json")
    os.mkfifo(run / "report.json")
    (run / "question.json").symlink_to("/dev/zero")
    (run / "loop").symlink_to(run)
    for path, answer in everything(client).items():
        assert answer.status_code < 500, path
        assert "secret" not in answer.text.lower(), (path, answer.text)


def test_a_dag_folder_that_is_a_link_is_not_read(client: Any, folder: Path, tmp_path: Path) -> None:
    other = ended(tmp_path / "other", NOW_MS, volume("/secret"), dag="apply_retention", run="r1")
    (folder / "rebuild_time_indexes").symlink_to(other.parent)
    for path, answer in everything(client).items():
        assert "/secret" not in answer.text, path


def test_paths_that_cannot_be_looked_at(client: Any, folder: Path) -> None:
    """The system refuses them with an error that pathlib raises, as it does for a broker's folder."""
    long = "/" + "x" * 5000
    run = ended(folder, NOW_MS, volume(long), dag="build_lookup_tables", run="r1")
    report = {"outcome": "built", "tables": [{"table": long, "from_ms": 1, "to_ms": 2}]}
    write(run / "report.json", report)
    answer = client.get("/kafkats/run-offsets?dag_id=build_lookup_tables&run_id=r1")
    assert answer.status_code == 200, answer.text
    run = ended(folder, NOW_MS, volume(long), run="r1")
    undo = change(run, "f" * 64, {long: 5}, None) | {"run": long}
    overview = json.loads((run / "overview.json").read_text()) | {"undo": [undo]}
    write(run / "overview.json", overview)
    none_fails(client)


def test_a_failure_has_the_headers_too(
    client: Any, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from kafkats_airflow.reading import runs

    def broken(*_: Any) -> None:
        raise RuntimeError("/secret")

    monkeypatch.setattr(runs, "runs_in", broken)
    answer = client.get("/kafkats/runs")
    assert answer.status_code == 500
    assert "/secret" not in answer.text
    assert answer.headers["content-security-policy"].startswith("default-src 'none'")
    assert answer.headers["cache-control"] == "no-store"
    assert answer.headers["x-content-type-options"] == "nosniff"


TWICE = """{"format": 1, "dag_id": "d", "run_id": "r1", "written_ms": 1, "outcome": "",
    "volumes": [], "volumes": [{"log_dir": "/second"}]}"""


def test_a_key_that_is_there_twice_is_no_report(client: Any, folder: Path) -> None:
    """Another program may take the other value: neither is shown as what the run wrote."""
    run = ended(folder, NOW_MS, volume("/data"), run="r1")
    write(run / "overview.json", TWICE)
    none_fails(client)
    text = client.get(f"/kafkats/run?{RUN}").text
    assert "the key &#39;volumes&#39; is there twice" in text and "/second" not in text


def test_a_file_that_is_too_large_says_how_large_it_is(client: Any, folder: Path) -> None:
    run = ended(folder, NOW_MS, volume("/data"), run="r1")
    with (run / "report.json").open("wb") as file:
        file.truncate(2**40)  # no byte of it is on the disk
    none_fails(client)
    assert f"too large to show: {2**40} bytes" in client.get(f"/kafkats/run?{RUN}").text


TEXTS = 1_000
"""How often a bomb repeats its text."""
TEXT = "x" * 2_000_000


POOL = pa.proxy_memory_pool(pa.default_memory_pool())
"""Counts what Arrow takes in some tests. It has to outlive all that was read with it."""


@pytest.fixture
def pool() -> Iterator[pa.MemoryPool]:
    """Counts what Arrow takes from here on."""
    before = pa.default_memory_pool()
    pa.set_memory_pool(POOL)
    yield POOL
    pa.set_memory_pool(before)


def bomb(path: Path, schema: pa.Schema, column: str, *, said: bool) -> None:
    """A table in which all rows have the same large text, which is in the file once.

    `said`: the file also has Arrow's own schema, by which readers keep the text as a dictionary.
    """
    rest = {one.name: pa.nulls(TEXTS, one.type) for one in schema if one.name != column}
    codes = pa.array([0] * TEXTS, pa.int32())
    text = pa.DictionaryArray.from_arrays(codes, pa.array([TEXT]))
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table(rest | {column: text}), path, store_schema=said)
    assert path.stat().st_size < 2 * len(TEXT)


@pytest.mark.parametrize("said", [True, False])
@pytest.mark.parametrize("column", ["partition_dir", "log_dir", "bytes"])
def test_a_text_in_every_row_is_not_unpacked(
    tmp_path: Path, pool: pa.MemoryPool, column: str, said: bool
) -> None:
    from kafkats_airflow.reading.files import Unreadable
    from kafkats_airflow.ui.reading.tables import table_of

    from kafkats.recovery.look import RECOVERY

    bomb(path := tmp_path / "recovery.parquet", RECOVERY, column, said=said)
    found = table_of(path, RECOVERY.names, coded=("log_dir",))
    if column == "log_dir":  # it stays as it is in the file
        assert isinstance(found, pa.Table) and found.num_rows == TEXTS
    elif column == "partition_dir" or not said:
        assert isinstance(found, Unreadable)
        assert found.why.startswith("too large to show: ")
        assert int(found.why.split()[4]) >= TEXTS * len(TEXT)
    assert pool.max_memory() < 20 * len(TEXT) < TEXTS * len(TEXT)


def test_a_text_in_a_list_in_every_row_is_not_unpacked(
    tmp_path: Path, pool: pa.MemoryPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As the findings of segments are."""
    from kafkats_airflow.reading.files import Unreadable
    from kafkats_airflow.ui.reading import tables

    many = 50
    rows = pa.array([[{"reason": TEXT[:200_000]}] * 2] * many)
    pq.write_table(pa.table({"findings": rows}), path := tmp_path / "t.parquet", store_schema=False)
    table = tables.table_of(path, ["findings"])
    assert isinstance(table, pa.Table) and table["findings"].type == rows.type
    monkeypatch.setattr(tables, "MOST_BYTES", 1_000_000)
    found = tables.table_of(path, ["findings"])
    assert found == Unreadable(path, f"too large to show: {2 * many * 200_000} bytes, and a page reads at most 1000000")  # fmt: skip


@pytest.mark.parametrize("name", ["segments.parquet", "recovery.parquet"])
def test_rows_that_are_in_no_byte_of_the_file(client: Any, folder: Path, name: str) -> None:
    """A column of one value takes some bytes, however many rows it has."""
    run = ended(folder, NOW_MS, volume("/data"), run="r1")
    rows = pa.array(np.zeros(5_000_001, np.int8))
    pq.write_table(pa.table({"base_offset": rows}), run / name)
    assert (run / name).stat().st_size < 100_000
    none_fails(client)
    answers = "".join(one.text for one in everything(client).values())
    assert "too large to show: 5000001 rows, and a page reads at most 5000000" in answers


def nested(value: pa.Array) -> pa.Array:
    for _ in range(90):
        value = pa.ListArray.from_arrays(pa.array([0, 1], pa.int32()), value)
    return value


@pytest.mark.parametrize(
    "value",
    [
        nested(pa.array([1])),
        pa.array(["x"]),
        pa.array([None]),
        pa.array([2**62]),
        pa.array([{"a": 1}]),
    ],
    ids=["deep", "text", "null", "number", "struct"],
)
def test_tables_with_the_right_names_and_other_values(
    client: Any, folder: Path, value: pa.Array
) -> None:
    from kafkats.lookup.record_scatter import CLOUDS
    from kafkats.plans.facts import SEGMENTS
    from kafkats.recovery.look import RECOVERY
    from kafkats.retention.plan import RETENTION
    from kafkats.tables import TABLE

    run = ended(folder, NOW_MS, volume("/data"), run="r1")
    ours = {
        "segments.parquet": SEGMENTS, "after.parquet": SEGMENTS, "recovery.parquet": RECOVERY,
        "retention.parquet": RETENTION, "x/cells.parquet": TABLE, "x/clouds.parquet": CLOUDS,
        "census.parquet": SEGMENTS,
    }  # fmt: skip
    for name, schema in ours.items():
        (run / name).parent.mkdir(exist_ok=True)
        pq.write_table(pa.table(dict.fromkeys(schema.names, value)), run / name)
    none_fails(client)


def test_a_pipe_in_place_of_a_file_hangs_no_page(client: Any, folder: Path, tmp_path: Path) -> None:
    """Whoever opens a pipe waits for its other end: a file of a lookup table, a ledger, any file."""
    os.mkfifo(pipe := tmp_path / "ledger.jsonl")
    table = tmp_path / "table"
    table.mkdir()
    os.mkfifo(table / "cells-1.parquet")
    part = {"name": "cells-1.parquet", "from_ms": 0, "to_ms": 1000, "rows": 1, "open": 0, "bytes": 1, "sha256": "0" * 64}  # fmt: skip
    manifest = {"table_version": 1, "step_ms": 1000, "covered": [[0, 1000]], "files": [part]}
    write(table / "_table.json", manifest)
    run = ended(folder, NOW_MS, volume("/data"), dag="build_lookup_tables", run="r1")
    told = {"table": str(table), "from_ms": 0, "to_ms": 1000}
    write(run / "report.json", {"outcome": "built", "tables": [told], "ledger": str(pipe)})
    answer = client.get("/kafkats/run-offsets?dag_id=build_lookup_tables&run_id=r1")
    assert answer.status_code == 200
    data = client.get("/kafkats/data/offsets?dag_id=build_lookup_tables&run_id=r1&at=5&topic=t&partition=0&to=json")  # fmt: skip
    assert data.status_code == 422 and "no plain file" in data.text
    migrated = ended(folder, NOW_MS, volume("/data"), dag="migrate_message_format", run="r1")
    magic = {"before": [0, 1, 2], "after": [0, 0, 3]}
    write(migrated / "report.json", {"outcome": "x", "phase": "census", "magic_bytes": magic, "ledger": str(pipe)})  # fmt: skip
    answer = client.get("/kafkats/run-migration?dag_id=migrate_message_format&run_id=r1")
    assert answer.status_code == 200, answer.text
    for name in ("census.parquet", "burn-down.json", "zero-copy.json", "segments.parquet", "x/cells.parquet", "x/clouds.parquet", "board.json", "what-if.json"):  # fmt: skip
        path = folder / "rebuild_time_indexes" / "r1" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        os.mkfifo(path)
    none_fails(client)


@pytest.mark.parametrize(
    "path",
    ["/", "/run/", "/volumes//", "//run", "/%2e%2e/run", "/run%2f", "/static/%2e%2e/app.py"],
)
def test_other_methods_and_spellings_give_nothing_away(
    client: Any, folder: Path, path: str
) -> None:
    ended(folder, NOW_MS, volume("/secret"), run="r1")
    address = f"/kafkats{path}?dag_id=apply_retention&run_id=r1"
    for method in ("HEAD", "OPTIONS", "POST", "TRACE"):
        for token in ("", "viewer"):
            headers = {"Authorization": f"Bearer {token}"}
            answer = client.request(method, address, headers=headers, follow_redirects=False)
            assert 300 <= answer.status_code < 500, answer
            assert "/secret" not in answer.text
            assert "content-security-policy" in answer.headers
            assert answer.headers["cache-control"] == "no-store"


def test_rows_of_a_name_are_found_without_unpacking_other_names(tmp_path: Path) -> None:
    """A text that every row repeats is once in the file, and would be too large a million times."""
    from kafkats_airflow.ui.reading.tables import table_of

    names = pa.DictionaryArray.from_arrays(
        pa.array([0] * 300_000 + [None, 1, 1], pa.int32()), pa.array(["x" * 100_000, "orders"])
    )
    table = pa.table({"topic": names, "row": pa.array(range(300_003))})
    pq.write_table(table, tmp_path / "rows.parquet")
    found = table_of(tmp_path / "rows.parquet", ["topic", "row"], only={"topic": "orders"})
    assert found.to_pylist() == [
        {"topic": "orders", "row": 300_001},
        {"topic": "orders", "row": 300_002},
    ]
    none = table_of(tmp_path / "rows.parquet", ["topic", "row"], only={"topic": "clicks"})
    assert none.num_rows == 0
    whole = table_of(tmp_path / "rows.parquet", ["topic", "row"])
    assert "too large to show" in whole.why
