"""KIP-33's use cases and its rejected indexes, by command on what `kafkats replay` leaves."""

from __future__ import annotations

from pathlib import Path

import pytest

from model.tests.builders.played import DAY, DENSE, HOUR, Played, Row, T, begin, send
from tests.builders.commands import objects, run

MINUTE = 60_000
LAT = {"message.timestamp.type": "LogAppendTime"}
Capsys = pytest.CaptureFixture[str]


@pytest.fixture
def play(tmp_path: Path, capsys: Capsys) -> Played:
    return Played(tmp_path, capsys)


def lookup(play: Played, at: int, *words: str) -> tuple[list[Row], Row]:
    """The rows of `kafkats lookup` by partition, and its summary."""
    asked = ("lookup", play.root, "--high-watermark", "log-end", "--at", T + at)
    code, out, err = run(play.capsys, *asked, *words, "--json")
    assert code == 0, err
    *rows, last = objects(out)
    return rows, last["summary"]


def test_the_granularity_changes_no_answer(play: Played) -> None:
    """Two indexes of one log: as dense as it gets, and with one entry for all."""
    times = [10, 50, 30, 90, 70, 120, 110, 200]
    sends = [send(time) for time in times]
    sparse = {
        "do": "create",
        "broker": "1",
        "partition": "u-0",
        "config": {"index.interval.bytes": 10**6},
    }
    play(*begin("2.8.2", **DENSE), *sends, sparse, *({**one, "partition": "u-0"} for one in sends))
    assert len(play.times()) > 3 and len(play.times(name="u-0")) == 1
    for at in range(0, 200, 10):
        first, second = (row["offset"] for row in lookup(play, at)[0])
        assert first == second == next(n for n, time in enumerate(times) if time >= at)


def test_create_time_in_a_log_append_time_index(play: Played) -> None:
    """LogAppendTime > CreateTime: a search by CreateTime misses nothing, and one by LogAppendTime is exact."""
    created = [0, 1000, 2000, 3000]
    play(*begin("2.8.2", **LAT), *(send(time, at=time + 1500) for time in created))
    for number, time in enumerate(created):
        assert lookup(play, time)[0][0]["offset"] <= number
        assert lookup(play, time + 1500)[0][0]["offset"] == number


def test_a_skewed_clock_needs_a_margin(play: Played) -> None:
    """The broker's clock is 10 s behind the producer's: the search takes CT - X, X the largest skew."""
    play(
        *begin("2.8.2", **LAT), *(send(time + 10_000, at=time) for time in (0, 2000, 4000, 12_000))
    )
    assert lookup(play, 12_000)[0][0]["offset"] == 3, (
        "misses the message of 12 s, which is at offset 1"
    )
    safe = lookup(play, 12_000, "--how", "safe", "--margin", "10s")
    assert safe[0][0]["offset"] == 1


def test_two_messages_of_one_create_time(play: Played) -> None:
    """m1 and m2 have one CreateTime, m2 came an hour later: whoever has read m2 reads all from m1 on again."""
    between = [send(n * MINUTE, at=n * MINUTE) for n in range(1, 60)]
    rows = play(*begin("2.8.2"), send(0, at=0), *between, send(0, at=HOUR))
    assert rows[-1]["last_offset"] == 60
    assert lookup(play, 0)[0][0]["offset"] == 0, "61 messages are read again"


def test_a_bulk_load_into_a_log_append_time_topic_is_said(play: Played) -> None:
    """Ten days are loaded within a second; who wants the last three finds them by CreateTime only."""
    load = [send(-day * DAY, at=10 - day) for day in range(10, 0, -1)]
    create = {"do": "create", "broker": "1", "partition": "u-0", "config": LAT}
    both = [one for step in load for one in (step, {**step, "partition": "u-0"})]
    play(*begin("2.8.2"), create, *both)
    (created, stamped), summary = lookup(play, -3 * DAY)
    assert (created["offset"], stamped["offset"]) == (7, 0)
    assert summary["append_time_topics"] == ["u"]
    asked = ("lookup", play.root, "--high-watermark", "log-end", "--at", T)
    out = run(play.capsys, *asked)[1]
    assert "timestamps are LogAppendTimes in u: the answer goes by arrival" in out
    assert "LogAppendTimes" not in run(play.capsys, *asked, "--topics", "t")[1]


