"""A migration: its page shows the report's figures, also of earlier versions and of damaged files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import expect

from tests.ui.folders import HOSTILE, write
from tests.ui.looking import Seen

RUN = "dag_id=migrate_message_format&run_id=manual__m"
AT = 1_767_225_600_000


@pytest.fixture
def run(folder: Path) -> Path:
    made = folder / "migrate_message_format" / "manual__m"
    broker = {"broker": HOSTILE, "status": "verified", "phase": "canary", "at": "2026-01-01", "by": "alice", "runs": [], "next": "approve", "waits_for": ""}  # fmt: skip
    other = broker | {"broker": "2", "status": "certified", "phase": "phase-1", "next": "phase-2", "waits_for": "the canary"}  # fmt: skip
    report = {
        "outcome": "converted and proved",
        "phase": "canary",
        "times_ms": [AT, AT + 60_000],
        "brokers": [broker, other],
        "ledger": "/var/lib/kafkats/ledger.jsonl",
        "magic_bytes": {"before": [2048, 1024, 0], "after": [0, 1024, 3072]},
        "loses_zero_copy": [{"versions": "2-3", "newest_magic": 1, "clients": "consumers of 0.10", "followers": "0.10.0"}],
        "certificates": ["/certificates/1.json"],
        "statements": [],
    }  # fmt: skip
    write(made / "report.json", report)
    topic = {"log_dir": "/data", "topic": HOSTILE, "bytes": 4096, "fetch_0_1_converted": 4096, "fetch_0_1_beside": 0, "fetch_2_3_converted": 3072, "fetch_2_3_beside": 0, "zstd_bytes": 0}  # fmt: skip
    write(made / "zero-copy.json", {"topics": [topic, topic | {"topic": "new", "fetch_0_1_converted": 0, "fetch_2_3_converted": 0}]})  # fmt: skip
    points = [
        {"at_ms": AT - 86_400_000, "bytes": [4096, 0, 0]},
        {"at_ms": AT, "bytes": [0, 1024, 3072]},
    ]
    write(made / "burn-down.json", {"points": points})
    write(made / "census.parquet", "")
    return made


def test_the_burn_down_and_the_ledger(client: Any, run: Path) -> None:
    page = client.get(f"/kafkats/run-migration?{RUN}").text
    assert "1.0\N{NO-BREAK SPACE}KiB of 4.0\N{NO-BREAK SPACE}KiB" in page
    assert "<script>document" not in page
    assert "verified" in page
    lead = page.partition('class="answer"')[2]
    whole, _, own = lead.partition("</strong>")
    assert "of all log directories that were seen until then are below magic 2" in whole
    assert "In this run's log directories" not in whole + own, "they are all that were seen"
    assert ": approve" in own.partition('id="next">')[2].partition("</p>")[0]
    assert "1 broker waits for others" in own
    assert 'href="runs?dag=migrate_message_format">Answer the question of the run' in own
    assert "consumers of 0.10" in page
    found = client.get(f"/kafkats/data/migration?{RUN}").json()["points"]
    assert [one["bytes"] for one in found] == [[4096, 0, 0], [0, 1024, 3072]]
    led = client.get("/kafkats/migration", follow_redirects=False)
    assert led.headers["location"] == f"run-migration?{RUN}"


def test_an_earlier_report_has_its_own_two_points(client: Any, run: Path) -> None:
    (run / "burn-down.json").unlink()
    found = client.get(f"/kafkats/data/migration?{RUN}").json()["points"]
    assert found == [
        {"at_ms": AT, "bytes": [2048, 1024, 0]},
        {"at_ms": AT + 60_000, "bytes": [0, 1024, 3072]},
    ]


@pytest.mark.parametrize("content", ["", "{", '{"points": 5}', '{"topics": 5}'])
def test_files_that_cannot_be_read_are_said(client: Any, run: Path, content: str) -> None:
    for name in ("burn-down.json", "zero-copy.json"):
        (run / name).write_text(content)
    assert client.get(f"/kafkats/data/migration?{RUN}").status_code == 422
    page = client.get(f"/kafkats/run-migration?{RUN}")
    assert page.status_code == 200
    assert "zero-copy.json" in page.text
    (run / "report.json").write_text(content)
    page = client.get(f"/kafkats/run-migration?{RUN}")
    assert page.status_code == 200
    assert "report.json of this run cannot be read" in page.text
    (run / "report.json").unlink()
    assert client.get(f"/kafkats/run-migration?{RUN}").status_code == 404


@pytest.mark.slow(6)
def test_the_burn_down_draws(seen: Seen, site: str, run: Path) -> None:
    page = seen.open(f"{site}/run-migration?{RUN}")
    expect(page.locator("#burn-down .scatterlayer .trace")).to_have_count(3)
    shapes = page.evaluate("document.querySelector('#burn-down').data.map((one) => one.line.shape)")
    assert shapes == ["hv"] * 3, "between two counts nothing is known but the first"
    expect(page.locator("#points tbody tr").first).to_contain_text("3.0 KiB")
    expect(page.locator("main")).to_contain_text(HOSTILE)
    assert seen.axe() == []
