"""`scripts/seeds`: the documents' numbers and options, as the page shows them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import pytest

from bench.seeds.__main__ import PAGE, PARTS, WIDTH, main
from bench.seeds.rejected import MinuteMap, add_entry, append_time

Row = dict[str, str]
Section = tuple[list[Row], str]
"""The rows of a table by their columns, and the text beside it. A repeated column ends with 2."""
Shown = Callable[[str], dict[str, Section]]


def sections(text: str) -> dict[str, Section]:
    """The sections of a page by the first words of their titles."""
    found = {}
    for part in text.split("\n## ")[1:]:
        title, *lines = part.splitlines()
        table = [
            [cell.strip() for cell in line[1:-1].split("|")] for line in lines if line[:1] == "|"
        ]
        names: list[str] = []
        for name in table[0]:
            names.append(f"{name} 2" if name in names else name)
        rows = [dict(zip(names, row, strict=True)) for row in table[2:]]
        found[title] = rows, " ".join(line for line in lines if line[:1] != "|")
    return found


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shown]:
    """The sections of a part of the command."""

    @cache
    def part(name: str) -> dict[str, Section]:
        page = tmp_path_factory.mktemp("seeds") / "page.md"
        with pytest.MonkeyPatch.context() as patch:
            printed: list[str] = []
            patch.setattr(
                "bench.seeds.__main__.Console.print", lambda self, *a: printed.extend(map(str, a))
            )
            assert main([name, "-o", str(page)]) == 0
            assert printed
        return sections(page.read_text())

    yield part
    part.cache_clear()


@pytest.fixture
def estimate(shown: Shown) -> Callable[[str], Row]:
    def of(item: str) -> Row:
        rows, _ = shown("estimates")["Estimates"]
        (row,) = (row for row in rows if row["item"] == item)
        return row

    return of


@pytest.mark.slow(1)
def test_open_files(estimate: Callable[[str], Row]) -> None:
    row = estimate("K33-03")
    assert "1/3" in row["stated"]
    assert row["computed"] == "2 become 3 files: 50% more, 33% of them new"
    assert row["measured"] == "108 become 162 in rolling-4.3.1: 50% more, 33% new"


@pytest.mark.slow(3)
def test_entry_sizes(estimate: Callable[[str], Row]) -> None:
    row = estimate("K33-11")
    assert row["stated"] == "1.5 x" and row["computed"] == "12 / 8 bytes = 1.5 x"
    assert "1310720 offset and 873812 time entries" in row["measured"]


def test_a_segment_of_1_gb_has_3_mb_of_time_index(estimate: Callable[[str], Row]) -> None:
    row = estimate("K33-44")
    assert row["stated"] == "3 MB" and row["computed"] == "3,145,728 bytes: 3 MiB"
    assert 2_900_000 < int(row["measured"].split()[0].replace(",", "")) < 3_145_728


def test_16_gb_of_indexes_become_32_gb(estimate: Callable[[str], Row]) -> None:
    row = estimate("K33-55")
    assert "3,500 partitions" in row["estimate"] and row["stated"] == "16 GB become 32 GB"
    assert "32 GB" in row["computed"] and row["measured"] == "2.00 x; two indexes 2.50 x"


def test_an_index_per_second(estimate: Callable[[str], Row]) -> None:
    row = estimate("K33-57")
    assert row["stated"] == "3.4 GB" and row["computed"] == "3,628,800,000 bytes: 3.4 GiB"


def test_an_index_per_minute(estimate: Callable[[str], Row]) -> None:
    row = estimate("K31-51")
    assert row["stated"] == "57 MB" and row["computed"] == "60,480,000 bytes: 57.7 MiB"
    assert row["measured"].startswith("57.7 MiB")


def test_two_timestamps_take_16_bytes(estimate: Callable[[str], Row]) -> None:
    row = estimate("K32-41")
    assert row["stated"] == "16 bytes" and "= 16 bytes" in row["computed"]
    assert row["measured"].startswith("8 bytes")


def test_an_enriched_message_has_8_bytes_more_at_best(shown: Shown) -> None:
    rows = [row for row in shown("estimates")["Estimates"][0] if row["item"] == "ENR-21"]
    best, stamped, _ = rows
    assert best["stated"] == "8 bytes" and best["computed"].endswith("= 8 bytes")
    assert best["measured"].startswith("8 bytes each in 200 messages")
    assert stamped["computed"].endswith("= 17 bytes") and stamped["measured"] == "17 bytes"


# ---------------------------------------------------------------- options


@pytest.fixture
def played(shown: Shown) -> Callable[[str, str, str], Row]:
    def of(title: str, pattern: str, option: str) -> Row:
        rows, _ = shown("options")[title]
        (row,) = (r for r in rows if (r["pattern"], r["option"]) == (pattern, option))
        return row

    return of


Played = Callable[[str, str, str], Row]
LATE = ("LogAppendTime", "both times", "index only")


def least(cell: str) -> float:
    return float(cell.split("-")[0])


def most(cell: str) -> float:
    return float(cell.split("-")[1])


@pytest.mark.slow(3)
@pytest.mark.parametrize("pattern", ["1", "2", "3", "wrong"])
def test_file_times_keep_a_new_replica_for_too_long(pattern: str, played: Played) -> None:
    row = played("Retention", pattern, "file times")
    assert most(row["new replica"]) > most(row["leader"]) + 11 and float(row["late"]) > 14
    for option in LATE:
        row = played("Retention", pattern, option)
        assert most(row["new replica"]) < most(row["leader"]) + 3


@pytest.mark.slow(1)
@pytest.mark.parametrize("option", LATE)
@pytest.mark.parametrize("pattern", ["1", "2", "3", "wrong"])
def test_by_append_time_nothing_is_deleted_early(pattern: str, option: str, played: Played) -> None:
    row = played("Retention", pattern, option)
    assert all(least(row[log]) >= 12 for log in ("leader", "new replica", "mirror"))
    assert row["early"] == "" and float(row["late"]) <= 5


@pytest.mark.slow(7)
def test_what_the_document_prefers_for_retention(played: Played) -> None:
    """Pattern 1: either. 2: CreateTime, by which nothing is older than the others. 3 and wrong: LogAppendTime."""
    chosen = {}
    for pattern in ("1", "2", "3", "wrong"):
        created, appended = (
            played("Retention", pattern, o) for o in ("CreateTime", "LogAppendTime")
        )
        assert created["prefers"] == appended["prefers"]
        chosen[pattern] = created["prefers"]
        early = created["early"] and float(created["early"]) > 1
        if pattern == "1":
            assert not early and created["age"] == appended["age"]
        elif pattern == "2":
            assert float(created["age"].split()[0]) < float(appended["age"].split()[0])
        else:
            assert (early or "never" in created["leader"]) and not appended["early"]
    assert chosen == {"1": "CT or LAT", "2": "CT", "3": "LAT", "wrong": "LAT"}


def test_by_create_time_retention_follows_the_age(played: Played) -> None:
    """Pattern 2, for which the document prefers CreateTime: after 12 h, and 6 h early on the disk."""
    row = played("Retention", "2", "CreateTime")
    assert row["prefers"] == "CT"
    assert least(row["leader"]) < 7 and row["age"] == "15.0 h" and row["early"] == "6.2"
    assert played("Retention", "2", "LogAppendTime")["age"] == "21.0 h"


def test_by_create_time_late_messages_are_deleted_early(played: Played) -> None:
    """Pattern 3, for which the document prefers LogAppendTime."""
    row = played("Retention", "3", "CreateTime")
    assert row["prefers"] == "LAT" and least(row["leader"]) < 6 and row["early"] == "7.5"


def test_one_wrong_time_keeps_segments_for_ever(played: Played) -> None:
    wrong = played("Retention", "wrong", "CreateTime")
    assert (wrong["leader"], wrong["late"]) == ("48 never", "never")
    limited = played("Retention", "wrong", "CreateTime, 24 h limit")
    assert least(limited["leader"]) >= 12
    assert played("Rolling", "wrong", "CreateTime, 24 h limit")["rejected"] == "2"


def test_rolling_by_pattern(played: Played) -> None:
    """Pattern 1: either; pattern 3 and wrong times: LogAppendTime."""
    for pattern, longest in (("1", "2.0"), ("3", "7.7"), ("wrong", "15.7")):
        assert played("Rolling", pattern, "CreateTime")["longest, hours"] == longest
        for option in LATE:
            assert float(played("Rolling", pattern, option)["longest, hours"]) <= 2


def test_search_by_create_time_misses_nothing(played: Played) -> None:
    for pattern in ("1", "2", "3"):
        for option in ("CreateTime", *LATE):
            assert played("Search and fail-over", pattern, option)["missed"] == "0"


def test_search_by_append_time_reads_more_again(played: Played) -> None:
    """Pattern 2: LogAppendTime > CreateTime, so the search begins too early, by the latency."""
    rows = [
        played("Search and fail-over", "2", option) for option in ("CreateTime", "LogAppendTime")
    ]
    assert float(rows[0]["again"]) < 1 and float(rows[1]["again"]) > 15


def test_a_failover_by_create_time_needs_the_largest_latency(played: Played) -> None:
    row = played("Search and fail-over", "3", "CreateTime")
    assert int(row["fail-over: missed"]) > 0 and row["8 h earlier: missed"] == "0"


# ---------------------------------------------------------------- scenarios


def test_the_mirror_maker(shown: Shown) -> None:
    """CT stays T0; LAT is T1 = T0 + latency 1, then T2 = T1 + latency 2."""
    rows, _ = shown("walks")["The mirror maker, step by step"]
    assert [row["CreateTime"] for row in rows] == ["T0"] * 4
    assert [row["LogAppendTime"] for row in rows] == [
        "none", "T0 + 700 ms", "T0 + 700 ms", "T0 + 2000 ms",
    ]  # fmt: skip


def test_m1_and_m2(shown: Shown) -> None:
    rows, text = next(v for k, v in shown("walks").items() if k.startswith("m1 and m2"))
    assert "Cluster 1 has m1 m2, cluster 2 m2 m1." in text
    assert [(row["offset"], row["misses"]) for row in rows] == [("1", "m1"), ("0", "nothing")]


def test_a_new_leader_never_goes_back(shown: Shown) -> None:
    """It takes max(T1, T0)."""
    rows, _ = next(v for k, v in shown("walks").items() if k.startswith("A new leader"))
    assert [*rows[0].values()][1:] == ["+0.0 min", "-10.0 min", "-5.0 min", "+1.0 min"]
    assert [*rows[1].values()][1:] == ["+0.0 min", "+0.0 min", "+0.0 min", "+1.0 min"]


def test_append_time_only_in_the_index(shown: Shown) -> None:
    rows, text = next(v for k, v in shown("walks").items() if k.startswith("LogAppendTime only"))
    leader, follower, truncated, _ = (row["entries: second, offset"] for row in rows)
    assert leader == "0: 0, 60: 2, 170: 4, 175: 5" and follower == "the same"
    assert truncated == "0: 0, 60: 2, 90: 3"
    assert "add 48 bytes to the response to a follower" in text


def test_append_time_only_in_the_index_after_a_recovery(shown: Shown) -> None:
    """The messages have no LogAppendTime: all entries have that of the rebuild."""
    rows, text = next(v for k, v in shown("walks").items() if k.startswith("LogAppendTime only"))
    assert rows[-1]["entries: second, offset"] == "3775: 0, 3775: 5"
    assert "12.0 h after the last message" in text and "121 min after the first one" in text
    assert "by the rebuilt index 13.0 h and 183 min." in text


def test_only_followers_fetch_entries(shown: Shown) -> None:
    _, text = next(v for k, v in shown("walks").items() if k.startswith("LogAppendTime only"))
    assert "48 bytes to the response to a follower, and 0 to a consumer's" in text


def test_the_map_of_minutes(shown: Shown) -> None:
    rows, text = next(v for k, v in shown("walks").items() if k.startswith("The map of minutes"))
    assert [tuple(row.values()) for row in rows] == [
        ("0", "1", "0"), ("0", "0", "1"), ("0", "2", "3"), ("5", "2", "5"), ("5", "3", "6"),
    ]  # fmt: skip
    assert "loads the same map" in text and "2 entries are left" in text


def test_the_models() -> None:
    assert append_time(5, 9, never_back=True) == 9 and append_time(5, 9, never_back=False) == 5
    entries: list[tuple[int, int]] = []
    for offset, time in enumerate((0, 1, 59_999, 60_000)):
        add_entry(entries, time, offset)
    assert entries == [(0, 0), (60_000, 3)]
    minutes = MinuteMap([(0, 0, 7)])
    minutes.add(0, 5, 9)
    minutes.delete(1)
    assert minutes.entries() == [(0, 0, 7)]


# ---------------------------------------------------------------- the command


def test_the_page_is_what_the_command_writes(shown: Shown) -> None:
    """Each part has the sections of the page."""
    page = sections(PAGE.read_text())
    assert {title: one for part in PARTS for title, one in shown(part).items()} == page, (
        "run scripts/seeds"
    )


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = tmp_path / "page.md"
    assert main(["walks", "-o", str(page)]) == 0
    out = capsys.readouterr().out
    assert "T0 + 2000 ms" in out and all(len(line) <= WIDTH for line in out.splitlines())
    for words in (["nothing"], ["walks"], ["walks", "--check"]):
        with pytest.raises(SystemExit) as e:
            main(words)
        assert e.value.code == 2