def test_what_is_old_is_left_out_of_a_bulk_load(play: Played) -> None:
    """The text's remedy for LogAppendTimes: who wants three of ten days loads no more than these."""
    create = {"do": "create", "broker": "1", "partition": "u-0", "config": LAT}
    load = [send(-day * DAY, at=10 - day) for day in range(10, 0, -1)]
    wanted = [step | {"partition": "u-0", "at": T + 10} for step in load[-3:]]
    rows = play(*begin("2.8.2", **LAT), create, *load, *wanted)
    (whole, filtered), _ = lookup(play, -3 * DAY)
    assert (rows[-4]["log_end_offset"], rows[-1]["log_end_offset"]) == (10, 3)
    assert (whole["offset"], filtered["offset"]) == (0, 0), "seven of ten are read in vain"


def clusters(tmp_path: Path, capsys: Capsys) -> tuple[Path, Path, Path]:
    """Tables of two clusters to which m1 (0 s) and m2 (5 s) came in different order, and what a group read in the second."""
    later = [send(20_000, at=20_000), send(40_000, at=40_000)]
    arrivals = {
        "1": [send(0, at=1000), send(5000, at=6000)],
        "2": [send(5000, at=6000), send(0, at=8000)],
    }
    tables = []
    for name, sends in arrivals.items():
        folder = tmp_path / name
        folder.mkdir()
        play = Played(folder, capsys)
        play(*begin("2.8.2"), *sends, *later)
        words = (
            "--every",
            "1s",
            "--from",
            T - 10_000,
            "--until",
            T + 60_000,
            "-o",
            folder / "table",
        )
        code, _, err = run(capsys, "lookup", play.root, "--high-watermark", "log-end", *words)
        assert code == 0, err
        tables.append(folder / "table")
    committed = tmp_path / "committed.csv"
    committed.write_text("t,0,1\n")  # it has read offset 0, which is m2
    return tables[0], tables[1], committed


@pytest.mark.parametrize(("margin", "offset", "missed"), [("0s", 1, True), ("8s", 0, False)])
def test_m1_and_m2(margin: str, offset: int, missed: bool, tmp_path: Path, capsys: Capsys) -> None:
    """By CT2 the group misses m1, which lies before m2 in cluster 1; by CT2 - MaxLatencyOfCluster it does not."""
    first, second, committed = clusters(tmp_path, capsys)
    words = ("--group", "g", "--committed", committed, "--margin", margin)
    code, out, err = run(capsys, "failover", second, first, *words)
    assert code == 0, err
    assert out.splitlines()[-1] == f"t,0,{offset}"
    assert (offset > 0) == missed, "m1 is at offset 0 of cluster 1"


@pytest.mark.parametrize(("margin", "missed"), [("8s", False), ("4s", True)])
def test_a_failover_by_the_largest_latency(
    margin: str, missed: bool, tmp_path: Path, capsys: Capsys
) -> None:
    """From any offset that cluster 2 has read; MaxLatencyOfCluster is 8 s, that of m1 there."""
    first, second, committed = clusters(tmp_path, capsys)
    order = {1: (0, 5000, 20_000, 40_000), 2: (5000, 0, 20_000, 40_000)}
    lost, again = set[int](), 0
    for offset in range(1, 5):
        committed.write_text(f"t,0,{offset}\n")
        words = ("--group", "g", "--committed", committed, "--margin", margin)
        code, out, err = run(capsys, "failover", second, first, *words)
        assert code == 0, err
        answer, read = int(out.splitlines()[-1].split(",")[2]), order[2][:offset]
        lost |= set(order[1][:answer]) - set(read)
        again += sum(time in read for time in order[1][answer:])
    assert (bool(lost), again > 0) == (missed, True)


def test_latency_of_a_create_time_topic(play: Played) -> None:
    """System.currentTimeMillis - CT: the broker's clock at the append is the file's time."""
    play(*begin("2.8.2"), send(900, at=1000), send(0, at=1500))
    code, out, _ = run(play.capsys, "latency", play.root, "--json")
    row, _ = objects(out)
    assert code == 0 and (row["source"], row["most_ms"]) == ("mtime", 1500)


