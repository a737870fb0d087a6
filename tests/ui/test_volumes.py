"""The page of all log directories, and what it reads."""

from __future__ import annotations

import json
import os
import re
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.ui.folders import DAY_MS, HOSTILE, HOUR_MS, change, ended, reclaimable, volume, write

NOW = 1_800_000_000_000
DAGS = ["apply_retention", "migrate_message_format", "rebuild_time_indexes"]


def board(folder: Path, listed: dict[str, str] | None = None, now_ms: int = NOW) -> Any:
    from kafkats_airflow.reading import runs, volumes

    return volumes.board(runs.runs_in(folder, DAGS), listed or {}, now_ms)


def test_each_figure_is_of_the_newest_run_that_has_it(folder: Path) -> None:
    ended(
        folder,
        NOW - 5 * HOUR_MS,
        volume("/a", bytes=1, reclaimable=reclaimable(77)),
        dag="apply_retention",
    )
    ended(folder, NOW - 4 * HOUR_MS, volume("/a", bytes=2, kinds={"damage": {"empty-index": 3}}))
    census = volume("/a", magic_bytes=[0, 40, 60]) | dict.fromkeys((
        "kinds",
        "bytes",
        "segments",
        "partitions",
    ))
    ended(folder, NOW - 3 * HOUR_MS, census, dag="migrate_message_format")
    (row,) = board(folder).rows
    assert row.mentioned.written_ms == NOW - 3 * HOUR_MS
    assert (row.seen.volume.bytes, row.seen.kinds("damage")) == (2, [("empty-index", 3)])
    assert row.formats.volume.magic_bytes == (0, 40, 60)
    assert row.reclaimable.volume.reclaimable.now_bytes == 77
    assert row.reclaimable.source.dag_id == "apply_retention"


def test_a_run_about_some_topics_has_no_figures_of_the_log_directory(
    client: Any, folder: Path
) -> None:
    now_ms = time.time_ns() // 1_000_000
    found = volume("/a", bytes=1, kinds={"danger": {"bad-offset": 1}}, reclaimable=reclaimable(1))
    ended(folder, now_ms - HOUR_MS, found, topics="some-*", run="partly")
    (row,) = board(folder, now_ms=now_ms).rows
    assert (row.seen, row.mentioned, row.reclaimable) == (None, None, None)
    assert row.states(now_ms) == ["danger", "partly"], "what it found is not lost"
    text = client.get("/kafkats/volumes").text
    assert "in topics some-*:" in text and "bad-offset 1" in text
    ended(folder, now_ms - 2 * HOUR_MS, volume("/a", bytes=2), run="all before it")
    (row,) = board(folder, now_ms=now_ms).rows
    assert (row.seen.volume.bytes, row.states(now_ms)) == (2, ["danger"])
    ended(folder, now_ms, volume("/a", bytes=3), run="all after it")
    (row,) = board(folder, now_ms=now_ms).rows
    assert (row.seen.volume.bytes, row.partly, row.states(now_ms)) == (3, None, ["sound"])


def test_defects_stay_until_a_look_at_least_as_deep_finds_none(client: Any, folder: Path) -> None:
    now_ms = time.time_ns() // 1_000_000
    inside = {"damage": {"bad-crc": 3, "missing-index": 2}}
    ended(folder, now_ms - 3 * HOUR_MS, volume("/a", kinds=inside, depth="full"), run="whole")
    torn = {"danger": {"torn-tail-marked-clean": 1}}
    ends = volume("/a", kinds=torn, depth="tail", bytes=7)
    ended(folder, now_ms - 2 * HOUR_MS, ends, dag="apply_retention", run="ends")
    (row,) = board(folder, now_ms=now_ms).rows
    assert (row.states(now_ms), row.seen.volume.bytes) == (["danger", "damage"], 7)
    assert [(told.volume.depth, told.defects) for told in row.looks] == [
        ("tail", {"torn-tail-marked-clean": 1}),
        ("full", {"bad-crc": 3}),
    ], "whether an index is missing the ends tell, too"
    text = client.get("/kafkats/volumes").text
    assert "its ends were read" in text and "read whole" in text
    assert "remove .kafka_cleanshutdown" in text, "the cure of the danger"
    ended(folder, now_ms - HOUR_MS, volume("/a", depth="tail"), run="tail")
    (row,) = board(folder, now_ms=now_ms).rows
    assert row.states(now_ms) == ["damage"], "the newer look at the ends was as deep"
    ended(folder, now_ms - 1, volume("/a", depth="full"), run="mended")
    (row,) = board(folder, now_ms=now_ms).rows
    assert (row.states(now_ms), len(row.looks)) == (["sound"], 1)
    ended(folder, now_ms, volume("/a", depth="tail"), dag="apply_retention", run="later")
    (row,) = board(folder, now_ms=now_ms).rows
    assert [told.volume.depth for told in row.looks] == ["tail", "full"], "known to which depth"


