"""layouts: what each index weighs and where it leads, against brute force; its files, which dump reads; what cannot be read."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kafkats.cli import main
from kafkats.errors import UsageError
from kafkats.formats import dispatch
from kafkats.generations import INDEX_INTERVAL_BYTES
from kafkats.inspect.dump import dump
from kafkats.plans.units import list_units
from kafkats_model.index import enriched_index, minute_index
from kafkats_model.layouts import STEPS, LayoutOptions, by_partition, layouts_unit
from kafkats_model.memory_source import array_source
from tests.builders.logs import build
from tests.builders.partitions import T0, Grown, batch, grown
from tests.golden import Unpacked, case
from tests.index.generated import reseal


def looked(root: Path, **given: Any) -> list[dict[str, Any]]:
    options = LayoutOptions(**given)
    return [row for unit in list_units([root]) for row in layouts_unit(unit, options).to_pylist()]


def late_records(folder: Path) -> Grown:
    """Ten minutes, three records a second in batches of three, every tenth batch five seconds late."""
    one = grown(folder, "late-0")
    times = [T0 + n * 1000 - (5000 if n % 10 == 9 else 0) for n in range(600)]
    with (one.path / f"{0:020d}.log").open("wb") as file:
        for n, time in enumerate(times):
            file.write(batch(3 * n, time, time + 1, time + 2))
    return one


def test_where_each_leads_and_what_it_weighs(tmp_path: Path) -> None:
    one = late_records(tmp_path / "data")
    log = (one.path / f"{0:020d}.log").read_bytes()
    rows = {(row["layout"], row["fill"]): row for row in looked(tmp_path / "data", every_ms=1000)}
    assert set(rows) == {("time-index", ""), ("enriched", "")} | {
        (a, b) for a in STEPS for b in minute_index.OPTIONS
    }
    batches = list(dispatch.batches(log))
    asked = sorted({time // 1000 * 1000 for time in (b.base_timestamp for b in batches)})
    places = [next(b.position for b in batches if b.max_timestamp >= time) for time in asked]
    built = build(np.frombuffer(log, np.uint8), 0)
    for key, row in rows.items():
        assert (row["times"], row["late"], row["reason"]) == (len(asked), 0, ""), key
        assert row["exact"] + row["early"] == len(asked)
    assert rows["time-index", ""]["bytes"] == len(built.time_index)
    assert rows["time-index", ""]["bytes_in_all"] == len(built.time_index) + len(built.offset_index)
    enriched = np.frombuffer(
        enriched_index.build(array_source(np.frombuffer(log, np.uint8)), 0), enriched_index.ENTRY
    )
    begins = enriched_index.lookup(enriched, np.array(asked))
    found = rows["enriched", ""]
    assert found["bytes"] == found["bytes_in_all"] == len(built.offset_index) * 2 == enriched.nbytes
    assert found["bytes_in_vain"] == sum(np.array(places) - begins)
    assert found["most_in_vain"] == max(np.array(places) - begins) > INDEX_INTERVAL_BYTES
    assert rows["minute", "create-time"]["bytes"] == 12 * 10
    assert rows["second", "create-time"]["bytes"] == 12 * len(asked)
    assert (
        rows["minute", "create-time"]["most_in_vain"]
        > rows["second", "create-time"]["most_in_vain"]
    )
    [alone] = [
        row for row in looked(tmp_path / "data", times=(asked[7],)) if row["layout"] == "enriched"
    ]
    assert (alone["times"], alone["bytes_in_vain"]) == (1, places[7] - begins[7])


def test_of_real_segments(golden: Unpacked) -> None:
    """No layout misses a record of what real brokers wrote, and Kafka's is as large as its recovery makes it."""
    one = case("rolling-4.3.1")
    root = golden(one, one.states[-1])
    rows = looked(root)
    assert len({row["base_offset"] for row in rows}) > 5 and not any(
        row["reason"] or row["late"] for row in rows
    )
    together = by_partition(rows)
    for name in ("bytes", "times", "bytes_in_vain"):
        assert sum(row[name] for row in together) == sum(row[name] for row in rows) > 0
    assert sum(row["segments"] for row in together) == len(rows) > len(together)


def test_a_record_above_its_batch_is_told(tmp_path: Path) -> None:
    one = grown(tmp_path / "data", "torn-0")
    log = bytearray(batch(0, T0, T0 + 1, T0 + 2))
    log[23:27] = bytes(4)  # the batch says that it ends with its first record
    reseal(log, 0, len(log))
    (one.path / f"{0:020d}.log").write_bytes(log)
    [row] = looked(tmp_path / "data", every_ms=1)
    assert "a record's offset is 1, above the last one" in row["reason"]


def test_times_that_lie_more_than_63_bits_apart(tmp_path: Path) -> None:
    one = grown(tmp_path / "data", "far-0")
    (one.path / f"{0:020d}.log").write_bytes(
        batch(0, -(2**63)) + batch(1, T0) + batch(2, 2**63 - 1)
    )
    rows = looked(tmp_path / "data", times=(T0, T0 + 1))
    assert [row["times"] for row in rows] == [2] * len(rows)
    assert not any(row["reason"] or row["late"] for row in rows if row["layout"] == "enriched")


def test_the_files_are_put_beside_and_read_by_dump(tmp_path: Path) -> None:
    one = late_records(tmp_path / "data")
    before = sorted(path.name for path in one.path.iterdir())
    looked(tmp_path / "data", folder=tmp_path / "out")
    assert sorted(path.name for path in one.path.iterdir()) == before
    files = {path.name.partition(".")[2]: path for path in (tmp_path / "out" / "late-0").iterdir()}
    assert set(files) == {"timeindex", "enriched.index"} | {
        f"{b}.{a}.time.index" for a in STEPS for b in minute_index.OPTIONS
    }
    minutes = list(dump(files["create-time.minute.time.index"]))
    assert [(row["kind"], row["timestamp"]) for row in minutes] == [
        ("time-entry", T0 + n * 60_000) for n in range(10)
    ]
    data = files["enriched.index"].read_bytes()
    entries = list(dump(files["enriched.index"]))
    assert [
        (r["relative_offset"], r["timestamp"], r["position"]) for r in entries
    ] == np.frombuffer(data, enriched_index.ENTRY).tolist()
    assert {row["kind"] for row in entries} == {"enriched-entry"}
    with pytest.raises(UsageError, match="is the log directory itself"):
        looked(tmp_path / "data", folder=tmp_path / "data")


def test_the_verb(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    one = late_records(tmp_path / "data")

    def run(*words: object) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as end:
            main([str(word) for word in words])
        assert isinstance(end.value.code, int)
        return end.value.code, *capsys.readouterr()

    code, out, _ = run("layouts", tmp_path / "data", "--every", "1s", "--by", "segment", "--json")
    *rows, summary = map(json.loads, out.splitlines())
    assert (code, rows) == (0, looked(tmp_path / "data", every_ms=1000))
    assert summary["summary"]["late"] == 0
    assert run("layouts", tmp_path / "data", "--at", T0 - 1, "--at", "1s")[0] == 2
    code, out, _ = run("layouts", tmp_path / "data", "--at", T0, "-o", tmp_path / "out")
    assert code == 0 and "create-time" in out and "1 segment, 6 searches" in out
    (one.path / f"{0:020d}.log").write_bytes((one.path / f"{0:020d}.log").read_bytes()[:-1] + b"?")
    code, out, _ = run("layouts", tmp_path / "data")
    assert code == 1 and "1 segment could not be read" in out
