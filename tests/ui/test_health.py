"""Index health: the cells of the map are those of the report, and what cannot be read is said."""

from __future__ import annotations

import base64
import json
import re
import zlib
from pathlib import Path
from typing import Any

import pytest
from kafkats_airflow.reports import common
from kafkats_airflow.reports.common import Change
from kafkats_airflow.reports.overview import volumes_of
from kafkats_airflow.ui import rendering
from kafkats_airflow.ui.reading import tables
from kafkats_airflow.ui.reading.health import At, Drawn, drawn_of, findings_of

from kafkats.plans import facts
from kafkats.plans.facts import SEGMENTS, read_table, summary, write_table, write_tables
from kafkats.rebuild.health import CELLS, DAMAGED, health_of, kinds_in, palette
from tests.builders.findings import finding, segments
from tests.builders.operations import inventoried
from tests.golden import Unpacked
from tests.ui.folders import HOSTILE, ended, volume
from tests.ui.golden_runs import REBUILT, hostile_rows, write_health

VIEWER = {"Authorization": "Bearer viewer"}


def cells_of(found: dict[str, Any]) -> bytes:
    """The cells of a map."""
    return zlib.decompress(base64.b64decode(found["cells"]))


def rows_of(found: dict[str, Any]) -> dict[str, list[str]]:
    """The kinds of a map's cells, by partition directory."""
    cells = cells_of(found)
    assert [kind["name"] for kind in found["kinds"]] == list(CELLS)
    return {
        name: [CELLS[cell] for cell in cells[found["starts"][n] : found["starts"][n + 1]]]
        for n, name in enumerate(found["names"])
    }


def test_the_map_has_the_cells_of_the_report_the_worst_first(
    client: Any, folder: Path, golden: Unpacked
) -> None:
    write_health(folder, golden)
    found = client.get(f"/kafkats/data/health?{REBUILT}").json()
    health = health_of(inventoried(golden("crash-4.3.1", "before")))
    assert rows_of(found) == {
        key.partition_dir: [CELLS[cell] for cell in health.row(n)]
        for n, key in enumerate(health.partitions)
    }
    assert found["worst"][0] == health.cells.max() >= DAMAGED
    damaged = [worst if worst >= DAMAGED else 0 for worst in found["worst"]]
    assert damaged == sorted(damaged, reverse=True)
    assert sum(found["defects"]) == (health.cells >= DAMAGED).sum() > 10
    page = client.get(f"/kafkats/health?{REBUILT}").text
    in_danger = sum(found["kinds"][cell]["severity"] == "danger" for cell in cells_of(found))
    assert f"Possible loss: 3 findings in {in_danger} segments of 3 partitions." in page
    damaged_segments = sum(found["defects"]) - in_danger
    assert f"findings in {damaged_segments} segments of 17 partitions." in page
    assert f"Looked at {len(health.cells)} segments of 42 partitions." in page
    assert "after the run" not in page


def test_volumes_and_index_health_count_the_same_findings(
    client: Any, folder: Path, golden: Unpacked
) -> None:
    """Findings, not segments; and those of directories, which no cell shows; and no orphan."""
    seen = inventoried(golden("crash-4.3.1", "before"))
    made = write_health(folder, golden)
    given = [one.model_dump(mode="json") for one in volumes_of(["/any"], [seen])]
    ended(folder, 1, *given, run=made.name)
    page = client.get(f"/kafkats/health?{REBUILT}").text
    counted = client.get(f"/kafkats/data/health?{REBUILT}").json()["kinds"]
    row = client.get("/kafkats/volumes").text
    for severity, begins in (("danger", "Possible loss"), ("damage", "Damage")):
        [number] = re.findall(rf"{begins}: (\d+) findings? in", page)
        assert f"{severity}: {number} finding" in row
        own = [one for one in counted if one["severity"] == severity and one["name"] != "orphan"]
        assert sum(one["count"] for one in own) == int(number)
    assert [one["count"] for one in counted if one["name"] == "orphan"] == [2]


def test_danger_has_one_colour_and_what_waits_for_a_person_one_mark() -> None:
    css = (rendering.FILES / "kafkats.css").read_text()
    light, dark = re.findall(r"--danger: (#[0-9a-f]{6})", css)
    for colour, is_dark in ((light, False), (dark, True)):
        assert colour == palette(["missing-records"], dark=is_dark)["missing-records"]
        assert colour in (rendering.FILES / "restart.js").read_text(), "what a start cuts off"
    [coloured] = re.findall(r"^(.*\.state-waiting\b.*) { --mark", css, re.MULTILINE)
    assert ".state-asks" in coloured and ".state-damage" not in coloured
    [marked] = re.findall(r"^(.*) { content: \"◷\"", css, re.MULTILINE)
    assert marked == ".state-asks::before, .state-waiting::before"