def test_a_look_at_some_topics_clears_no_other(folder: Path) -> None:
    ended(folder, NOW - 2, volume("/a", kinds={"damage": {"bad-crc": 1}}), run="all")
    ended(folder, NOW - 1, volume("/a", depth="deep"), topics="some-*", run="some")
    (row,) = board(folder).rows
    assert row.states(NOW) == ["damage"]


def test_a_report_of_an_earlier_version_does_not_tell_its_depth(folder: Path) -> None:
    """Its defects may be those of a look at everything, its silence that of a look at the ends."""
    old = volume("/a", kinds={"damage": {"bad-crc": 1}}) | {"depth": None}
    ended(folder, NOW - 3, old, run="old")
    for n, later in enumerate((volume("/a", depth="tail"), volume("/a") | {"depth": None})):
        ended(folder, NOW - 2 + n, later, run=f"later {n}")
        (row,) = board(folder).rows
        assert row.states(NOW) == ["damage"]
    ended(folder, NOW, volume("/a", depth="full"), run="full")
    (row,) = board(folder).rows
    assert row.states(NOW) == ["sound"]


def test_brokers_with_one_path_have_their_own_rows(client: Any, folder: Path) -> None:

    labels = {f"/data (broker {n})": str(n) for n in (1, 2)}
    one, two = (volume(label, broker=broker) for label, broker in labels.items())
    bad = two | {"kinds": {"danger": {"bad-offset": 1}}}
    run = ended(folder, NOW - 2, one, bad, started={"volumes": labels})
    kept = change(run, "ab" * 32, {"/data (broker 2)": 5}, None)
    ended(folder, NOW - 2, one, bad, run=run.name, undo=[kept], started={"volumes": labels})
    asked = {
        "plans": [{"plan": "p", "digest": "d", "totals": {"files": 1}, "log_dirs": [*labels][:1]}]
    }
    asked |= {"options": {}, "asked_ms": NOW, "until_ms": NOW + 1, "started": {"volumes": labels}}
    write(folder / "apply_retention" / "asks" / "question.json", asked)
    found = board(folder, labels | {"/data (broker 3)": "3"}).rows
    assert [
        (row.log_dir, row.broker, row.states(NOW), len(row.asks), row.undo_bytes()) for row in found
    ] == [
        ("/data (broker 2)", "2", ["danger"], 0, 5),
        ("/data (broker 3)", "3", ["unseen"], 0, 0),
        ("/data (broker 1)", "1", ["sound"], 1, 0),
    ]


def test_a_volume_is_known_by_its_identity(folder: Path) -> None:
    """A disk that took the place of another has none of its defects; one that moved keeps them."""
    bad = {"kinds": {"damage": {"bad-crc": 1}}}
    ended(folder, NOW - 4, volume("/a", identity=["c", 1, "first"], **bad), run="first")
    ended(folder, NOW - 3, volume("/a", identity=["c", 1, "second"]), run="second")
    ended(folder, NOW - 2, volume("/old", identity=["c", 1, "moved"], **bad), run="old")
    ended(folder, NOW - 1, volume("/new", identity=["c", 1, "moved"], depth="tail"), run="new")
    assert [(row.log_dir, row.states(NOW)) for row in board(folder).rows] == [
        ("/new", ["damage"]),
        ("/a", ["sound"]),
    ]
    named = [volume(f"/copy {n}", name=str(n), identity=["c", 2, "same"]) for n in (1, 2)]
    ended(folder, NOW, *named, run="named")
    assert len(board(folder).rows) == 4, "a name in the policy tells copies apart"


