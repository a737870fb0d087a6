"""Retention: the page's figures are the report's, and another retention.ms is decided by the rule of plans."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from kafkats.plans.facts import read_table
from kafkats.retention.plan import RETENTION, RetainOptions, plan_retain
from kafkats.retention.plot import STATES, segment_states
from kafkats.retention.what_if import with_limit
from tests.builders.operations import inventoried
from tests.golden import Unpacked
from tests.ui.golden_runs import NOW_MS, POLICY, RETAINED, write_retention

DAY_MS = 86_400_000


@pytest.fixture
def run(folder: Path, golden: Unpacked) -> Path:
    return write_retention(folder, golden)


def of_topic(verdicts: pa.Table, topic: str) -> pa.Table:
    return verdicts.filter(pc.equal(verdicts["topic"], topic))


def test_bytes_by_topic(client: Any, run: Path) -> None:
    found = client.get(f"/kafkats/data/retention?{RETAINED}").json()
    verdicts = read_table(run / "retention.parquet", RETENTION)
    assert found["states"] == STATES
    assert found["now_ms"] == NOW_MS
    assert found["limits"]["size"] == {"retention_ms": -1, "retention_bytes": 9000}
    assert found["limits"]["future-pins"]["retention_ms"] == 86_400_000
    for topic in found["topics"]:
        mine = of_topic(verdicts, topic["topic"])
        assert topic["bytes"] == pc.sum(mine["bytes"]).as_py()
        assert sum(found["by_state"][topic["topic"]].values()) == topic["bytes"]
        states = found["by_state"][topic["topic"]]
        assert states["deleted now"] == topic["now_bytes"]
        later = states.get("deleted within a day", 0)
        assert later <= topic["day_bytes"] - topic["now_bytes"], "a last segment is kept at any age"
    page = client.get(f"/kafkats/run-retention?{RETAINED}").text
    from kafkats_airflow.ui.words import of_bytes

    pinned = sum(topic["pinned_bytes"] for topic in found["topics"])
    assert pinned > 0
    assert f"{of_bytes(pinned)}</dd>" in page
    assert "have expired, and are pinned by earlier segments." in page
    assert "2100-01-02 00:00 UTC" in page, "until when future-pins is pinned"


def test_the_reason_that_decided_each_topic(client: Any, run: Path) -> None:
    reasons = client.get(f"/kafkats/data/retention?{RETAINED}").json()["reasons"]
    assert reasons["size"] == "can be deleted by size; kept: within retention.bytes"
    assert reasons["time-all"] == "can be deleted by time; kept: the last segment stays"
    assert reasons["append-time"].startswith("kept: expires in ")
    pinned = reasons["order-of-passes"]
    assert pinned.startswith("pinned: expires in ") and pinned.endswith("is in the future")
    board = json.loads((run / "board.json").read_text())
    board["deleted_by"]["time-all"] = {"start-offset": 5, "time": 7}
    (run / "board.json").write_text(json.dumps(board))
    both = client.get(f"/kafkats/data/retention?{RETAINED}").json()["reasons"]["time-all"]
    assert both.startswith("can be deleted by time and log start offset; ")
    del board["deleted_by"]
    (run / "board.json").write_text(json.dumps(board))
    older = client.get(f"/kafkats/data/retention?{RETAINED}").json()["reasons"]
    assert older["time-all"] == "kept: the last segment stays"


@pytest.mark.parametrize("topic", ["future-pins", "size", "zero-timestamps"])
def test_the_segments_of_a_topic(client: Any, run: Path, topic: str) -> None:
    found = client.get(f"/kafkats/data/retention-topic?{RETAINED}&topic={topic}").json()
    mine = of_topic(read_table(run / "retention.parquet", RETENTION), topic)
    assert [(one["base_offset"], one["state"]) for one in found["segments"]] == list(
        zip(mine["base_offset"].to_pylist(), segment_states(mine, NOW_MS), strict=True)
    )
    ms = POLICY.limits(topic)[0]
    assert found["line_ms"] == (None if ms < 0 else NOW_MS - ms)
    assert (found["retention_ms"], found["left_out"]) == (None, 0)
    for one in found["segments"]:
        assert one["first_ms"] <= one["last_ms"]


@pytest.mark.parametrize("ms", [-1, 0, DAY_MS, 195_237_068_000, 2**63 - 1])
@pytest.mark.parametrize("topic", ["time-some", "size"])
def test_another_time_is_decided_as_a_plan_would(
    client: Any, run: Path, golden: Unpacked, topic: str, ms: int
) -> None:
    asked = f"{RETAINED}&topic={topic}&retention_ms={ms}"
    found = client.get(f"/kafkats/data/retention-what-if?{asked}").json()
    seen = inventoried(golden("retention-4.3.1", "before"))
    planned = plan_retain(seen, with_limit(POLICY, topic, ms), RetainOptions(NOW_MS))[1]
    mine = of_topic(planned, topic)
    assert [
        (one["base_offset"], one["state"], one["from_ms"]) for one in found["segments"]
    ] == list(
        zip(
            mine["base_offset"].to_pylist(),
            segment_states(mine, NOW_MS),
            mine["deletable_from_ms"].to_pylist(),
            strict=True,
        )
    )
    assert found["retention_ms"] == ms
    assert found["line_ms"] == (None if ms < 0 else NOW_MS - ms)
    name, _, line = found["policy_line"].partition(": ")
    assert json.loads(name) == topic
    assert json.loads(line)["retention.ms"] == ms


def test_what_cannot_be_tried(client: Any, run: Path) -> None:
    def answer(**more: str) -> tuple[int, str]:
        asked = {"dag_id": "apply_retention", "run_id": "manual__retention"} | more
        given = client.get("/kafkats/data/retention-what-if", params=asked)
        return given.status_code, given.json()["detail"]

    assert answer(topic="size", retention_ms="-2")[0] == 422
    assert answer(topic="size", retention_ms="9" * 30)[0] == 422
    assert answer(topic="size", retention_ms="x")[0] == 422
    status, said = answer(topic="a/b", retention_ms="1")
    assert (status, "no name of a topic" in said) == (422, True)
    (run / "basis.json").write_text('{"policy": 5}')
    status, said = answer(topic="size", retention_ms="1")
    assert (status, "basis.json of this run cannot be read" in said) == (422, True)
    (run / "basis.json").unlink()
    assert answer(topic="size", retention_ms="1")[0] == 404
    assert "cannot be tried on it" in client.get(f"/kafkats/run-retention?{RETAINED}").text


def test_a_topic_that_the_run_did_not_see(client: Any, run: Path) -> None:
    found = client.get(f"/kafkats/data/retention-topic?{RETAINED}&topic=nothing").json()
    assert (found["segments"], found["line_ms"]) == ([], None)


def test_a_board_of_an_earlier_version(client: Any, run: Path) -> None:
    board = json.loads((run / "board.json").read_text())
    del board["lines"], board["by_state"]
    (run / "board.json").write_text(json.dumps(board))
    assert client.get(f"/kafkats/run-retention?{RETAINED}").status_code == 200
    assert client.get(f"/kafkats/data/retention?{RETAINED}").json()["by_state"] == {}
    found = client.get(f"/kafkats/data/retention-topic?{RETAINED}&topic=time-some").json()
    assert (found["line_ms"], len(found["segments"])) == (None, 4)


@pytest.mark.parametrize("content", ["", "{", "[]", '{"now_ms": "x"}'])
def test_a_board_that_cannot_be_read(client: Any, run: Path, content: str) -> None:
    (run / "board.json").write_text(content)
    page = client.get(f"/kafkats/run-retention?{RETAINED}")
    assert page.status_code == 200
    assert "board.json of this run cannot be read" in page.text
    assert client.get(f"/kafkats/data/retention?{RETAINED}").status_code == 422
    (run / "board.json").unlink()
    assert client.get(f"/kafkats/data/retention?{RETAINED}").status_code == 404
