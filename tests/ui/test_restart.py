"""Restart: the page has the figures of a plan of recovery, and says what it cannot read."""

from __future__ import annotations

import html
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from kafkats_airflow.ui.words import of_bytes
from playwright.sync_api import expect

from kafkats.cli import cli
from kafkats.plans.facts import read_table, write_table
from kafkats.plans.files import read_json
from kafkats.recovery.look import RECOVERY
from tests.golden import Unpacked
from tests.ui.folders import HOSTILE, change, write
from tests.ui.golden_runs import RESTARTED, write_restart
from tests.ui.looking import Seen

RUN = "dag_id=recover_log_dirs&run_id=manual__x"


@pytest.fixture
def run(folder: Path, golden: Unpacked, tmp_path: Path) -> Path:
    """The report of a plan for a broker that was killed."""
    made = folder / "recover_log_dirs" / "manual__x"
    made.mkdir(parents=True)
    root, plan = tmp_path / "data", tmp_path / "plan"
    shutil.copytree(golden("crash-4.3.1", "before"), root)
    told = CliRunner().invoke(cli, ["plan", "recover", str(root), "-o", str(plan), "--go-on"])
    assert told.exit_code == 0, told.output
    shutil.copy(plan / "recovery.parquet", made)
    return made


@pytest.mark.slow(2)
def test_the_figures_of_the_plan(client: Any, run: Path) -> None:
    rows = read_table(run / "recovery.parquet", RECOVERY).to_pylist()
    [start] = client.get(f"/kafkats/data/restart?{RUN}").json()["starts"]
    assert start["partitions"] == len(rows)
    assert start["bytes"] == sum(row["bytes"] for row in rows) > 0
    assert start["lost_bytes"] == sum(row["cut_bytes"] + row["dropped_bytes"] for row in rows) > 0
    assert start["blocked"] == sum(bool(row["blocked"]) for row in rows) > 0
    page = client.get(f"/kafkats/run-restart?{RUN}").text
    assert f"{start['blocked']} partitions need you before a start" in page
    for row in rows:
        if row["blocked"]:
            assert row["partition_dir"] in page
    assert "or plan with param like_kafka" in page
    assert "--like-kafka" not in page, "nobody in Airflow has a command line"


@pytest.mark.slow(1)
def test_a_report_without_partitions_counts_nothing(client: Any, run: Path) -> None:
    write_table(run / "recovery.parquet", RECOVERY.empty_table())
    page = client.get(f"/kafkats/run-restart?{RUN}").text
    assert "This run saw no partition." in page
    assert "0 partition" not in page


@pytest.mark.slow(1)
def test_the_words_of_preflight_stand_beside_it(client: Any, folder: Path, tmp_path: Path) -> None:
    run = write_restart(folder, tmp_path)
    page = client.get(f"/kafkats/run-restart?{RESTARTED}").text
    [first, second] = read_json(run / "report.json")["starts"]
    for start, kafka in ((first, "4.3"), (second, "2.8")):
        assert start["said"][0].startswith(f"This broker ({kafka}")
        for line in start["said"]:
            assert html.escape(line, quote=False) in page.replace("&#39;", "'").replace(
                "&#34;", '"'
            )
    write(run / "report.json", {"outcome": "dry run", "starts": [{**first, "said": [HOSTILE]}]})
    hostile = client.get(f"/kafkats/run-restart?{RESTARTED}").text
    assert "<script>document" not in hostile and "&lt;script&gt;document" in hostile
    del first["said"]
    write(run / "report.json", {"outcome": "dry run", "starts": [first]})
    older = client.get(f"/kafkats/run-restart?{RESTARTED}")
    assert (older.status_code, "preflight said" in older.text) == (200, False)
    write(run / "report.json", {"starts": 5})
    broken = client.get(f"/kafkats/run-restart?{RESTARTED}")
    assert (broken.status_code, "cannot be read" in broken.text) == (200, True)


@pytest.mark.slow(1)
def test_the_page_says_that_it_is_about_before_the_run_and_why_preflight_counts_more(
    client: Any, folder: Path, tmp_path: Path
) -> None:
    run = write_restart(folder, tmp_path)
    page = client.get(f"/kafkats/run-restart?{RESTARTED}").text
    assert "<strong>Before the recovery run: " in page
    assert "The run has changed nothing: they hold until a broker starts" in page
    [first, _] = read_json(run / "report.json")["starts"]
    rows = read_table(run / "recovery.parquet", RECOVERY).to_pylist()
    mine = [row for row in rows if row["log_dir"] == first["log_dirs"][0]["log_dir"]]
    [table] = re.findall(r'id="compared".*?</table>', page, re.DOTALL)
    cells = re.findall(r'<td class="number">(.*?)</td>', table)[:9]
    segments = [first["recovered_segments"], sum(row["segments"] for row in mine)]
    assert cells[0::3] == [str(one) for one in (*segments, segments[0] - segments[1])]
    lost = first["cut_bytes"] + first["deleted_bytes"]
    refused = [row["blocked"] for row in mine if "would cut 1275 bytes" in row["blocked"]]
    assert len(refused) == 1 and "(1545 bytes) would be deleted" in refused[0]
    assert cells[2::3] == [of_bytes(one) for one in (lost, lost - 1275 - 1545, 1275 + 1545)]
    change(run, "d" * 64, {}, None)
    page = client.get(f"/kafkats/run-restart?{RESTARTED}").text
    assert "The run has then recovered 4 files" in page and "A start now does less." in page


@pytest.mark.slow(1)
def test_hostile_names_and_tables_that_cannot_be_read(client: Any, run: Path) -> None:
    path = run / "recovery.parquet"
    table = read_table(path, RECOVERY)
    hostile = [{**row, "partition_dir": HOSTILE, "blocked": HOSTILE} for row in table.to_pylist()]
    write_table(path, type(table).from_pylist(hostile, schema=RECOVERY))
    page = client.get(f"/kafkats/run-restart?{RUN}").text
    assert "<script>document" not in page
    assert "&lt;script&gt;document" in page
    path.write_bytes(b"PAR1")
    assert "cannot be read" in client.get(f"/kafkats/run-restart?{RUN}").text
    assert client.get(f"/kafkats/data/restart?{RUN}").status_code == 422
    path.unlink()
    assert client.get(f"/kafkats/data/restart?{RUN}").status_code == 404
    assert "A DAG with the tag kafkats:recover writes" in client.get("/kafkats/restart").text


@pytest.mark.slow(6)
def test_the_bars_draw(seen: Seen, site: str, run: Path) -> None:
    page = seen.open(f"{site}/run-restart?{RUN}")
    expect(page.locator("#starts .barlayer .trace")).to_have_count(2)
    tops = [one.bounding_box()["y"] for one in page.locator("#starts .barlayer .point").all()]
    assert tops == sorted(tops), "bars are in the order of the legend"
    assert seen.axe() == []
