"""Rolling: the page's figures are those that were simulated, per topic and day."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import expect

from tests.ui.folders import HOSTILE, ended, volume, write
from tests.ui.golden_runs import ROLLED, write_rolling
from tests.ui.looking import Seen


@pytest.fixture
def run(folder: Path, tmp_path: Path) -> Path:
    return write_rolling(folder, tmp_path / "log-dir")


def test_topics_and_days(client: Any, run: Path) -> None:
    topics = client.get(f"/kafkats/data/rolling?{ROLLED}").json()["topics"]
    counts = {one["topic"]: (one["segments"], one["simulated"]) for one in topics}
    assert counts == {"orders": (4, 28), "clicks": (14, 2)}
    for topic, (segments, simulated) in counts.items():
        found = client.get(f"/kafkats/data/rolling-days?{ROLLED}&topic={topic}").json()["days"]
        assert sum(one["segments"] for one in found) == segments
        assert sum(one["simulated"] for one in found) == simulated
        assert [one["day_ms"] for one in found] == sorted(one["day_ms"] for one in found)
    every = client.get(f"/kafkats/data/rolling-days?{ROLLED}").json()
    assert every["left_out"] == 0
    assert sum(one["simulated"] for one in every["days"]) == 30
    assert client.get(f"/kafkats/data/rolling-days?{ROLLED}&topic=none").json()["days"] == []
    page = client.get(f"/kafkats/run-rolling?{ROLLED}").text
    assert (
        "18 segments would be 30 under the settings of the topics: 12 more, in 3 partitions of"
        " 2 topics." in page
    )
    assert (
        'id="next">Next: to have it so' in page and 'data-out href="../dags/roll_segments"' in page
    )


def test_the_newest_run_that_simulated_is_shown_and_else_which_dag_does(
    client: Any, folder: Path, tmp_path: Path
) -> None:
    page = client.get("/kafkats/rolling").text
    assert "No run has simulated rolling yet. A DAG with the tag kafkats:roll does with" in page
    write_rolling(folder, tmp_path / "log-dir")
    ended(folder, 5, volume("/data/a"), dag="roll_segments", run="later")
    led = client.get("/kafkats/rolling", follow_redirects=False)
    assert led.headers["location"] == f"run-rolling?{ROLLED}"
    assert "run-rolling?" in client.get(f"/kafkats/run?{ROLLED}").text
    missing = client.get("/kafkats/run-rolling?dag_id=roll_segments&run_id=later")
    assert missing.status_code == 404
    assert "This run has no such report." in missing.text


def test_log_directories_and_partitions_that_are_left_out_are_named(
    client: Any, folder: Path, tmp_path: Path
) -> None:
    run = write_rolling(folder, tmp_path / "log-dir")
    write(folder.parent / "policy.yaml", "volumes: [{broker: '7', path: /data/a}]")
    volumes = [volume("/data/b"), volume("/data/a")]
    ended(folder, 5, *volumes, dag="roll_segments", run=run.name)
    unread = [{"log_dir": "/data/a", "partition_dir": HOSTILE, "error": HOSTILE}]
    write(run / "simulation.json", {"now_ms": 5, "topics": [], "empty": 2, "unread": unread})
    page = client.get(f"/kafkats/run-rolling?{ROLLED}").text
    assert "<code>/data/a</code> of broker 7" in page
    assert "<code>/data/b</code>" in page
    assert "1 partition could not be simulated" in page
    assert "2 partitions without batches left out" in page
    assert "<script>document" not in page


def test_a_corrupt_or_older_report_is_named(client: Any, run: Path) -> None:
    for name, page in (("simulation.json", "run-rolling"), ("simulation-days.parquet", "")):
        (run / name).write_bytes(b"half")
        if page:
            assert (
                f"{name} of this run cannot be read" in client.get(f"/kafkats/{page}?{ROLLED}").text
            )
        answer = client.get(f"/kafkats/data/rolling-days?{ROLLED}")
        assert answer.status_code == (200 if page else 422)


@pytest.mark.slow(6)
def test_bars_table_and_csv_of_a_topic(seen: Seen, site: str, run: Path) -> None:
    page = seen.open(f"{site}/run-rolling?{ROLLED}&topic=orders")
    expect(page.locator("#settings")).to_contain_text(
        "4 segments would be 28 with segment.ms=86400000"
    )
    expect(page.locator("#days tbody tr")).to_have_count(14)
    assert page.locator("#days-plot .barlayer .point").count() > 14
    bars = page.locator("#topics-plot .barlayer .point")
    assert bars.count() == 4
    assert bars.nth(0).bounding_box()["y"] < bars.nth(2).bounding_box()["y"], "as in the legend"
    with page.expect_download() as download:
        page.get_by_role("button", name="CSV of the days").click()
    lines = download.value.path().read_text().splitlines()
    assert lines[0] == '"Day, UTC",Segments that begin,Simulated'
    assert len(lines) == 15
    page.locator("#topic").select_option("clicks")
    expect(page.locator("#settings")).to_contain_text("14 segments would be 2 with segment.ms")
    assert "topic=clicks" in str(page.evaluate("location.href"))
    assert seen.axe() == []