def test_an_earlier_report_without_a_broker_counts_for_no_one_of_several(folder: Path) -> None:
    bad = volume("/data", kinds={"damage": {"bad-crc": 1}})
    ended(folder, NOW - 1, bad, run="old")
    (row,) = board(folder, {"/data": "1"}).rows
    assert (row.broker, row.states(NOW)) == ("1", ["damage"])
    both = {"/data (broker 1)": "1", "/data (broker 2)": "2"}
    ended(folder, NOW - 2, volume("/data"), run="older")
    ended(folder, NOW - 1, bad, volume("/other"), run="old")
    found = [row for row in board(folder, both).rows if row.log_dir != "/other"]
    assert len(found) == 3, "one row for all of them"
    assert {(row.log_dir, row.states(NOW)[0]) for row in found} == {
        ("/data", "damage"),
        ("/data (broker 1)", "unseen"),
        ("/data (broker 2)", "unseen"),
    }


def test_a_census_is_no_report_of_an_earlier_version(folder: Path) -> None:
    census = volume("/a", magic_bytes=[0, 40, 60]) | {"kinds": None, "depth": None}
    ended(folder, NOW, census, dag="migrate_message_format")
    (row,) = board(folder).rows
    assert row.states(NOW) == ["unchecked"]


def test_formats_are_those_of_the_newest_run_that_knows_about_all_bytes(folder: Path) -> None:
    ended(folder, NOW - 3 * HOUR_MS, volume("/a", magic_bytes=[0, 3900, 50]), run="census")
    ended(folder, NOW - 2 * HOUR_MS, volume("/a", magic_bytes=[0, 0, 7]), run="in doubt")
    (row,) = board(folder).rows
    assert row.formats.source.run_id == "census"


def test_the_one_in_most_trouble_is_first(folder: Path) -> None:
    ended(
        folder,
        NOW - HOUR_MS,
        volume("/sound"),
        volume("/damaged", kinds={"damage": {"empty-index": 1}, "remark": {"sound": 9}}),
        volume("/more damaged", kinds={"damage": {"empty-index": 2}}),
        volume("/dangerous", kinds={"danger": {"bad-offset": 1}}),
    )
    ended(folder, NOW - 37 * HOUR_MS, volume("/overdue"), run="old")
    write(
        folder / "apply_retention" / "older" / "report.json",
        {"outcome": "dry run", "volumes": ["/older"]},
    )
    os.utime(folder / "apply_retention" / "older" / "report.json", (NOW / 1000, NOW / 1000))
    found = board(folder, {"/unseen": "4"})
    assert [(row.log_dir, row.states(NOW)) for row in found.rows] == [
        ("/dangerous", ["danger"]),
        ("/more damaged", ["damage"]),
        ("/damaged", ["damage"]),
        ("/unseen", ["unseen"]),
        ("/overdue", ["overdue"]),
        ("/older", ["older"]),
        ("/sound", ["sound"]),
    ]


def test_a_newest_report_that_cannot_be_read_leaves_no_volume_sound(
    client: Any, folder: Path
) -> None:
    """What the run found is not known, and the look before it is as old as it was."""
    from kafkats_airflow.metrics.families import registry

    now_ms = time.time_ns() // 1_000_000
    ended(folder, now_ms - 40 * DAY_MS, volume("/a", bytes=7), run="before")
    lost = ended(folder, now_ms - HOUR_MS, volume("/a"), run="lost")
    write(lost / "overview.json", "{")
    (row,) = board(folder, now_ms=now_ms).rows
    assert (row.states(now_ms), row.seen.volume.bytes) == (["older"], 7)
    assert row.mentioned.run_id == "lost"
    assert 'data-state="older"' in client.get("/kafkats/volumes").text
    told = registry(lambda: {"": folder}).get_sample_value(
        "kafkats_volume_timestamp_seconds", {"volume": "/a"}
    )
    assert told == (now_ms - 40 * DAY_MS) / 1000, "the last look that tells anything"


def test_a_question_that_cannot_be_read_is_said_and_tried_again(folder: Path) -> None:
    now_ms = time.time_ns() // 1_000_000 + DAY_MS
    ended(folder, NOW - DAY_MS, volume("/a"), run="before")
    plan = {"plan": "p", "digest": "d", "totals": {"files": 1}, "log_dirs": ["/a"]}
    asked = {"plans": [plan], "options": {}, "asked_ms": now_ms, "until_ms": now_ms + DAY_MS}
    question = folder / "apply_retention" / "asks" / "question.json"
    write(question, "{")
    assert [one.path.name for one in board(folder, now_ms=now_ms).unreadable] == ["question.json"]
    question.write_text(json.dumps(asked))  # no name in the folder changes
    (row,) = board(folder, now_ms=now_ms).rows
    assert len(row.asks) == 1


