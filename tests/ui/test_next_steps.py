"""What a person is told to do about a log directory, and where the link leads."""

from __future__ import annotations

import re
import time
from pathlib import Path
from typing import Any, Final

import pytest

from kafkats.findings import KINDS, REBUILD, REMEDIES
from tests.ui.folders import HOUR_MS, ended, reclaimable, volume, write
from tests.ui.harness import deployed

FINDINGS: Final = Path(__file__).parents[2] / "docs" / "findings.md"
ASKED: Final[dict[str, Any]] = {
    "options": {"Approve": ["d"], "Reject": []},
    "plans": [{"plan": "/p", "digest": "d", "totals": {"files": 1}, "log_dirs": ["/asked"]}],
    "asked_ms": 1,
    "run_id": "asks",
}


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def test_a_rebuild_mends_the_kinds_of_indexes_in_docs() -> None:
    part = FINDINGS.read_text().partition("## `.index` and `.timeindex`")[2].partition("\n## ")[0]
    named = set(re.findall(r"^\| `([a-z-]+)` \| damage", part, re.MULTILINE))
    [rebuilt] = [set(one.kinds) for one in REMEDIES if one.step == REBUILD]
    assert named - {"index-full"} == rebuilt, "of a full index a rebuild cannot write all entries"
    assert all(KINDS[kind][0] == "damage" for kind in rebuilt)


@pytest.mark.parametrize(
    ("kinds", "steps"),
    [
        ({}, []),
        ({"danger": {"bad-offset": 1}}, ["bad-offset: keep the broker from starting; take"]),
        ({"damage": {"empty-index": 3}}, ["Rebuild its indexes"]),
        ({"damage": {"bad-crc": 1}}, ["bad-crc: take the partition from a replica"]),
        ({"damage": {"orphan": 1}}, []),
        (
            {"damage": {"bad-crc": 1, "wrong-epoch": 1}},
            ["bad-crc, wrong-epoch: take the partition from a replica"],
        ),
        (
            {"danger": {"bad-offset": 1}, "damage": {"bad-crc": 1, "empty-index": 1}},
            ["bad-offset: keep", "bad-crc: take", "Rebuild its indexes"],
        ),
    ],
)
def test_the_steps_about_defects(folder: Path, kinds: Any, steps: list[str]) -> None:
    from kafkats_airflow.reading import runs, volumes
    from kafkats_airflow.ui.reading.next_steps import steps_of

    ended(folder, now_ms(), volume("/a", kinds=kinds))
    found = volumes.board(runs.runs_in(folder, ["rebuild_time_indexes"]), {}, now_ms())
    said = [one.said for one in steps_of(found.rows[0], now_ms(), deployed())]
    assert len(said) == len(steps)
    assert all(one.startswith(begin) for one, begin in zip(said, steps, strict=True))


def test_the_page_of_a_run_says_what_it_has_left(client: Any, folder: Path) -> None:
    damaged = volume("/damaged", kinds={"damage": {"empty-index": 3}})
    run = ended(folder, now_ms(), damaged, volume("/sound"), run="r", dry_run=True)
    plan = {"plan": "/p", "digest": "d" * 64, "totals": {"files": 5}}
    write(run / "report.json", {"outcome": "dry run", "plans": [plan]})
    text = client.get("/kafkats/run?dag_id=rebuild_time_indexes&run_id=r").text
    assert "<code>/damaged</code></th>" in text and "<code>/sound</code></th>" not in text
    assert "In this order" not in text, "of one step"
    assert "empty-index 3" in text and "Rebuild its indexes</a>, its broker must be stopped" in text
    assert "with <code>dry_run</code> off" in text
    ended(folder, now_ms(), volume("/sound"), run="r", dry_run=False)
    text = client.get("/kafkats/run?dag_id=rebuild_time_indexes&run_id=r").text
    assert "Left on the log directories" not in text and "dry run" not in text.split("<details")[0]


def test_steps_are_numbered_what_comes_from_a_replica_before_the_rebuild(
    client: Any, folder: Path
) -> None:
    kinds = {"damage": {"empty-index": 3, "bad-crc": 1, "orphan": 2}}
    ended(folder, now_ms(), volume("/damaged", kinds=kinds), run="r")
    for page in ("volumes", "run?dag_id=rebuild_time_indexes&run_id=r"):
        text = client.get(f"/kafkats/{page}").text
        [listed] = re.findall(r'In this order:</div><ol class="steps">(.*?)</ol>', text)
        first, then = re.findall(r"<li>(.*?)</li>", listed)
        assert "take the partition from a replica" in first and "Rebuild its indexes" in then
        assert "damage: 4 findings" in text and "Defects, in findings" in text
        assert "orphan 2" not in text, "a broker deletes it: nobody has to do anything"


def test_an_orphan_alone_is_no_damage(client: Any, folder: Path) -> None:
    ended(folder, now_ms(), volume("/a", kinds={"damage": {"orphan": 2}}), run="r")
    text = client.get("/kafkats/volumes").text
    assert 'data-state="sound"' in text and "orphan 2" not in text
    assert 'kind="orphan"' not in client.get("/kafkats-metrics/metrics").text


def test_the_page_leads_to_the_dag_and_to_the_question(client: Any, folder: Path) -> None:
    damaged = volume("/damaged", kinds={"damage": {"empty-index": 3}})
    ended(
        folder,
        now_ms() - HOUR_MS,
        damaged,
        volume("/full", disk_bytes=1 << 40, disk_free_bytes=7 << 30),
    )
    deleted = volume("/expired", reclaimable=reclaimable(5))
    ended(folder, now_ms() - HOUR_MS, deleted, dag="apply_retention")
    asks = folder / "apply_retention" / "asks"
    write(asks / "question.json", ASKED | {"until_ms": now_ms() + HOUR_MS})
    text = client.get("/kafkats/volumes").text
    assert 'data-out href="../dags/rebuild_time_indexes" title="Opens rebuild_time_indexes' in text
    assert "trigger it there with the volume /damaged" in text
    assert 'data-out href="../dags/apply_retention"' in text
    assert "</a>, its broker must be stopped</div>" in text
    assert "7.0\xa0GiB free of 1.0\xa0TiB" in text
    assert 'href="plan?dag_id=apply_retention&amp;run_id=asks">A plan waits' in text
    write(asks / "approval.json", {"option": "Reject"})
    assert "A plan waits" not in client.get("/kafkats/volumes").text
    (asks / "approval.json").unlink()
    write(asks / "question.json", ASKED | {"until_ms": now_ms() - 1})
    assert "A plan waits" not in client.get("/kafkats/volumes").text