def test_a_severity_has_one_colour_and_each_defect_a_next_step(
    client: Any, folder: Path, golden: Unpacked
) -> None:
    write_health(folder, golden)
    kinds = client.get(f"/kafkats/data/health?{REBUILT}").json()["kinds"]
    for theme in ("colour", "dark"):
        colours = {(one["severity"], one[theme]) for one in kinds if one["severity"]}
        assert len(colours) == len({colour for _, colour in colours}) == 4
    for one in kinds:
        defect = one["severity"] in {"damage", "danger"}
        assert bool(one["consequence"] and one["step"]) == defect
    assert {one["severity"]: one["word"] for one in kinds}["state"] == "note"


def test_after_a_run_its_segments_are_as_the_proof_saw_them(
    client: Any, folder: Path, golden: Unpacked
) -> None:
    bad = [finding("missing-index", "x.timeindex")]
    before = [("b-0", 0, bad), ("b-0", 10, bad), ("c-0", 0, [])]
    after = segments(("b-0", 10, []), ("b-0", 20, bad), ("d-0", 0, []))
    write_health(folder, golden, *before, after=after)
    now = rows_of(client.get(f"/kafkats/data/health?{REBUILT}").json())
    assert now["b-0"] == ["missing-index", "no defect", "missing-index"]
    assert (now["c-0"], now["d-0"]) == (["no defect"], ["no defect"])
    was = rows_of(client.get(f"/kafkats/data/health?{REBUILT}&at=before").json())
    assert was["b-0"] == ["missing-index", "missing-index"]
    assert "after the run" in client.get(f"/kafkats/health?{REBUILT}").text


def test_the_findings_of_a_partition(client: Any, folder: Path, golden: Unpacked) -> None:
    bad = [finding("missing-index", "x.timeindex"), finding("empty-index", "x.index")]
    after = segments(("b-0", 10, []))
    write_health(folder, golden, ("b-0", 0, bad), ("b-0", 10, bad), after=after)
    asked = f"/kafkats/data/health-partition?{REBUILT}&partition=b-0&log_dir=/data"
    now, was = client.get(asked).json(), client.get(f"{asked}&at=before").json()
    assert [(one["base_offset"], one["kind"]) for one in now["findings"]] == [
        (0, "missing-index"),
        (0, "empty-index"),
    ]
    assert (now["said"], was["said"]) == ("2 segments, 2 findings.", "2 segments, 4 findings.")
    nothing = client.get(asked.replace("b-0", "nothing-0")).json()
    assert nothing["said"] == "0 segments, 0 findings."


def test_hostile_names_are_shown_and_never_markup(
    client: Any, folder: Path, golden: Unpacked
) -> None:
    write_health(folder, golden, *hostile_rows())
    assert "<script>document" not in client.get(f"/kafkats/health?{REBUILT}").text
    found = client.get(f"/kafkats/data/health?{REBUILT}")
    assert found.headers["content-type"] == "application/json"
    assert HOSTILE in found.json()["names"]
    asked = {"partition": HOSTILE, "log_dir": "/data"}
    given = client.get(f"/kafkats/data/health-partition?{REBUILT}", params=asked | dict(
        dag_id="rebuild_time_indexes", run_id="manual__health"
    )).json()  # fmt: skip
    assert given["findings"][0]["reason"] == HOSTILE


@pytest.mark.parametrize("content", [b"", b"PAR1", b"nonsense" * 999])
def test_a_table_that_cannot_be_read_is_said(
    client: Any, folder: Path, golden: Unpacked, content: bytes
) -> None:
    (write_health(folder, golden) / "segments.parquet").write_bytes(content)
    page = client.get(f"/kafkats/health?{REBUILT}")
    assert page.status_code == 200
    assert "segments.parquet of this run cannot be read: half-written or corrupt" in page.text
    data = client.get(f"/kafkats/data/health?{REBUILT}")
    assert (data.status_code, "half-written" in data.json()["detail"]) == (422, True)


def test_a_table_of_another_version_and_one_that_is_cut(
    client: Any, folder: Path, golden: Unpacked
) -> None:
    run = write_health(folder, golden)
    path = run / "segments.parquet"
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2] + whole[-8:])
    assert client.get(f"/kafkats/data/health?{REBUILT}").status_code == 422
    write_table(path, SEGMENTS.empty_table().drop_columns(["findings"]))
    said = client.get(f"/kafkats/data/health?{REBUILT}").json()["detail"]
    assert "it has no findings" in said
    path.unlink()
    path.symlink_to("/etc/passwd")
    assert "no plain file" in client.get(f"/kafkats/data/health?{REBUILT}").json()["detail"]
    path.unlink()
    assert client.get(f"/kafkats/data/health?{REBUILT}").status_code == 404
    assert client.get(f"/kafkats/health?{REBUILT}").status_code == 404