def test_a_deployment_says_when_a_log_directory_is_overdue(
    client: Any, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from kafkats_airflow import settings

    ended(folder, NOW - 37 * HOUR_MS, volume("/a"), run="old")
    monkeypatch.setattr(settings, "OVERDUE", timedelta(minutes=90) + timedelta(hours=36))
    (row,) = board(folder).rows
    assert row.states(NOW) == ["sound"]
    assert "No run has looked at it for 37.5 h." in client.get("/kafkats/volumes").text
    monkeypatch.setattr(settings, "OVERDUE", timedelta(hours=36))
    assert row.states(NOW) == ["overdue"]
    assert "No run has looked at it for 36 h." in client.get("/kafkats/volumes").text


def test_a_danger_that_a_later_run_may_have_mended_says_so_until_a_look_as_deep(
    client: Any, folder: Path
) -> None:
    """A recovery reads the ends: the danger that a full look found stays, and its page says why."""
    danger = volume("/a", kinds={"danger": {"torn-tail-marked-clean": 1}})
    ended(folder, NOW - 3 * HOUR_MS, danger, run="full look")
    shallow = {"dag": "recover_log_dirs", "run": "mends"}
    ended(folder, NOW - HOUR_MS, volume("/a", depth="tail"), **shallow)
    page = client.get("/kafkats/volumes").text
    assert "torn-tail-marked-clean 1" in page and "changed since by" not in page
    kept = change(folder / "recover_log_dirs" / "mends", "a" * 64, {"/a": 0}, None)
    kept |= {"operation": "recover", "ended_ms": NOW - 2 * HOUR_MS}
    run = ended(folder, NOW - HOUR_MS, volume("/a", depth="tail"), undo=[kept], **shallow)
    page = client.get("/kafkats/volumes").text
    assert "torn-tail-marked-clean 1" in page
    assert re.search(
        r"changed since by <a href=\"run\?dag_id=recover_log_dirs&amp;run_id=mends", page
    )
    assert "(recover), " in page and "Not yet looked at as deep." in page
    [made] = run.glob("*/run-*")
    write(made / "purge.json", {"at_ms": NOW})
    assert "changed since by" in client.get("/kafkats/volumes").text, "a purge changes no log"
    write(made / "undone.json", {"at_ms": NOW})
    assert "changed since by" not in client.get("/kafkats/volumes").text
    (made / "undone.json").unlink()
    ended(folder, NOW, volume("/a", depth="full"), run="looks again")
    page = client.get("/kafkats/volumes").text
    assert "torn-tail-marked-clean 1" not in page and "changed since by" not in page


def test_a_folder_that_did_not_change_is_not_read_again(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from kafkats_airflow.reading import runs, volumes
    from kafkats_airflow.ui.reading import listing

    def seen(later_ms: int) -> tuple[int, str, int]:
        """The bytes of the row, the words of the run, and how many overviews were read for them."""
        read.clear()
        now_ms = time.time_ns() // 1_000_000 + later_ms
        (row,) = board(folder, now_ms=now_ms).rows
        (run,) = listing.rows_of(runs.runs_in(folder, DAGS), now_ms, lambda _: set())
        return row.seen.volume.bytes, run.said, len(read)

    def counting(module: Any, name: str) -> None:
        function = getattr(module, name)

        def counted(path: Path, *more: Any) -> Any:
            read.append(path)
            return function(path, *more)

        monkeypatch.setattr(module, name, counted)

    read: list[Path] = []
    counting(volumes, "parsed")
    counting(listing, "overview_of")
    run = ended(folder, NOW, volume("/a", bytes=1), outcome="one")
    assert [seen(0), seen(0)] == [(1, "one", 2), (1, "one", 2)], "it has just changed"
    assert [seen(DAY_MS), seen(DAY_MS)] == [(1, "one", 2), (1, "one", 0)]
    at_ns = run.stat().st_mtime_ns
    ended(folder, NOW + 1, volume("/a", bytes=2), run=run.name, outcome="two")
    os.utime(run, ns=(at_ns, at_ns))  # as rsync and cp -a do
    assert [seen(DAY_MS), seen(DAY_MS)] == [(2, "two", 2), (2, "two", 0)]
    write(run / "overview.json", "{")
    for _ in range(2):
        read.clear()
        assert len(board(folder, now_ms=time.time_ns() // 1_000_000 + DAY_MS).unreadable) == 1
        assert read, "what cannot be read is tried each time"


def test_metrics_change_no_name_on_pages(folder: Path) -> None:
    """Metrics know a DAG by the name of its folder; pages lead to it by its id."""
    from kafkats_airflow.reading import runs, volumes
    from kafkats_airflow.runs.folders import file_name

    name, now_ms = file_name("größe"), time.time_ns() // 1_000_000 + DAY_MS
    ended(folder, NOW, volume("/a"), dag=name, dag_id="größe")
    for called, found in (
        (name, runs.runs_below(folder, {name: name})),
        ("größe", runs.runs_in(folder, ["größe"])),
    ):
        (row,) = volumes.board(found, {}, now_ms).rows
        assert row.mentioned is not None and row.mentioned.dag_id == called


def test_undo_material_counts_until_it_is_purged_or_undone(folder: Path) -> None:
    from kafkats_airflow.reading.runs import run_in

    at_ms = NOW - HOUR_MS
    run = folder / "rebuild_time_indexes" / f"scheduled__{at_ms}"
    kept = [
        change(run, digit * 64, {"/a": size}, until)
        for digit, size, until in (
            ("a", 100, NOW + DAY_MS),
            ("b", 20, None),
            ("c", 3, NOW + 2 * DAY_MS),
        )
    ]
    ended(folder, at_ms, volume("/a"), undo=kept)
    (row,) = board(folder).rows
    assert (row.undo_bytes(), len(row.undo), row.freed_ms()) == (123, 3, NOW + DAY_MS)
    write(Path(run_in(run, kept[0]["run"]), "purge.json"), {"at_ms": NOW})
    (row,) = board(folder).rows
    assert (row.undo_bytes(), row.undone_since) == (23, False)
    write(Path(run_in(run, kept[1]["run"]), "undone.json"), {"at_ms": NOW})
    (row,) = board(folder).rows
    assert (row.undo_bytes(), row.undone_since) == (3, True)
    ended(folder, NOW - 1, volume("/a"), run="before the undo")
    (row,) = board(folder).rows
    assert row.undone_since, "a run that looked before the undo saw other files"
    ended(folder, NOW + 1, volume("/a"), run="after the undo")
    (row,) = board(folder).rows
    assert not row.undone_since


@pytest.mark.parametrize(
    ("content", "why"),
    [
        ("", "half-written or corrupt"),
        ('{"format": 1, "dag_id": "x", "volu', "half-written or corrupt"),
        ("[]", "it is no JSON object"),
        ('{"format": 2}', "not as it was written: format"),
        (
            '{"format": 1, "dag_id": "d", "run_id": "r", "written_ms": -1, "outcome": "", "volumes": []}',
            "written_ms",
        ),
        ("\udcff", "half-written or corrupt"),
        ("[" * 100_000, "corrupt: nested too deeply"),
    ],
)
def test_a_report_that_cannot_be_read_is_shown_as_such(
    client: Any, folder: Path, content: str, why: str
) -> None:
    run = ended(folder, NOW, volume("/a"))
    (run / "overview.json").write_bytes(content.encode(errors="surrogateescape"))
    for page in ("volumes", "runs", f"run?dag_id=rebuild_time_indexes&run_id={run.name}"):
        answer = client.get(f"/kafkats/{page}")
        assert answer.status_code == 200
        assert "overview.json" in answer.text
        assert why in answer.text, page
        assert "data-state" in answer.text, "the rest of the page is there"


def test_a_file_that_is_a_link_or_a_folder_is_not_read(
    client: Any, folder: Path, tmp_path: Path
) -> None:
    run = ended(folder, NOW, volume("/a"))
    (run / "overview.json").rename(tmp_path / "elsewhere")
    (run / "overview.json").symlink_to(tmp_path / "elsewhere")
    text = client.get("/kafkats/volumes").text
    assert "it is no plain file" in text
    assert "older report" in text, "report.json names it"
    assert "4.0\u00a0KiB" not in text


def test_a_report_is_read_again_when_it_has_changed(client: Any, folder: Path) -> None:
    ended(folder, NOW, volume("/before"))
    assert "/before" in client.get("/kafkats/volumes").text
    ended(folder, NOW, volume("/after!"))
    text = client.get("/kafkats/volumes").text
    assert "/after!" in text
    assert "/before" not in text


def test_a_folder_that_is_not_seen_from_here_is_said_for_each_volume(
    client: Any, folder: Path
) -> None:
    write(
        folder.parent / "policy.yaml",
        "volumes: [{broker: '1', path: /data/one}, {broker: '2', path: /data/two}]",
    )
    folder.rmdir()
    text = client.get("/kafkats/volumes").text
    assert "The api-server cannot see the folder of all runs." in text
    assert str(folder) in text
    assert text.count("no report that is seen from here names it") == 2
    assert "2 of 2\u202fvolumes need you." in text or "2 of 2 volumes need you." in text
    assert "cannot see the folder" in client.get("/kafkats/runs").text


def test_a_policy_that_cannot_be_read_is_said(client: Any, folder: Path) -> None:
    ended(folder, NOW, volume("/a"))
    assert "The policy cannot be read on the api-server" in client.get("/kafkats/volumes").text
    write(folder.parent / "policy.yaml", "volumes: 7")
    assert "The policy cannot be read on the api-server" in client.get("/kafkats/volumes").text
    write(folder.parent / "policy.yaml", "volumes: [{broker: '1', path: /a}]")
    text = client.get("/kafkats/volumes").text
    assert "The policy cannot be read" not in text
    assert "broker 1" in text


def test_hostile_names_are_text(client: Any, folder: Path) -> None:
    run = ended(
        folder,
        NOW,
        volume(f"/{HOSTILE}", kinds={"damage": {HOSTILE: 1}}),
        outcome=HOSTILE,
        run_id=HOSTILE,
    )
    report = {"outcome": HOSTILE, "failures": [HOSTILE], "remarks": [HOSTILE], "volumes": [HOSTILE]}
    write(run / "report.json", report)
    for page in (
        "volumes",
        "runs",
        f"run?dag_id=rebuild_time_indexes&run_id={run.name}",
        "volumes?find=%3Cscript%3E",
    ):
        text = client.get(f"/kafkats/{page}").text
        assert "&lt;script&gt;" in text
        assert "<script>document" not in text
        assert "<img" not in text


@pytest.mark.parametrize(
    "sort", ["trouble", "path", "age", "bytes", "reclaimable", "pinned", "undo"]
)
def test_every_order_of_the_table(client: Any, folder: Path, sort: str) -> None:
    now_ms = time.time_ns() // 1_000_000
    deleted = reclaimable(9 * 1024**3, 9)
    ended(
        folder, now_ms - HOUR_MS, volume("/b", bytes=9 * 1024**3, reclaimable=deleted), volume("/a")
    )
    order = re.findall(r"<code>(/[ab])</code>", client.get(f"/kafkats/volumes?sort={sort}").text)
    assert order == (
        ["/a", "/b"]
        if sort in {"trouble", "path", "undo"}
        else ["/b", "/a"]
        if sort != "age"
        else order
    )
    assert client.get("/kafkats/volumes?sort=size%00").status_code == 422


def test_the_large_folder_of_the_benchmark_is_one_of_the_product(client: Any, folder: Path) -> None:
    from bench.report_folder import make

    make(folder, runs=5, partitions=120, segments=3, now_ms=time.time_ns() // 1_000_000)
    for page in ("volumes", "runs", "index-health"):
        answer = client.get(f"/kafkats/{page}")
        assert answer.status_code == 200, page
        assert "The figures leave" not in answer.text, "every file can be read"
    assert "empty-index" in client.get("/kafkats/volumes").text
    assert "Runs 1 to 5 of 5." in client.get("/kafkats/runs").text


def test_how_full_a_disk_is_needs_no_look_at_its_segments(client: Any, folder: Path) -> None:
    """A census of some topics tells no sizes of the log directory; its file system has one."""
    disk = {"disk_bytes": 10 * 1024**3, "disk_free_bytes": 1024**3}
    counted = {"log_dir": "/a", "magic_bytes": [0, 0, 5], "log_bytes": 5, **disk}
    ended(
        folder, time.time_ns() // 1_000_000, counted, dag="migrate_message_format", topics="orders"
    )
    text = client.get("/kafkats/volumes").text.replace("\N{NO-BREAK SPACE}", " ")
    assert "1.0 GiB free of 10.0 GiB" in text
