"""Which section is dirty, whether it is dirty enough, and which segments become one: tables."""

from __future__ import annotations

from typing import Any

import pytest

from kafkats_model.broker.generation import generation
from kafkats_model.broker.settings import Topic, settings_from, topic_of
from kafkats_model.compaction.section import (
    CLEAN_ENOUGH,
    NOTHING,
    Ends,
    SegmentFacts,
    groups,
    section,
)

NOW = 1_000_000
DAY = 86_400_000


def topic(kafka: str = "4.3", **config: Any) -> Topic:
    given = {"cleanup.policy": "compact"} | {k.replace("_", "."): v for k, v in config.items()}
    return topic_of(settings_from(given), generation(kafka))


def segment(base: int, size: int = 100, **facts: int) -> SegmentFacts:
    made = SegmentFacts(base, size, 8, 12, NOW - 500, NOW - 500, NOW - 900)
    return made._replace(**facts)


LOG = [segment(0), segment(10), segment(20), segment(30, 50)]


@pytest.mark.parametrize(
    ("ends", "config", "kafka", "found"),
    [
        pytest.param({}, {}, "4.3", (0, 30, ""), id="all but the active segment"),
        pytest.param({"cleaned_to": 10}, {}, "4.3", (10, 30, ""), id="from the checkpoint on"),
        pytest.param({"cleaned_to": 20}, {}, "4.3", (20, 30, CLEAN_ENOUGH), id="a third is dirty"),
        pytest.param({"cleaned_to": 15}, {"min_cleanable_dirty_ratio": 0.49}, "4.3", (15, 30, ""), id="the segment of the checkpoint counts as both"),
        pytest.param({"cleaned_to": 30}, {}, "4.3", (30, 30, NOTHING), id="all is clean"),
        pytest.param({"cleaned_to": 99}, {}, "4.3", (0, 30, ""), id="a checkpoint above the end"),
        pytest.param({"cleaned_to": 3, "log_start": 10}, {}, "4.3", (10, 30, ""), id="one below the start"),
        pytest.param({"last_stable": 25}, {}, "4.3", (0, 20, ""), id="an open transaction"),
        pytest.param({"last_stable": 5}, {}, "4.3", (0, 0, NOTHING), id="one in the first segment"),
        pytest.param({"last_stable": 5}, {}, "0.10.2", (0, 30, ""), id="before transactions"),
        pytest.param({"cleaned_to": 20}, {"min_cleanable_dirty_ratio": 0.3}, "4.3", (20, 30, ""), id="the ratio"),
        pytest.param({"cleaned_to": 20}, {"max_compaction_lag_ms": 800}, "4.3", (20, 30, ""), id="waited too long"),
        pytest.param({"cleaned_to": 20}, {"max_compaction_lag_ms": 900}, "4.3", (20, 30, CLEAN_ENOUGH), id="not yet"),
        pytest.param({"cleaned_to": 20}, {"max_compaction_lag_ms": 800}, "2.2", (20, 30, CLEAN_ENOUGH), id="before 2.3"),
        pytest.param({}, {"min_compaction_lag_ms": 500}, "4.3", (0, 30, ""), id="old enough"),
        pytest.param({}, {"min_compaction_lag_ms": 501}, "4.3", (0, 0, NOTHING), id="too young"),
    ],
)  # fmt: skip
def test_section(
    ends: dict[str, Any], config: dict[str, Any], kafka: str, found: tuple[int, int, str]
) -> None:
    known = Ends(**({"log_start": 0, "log_end": 40, "last_stable": 40, "cleaned_to": None} | ends))
    rules = generation(kafka)
    assert section(LOG, known, topic(kafka, **config), rules.cleaning, now_ms=NOW) == found


def test_only_the_first_young_segment_counts() -> None:
    log = [segment(0), segment(10, largest_ms=NOW), segment(20), segment(30)]
    rules = generation("4.3")
    young = topic(min_compaction_lag_ms=100)
    found = section(log, Ends(0, 40, 40, None), young, rules.cleaning, now_ms=NOW)
    assert found == (0, 10, "")


BIG = 2**31


@pytest.mark.parametrize(
    ("segments", "config", "end", "bases"),
    [
        pytest.param(LOG, {}, 30, [[0, 10, 20]], id="all fit into one"),
        pytest.param(LOG, {}, 15, [[0, 10]], id="up to the end of the map"),
        pytest.param(LOG, {"internal_segment_bytes": 200}, 30, [[0, 10], [20]], id="segment.bytes"),
        pytest.param(LOG, {"segment_index_bytes": 16}, 30, [[0], [10], [20]], id="the time index"),
        pytest.param(
            [segment(n * 10, offset_index_bytes=n * 8, time_index_bytes=0) for n in range(4)],
            {"segment_index_bytes": 12}, 30, [[0, 10], [20]], id="the offset index",
        ),
        pytest.param([segment(0), segment(10), segment(BIG), segment(BIG + 9)], {}, BIG + 9, [[0, 10], [BIG]], id="offsets that an index cannot hold"),
        pytest.param([segment(0), segment(BIG - 1), segment(BIG)], {}, BIG, [[0, BIG - 1]], id="the last offset that it holds"),
        pytest.param([segment(0), segment(BIG - 1), segment(BIG + 1)], {}, BIG + 1, [[0], [BIG - 1]], id="one more"),
        pytest.param([segment(0), segment(BIG, 0), segment(BIG + 9)], {}, BIG + 9, [[0, BIG]], id="an empty segment has none"),
    ],
)  # fmt: skip
def test_groups(
    segments: list[SegmentFacts], config: dict[str, int], end: int, bases: list[list[int]]
) -> None:
    found = groups(segments, end, segments[-1].base_offset, topic(**config))
    assert [[one.base_offset for one in group] for group in found] == bases