def test_a_report_without_segments(client: Any, folder: Path) -> None:
    run = folder / "rebuild_time_indexes" / "manual__health"
    run.mkdir(parents=True)
    write_table(run / "segments.parquet", SEGMENTS.empty_table())
    found = client.get(f"/kafkats/data/health?{REBUILT}").json()
    assert (found["names"], found["starts"], cells_of(found)) == ([], [0], b"")
    assert "This run saw no segment." in client.get(f"/kafkats/health?{REBUILT}").text


def test_a_look_at_the_ends_says_that_it_saw_no_more(
    client: Any, folder: Path, golden: Unpacked
) -> None:
    made = write_health(folder, golden)
    ended(folder, 1, volume("/a", depth="full"), run=made.name)
    assert "Only their ends were read" not in client.get(f"/kafkats/health?{REBUILT}").text
    ended(folder, 2, volume("/a"), volume("/b", depth="tail"), run=made.name)
    assert "Only their ends were read" in client.get(f"/kafkats/health?{REBUILT}").text


@pytest.mark.parametrize("at", ["before", "now"])
def test_a_report_has_the_cells_of_its_segments(
    folder: Path, golden: Unpacked, at: At, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(facts, "_ROWS_AT_ONCE", 7)  # partitions are divided between pieces
    bad = [finding("missing-index", "x.timeindex")]
    rows = ("b-0", 0, bad), ("b-0", 10, bad), ("c-0", 0, [])
    after = segments(("b-0", 10, []), ("b-0", 20, bad), ("c-0", 0, bad), ("d-0", 0, []))
    run = write_health(folder, golden, *rows, after=after)
    tables = drawn_of(run, at)
    seen = summary(read_table(run / "segments.parquet", SEGMENTS))
    change = Change(run / "segments.parquet", run / "after.parquet", seen, ())
    common.write_health(run, change)
    (run / "segments.parquet").write_bytes(b"is not read")
    assert isinstance(tables, Drawn) and drawn_of(run, at) == tables


def test_deleted_segments_have_no_defects_any_more(
    client: Any, folder: Path, golden: Unpacked
) -> None:
    """Retention: the segments of a changed partition after the run are all that it has."""
    bad = [finding("missing-index", "x.timeindex")]
    rows = ("b-0", 0, bad), ("b-0", 10, bad), ("c-0", 0, bad)
    run = write_health(folder, golden, *rows, after=segments(("b-0", 10, [])))
    seen = summary(read_table(run / "segments.parquet", SEGMENTS))
    change = Change(run / "segments.parquet", run / "after.parquet", seen, ())
    common.write_health(run, change, common.PARTITION)
    counts: dict[str, dict[str, int]] = {}
    places: tuple[At, At] = ("before", "now")
    for at in places:
        drawn = drawn_of(run, at)
        assert isinstance(drawn, Drawn)
        counts[at] = {kind["name"]: kind["count"] for kind in json.loads(drawn.map)["kinds"]}
    at_the_end = kinds_in(common.concat([*change.at_the_end(common.PARTITION)], SEGMENTS))
    assert counts["now"]["missing-index"] == at_the_end["missing-index"]
    assert counts["before"]["missing-index"] == counts["now"]["missing-index"] + 2
    before, now = (findings_of(run, at, "/data", "b-0") for at in places)
    assert isinstance(before, dict) and isinstance(now, dict)
    assert before["said"] == "2 segments, 2 findings."
    assert now["said"] == "1 segment, 0 findings."


def test_the_findings_of_a_partition_are_read_from_its_row_groups(
    folder: Path, golden: Unpacked, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = write_health(folder, golden)
    whole = read_table(run / "segments.parquet", SEGMENTS)
    name = whole["partition_dir"][-1].as_py()
    log_dir = whole["log_dir"][-1].as_py()
    found = findings_of(run, "now", log_dir, name)
    write_tables(run / "segments.parquet", (whole.slice(n, 20) for n in range(0, len(whole), 20)))
    monkeypatch.setattr(tables, "MOST_ROWS", 40)
    assert findings_of(run, "now", log_dir, name) == found
    assert isinstance(findings_of(run, "now", log_dir, ""), dict)
    monkeypatch.setattr(tables, "why_too_large", lambda *_, groups: str(len(groups)))
    assert findings_of(run, "now", log_dir, name) == tables.Unreadable(
        run / "segments.parquet", "1"
    )