def test_latency_of_a_log_append_time_topic(play: Played) -> None:
    """LAT - CT."""
    play(*begin("2.8.2", **LAT), send(0, at=1500, version=3), send(2000, at=2300, version=3))
    code, out, _ = run(play.capsys, "latency", play.root, "--json")
    row, *_ = objects(out)
    assert code == 0
    assert (row["source"], row["samples"], row["least_ms"], row["most_ms"]) == (
        "append-time",
        2,
        300,
        1500,
    )


def test_lag_by_time(play: Played, tmp_path: Path) -> None:
    """A group that has read the message of 0 s in a log that ends at 90 s."""
    play(*begin("2.8.2", **LAT), *(send(0, at=at) for at in (0, 30_000, 90_000)))
    committed = tmp_path / "committed.csv"
    committed.write_text("t,0,1\n")
    code, out, err = run(
        play.capsys, "lag", play.root, "--committed", committed, "--group", "g", "--json"
    )
    row, _ = objects(out)
    assert code == 0, err
    assert (row["lag"], row["lag_ms"]) == (2, 60_000)


def test_lag_by_time_is_not_of_create_times(play: Played, tmp_path: Path) -> None:
    """A message that was created long ago and came late has the lag of its creation."""
    create = {"do": "create", "broker": "1", "partition": "u-0", "config": LAT}
    sends = [send(0, at=0), send(-DAY, at=30_000), send(0, at=90_000)]
    play(*begin("2.8.2"), create, *(step | {"partition": p} for step in sends for p in ("t-0", "u-0")))  # fmt: skip
    committed = tmp_path / "committed.csv"
    committed.write_text("t,0,1\nu,0,1\n")
    words = ("--committed", committed, "--group", "g", "--json")
    code, out, err = run(play.capsys, "lag", play.root, *words)
    assert code == 0, err
    assert {row["topic"]: row["lag_ms"] for row in objects(out)[:-1]} == {"t": DAY, "u": 60_000}


# ---------------------------------------------------------------- rejected indexes


def layouts(play: Played, folder: Path) -> list[Row]:
    """The rows of `kafkats layouts`, which also writes the files."""
    words = ("--config", "index.interval.bytes=0", "--json", "-o", folder)
    code, out, err = run(play.capsys, "layouts", play.root, *words)
    assert code == 0, err
    return objects(out)[:-1]


def minutes(play: Played, folder: Path, fill: str) -> list[tuple[int, int]]:
    """(minute after T, offset) of the index by minutes, which has 12 bytes per entry."""
    layouts(play, folder)
    path = folder / f"t-0/{0:020d}.{fill}.minute.time.index"
    rows = [
        row for row in objects(run(play.capsys, "dump", path)[1]) if row["kind"] == "time-entry"
    ]
    assert path.stat().st_size == 12 * len(rows)
    return [((row["timestamp"] - T) // MINUTE, row["offset"]) for row in rows]


def test_an_entry_with_offset_position_and_timestamp_has_twice_the_size(
    play: Played, tmp_path: Path
) -> None:
    """16 bytes instead of 8."""
    play(*begin("2.8.2", **DENSE), *(send(*range(n * 100, n * 100 + 100)) for n in range(20)))
    (enriched,) = (row for row in layouts(play, tmp_path / "f") if row["layout"] == "enriched")
    offsets = play.path(0, "index").stat().st_size
    assert offsets >= 4 * 8 and enriched["bytes"] == 2 * offsets


def test_an_index_by_minutes_of_append_time(play: Played, tmp_path: Path) -> None:
    """An entry where an offset index entry's message falls into the next minute."""
    play(*begin("2.8.2", **LAT, **DENSE), *(send(0, at=n * 20_000) for n in range(10)))
    assert minutes(play, tmp_path / "f", "append-time") == [(0, 1), (1, 3), (2, 6), (3, 9)]


def test_an_index_by_minutes_of_create_time(play: Played, tmp_path: Path) -> None:
    """Per minute the offset of the first message in it, although the minutes do not rise."""
    play(*begin("2.8.2"), *(send(seconds * 1000) for seconds in (70, 5, 65, 130, 10)))
    assert minutes(play, tmp_path / "f", "create-time") == [(1, 0), (0, 1), (2, 3)]
