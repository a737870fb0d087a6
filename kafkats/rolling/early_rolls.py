"""Rolls by timestamps before segment.ms has passed, and the limits on timestamps that prevent them.

A message rolls its segment when its timestamp exceeds that of the segment's first message by more
than segment.ms. In a CreateTime topic that can be at any moment: KIP-33 asks to set the allowed
difference from the broker's clock together with segment.ms. Two messages that arrive together
differ by at most the limit before plus the limit after.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Final

from kafkats import paths
from kafkats.config.durations import setting_text
from kafkats.config.policy import Policy
from kafkats.config.settings import TopicSettings
from kafkats.counts import counted
from kafkats.rolling.replay import Rolled

_UNLIMITED: Final = 2**63 - 1


def count_early_rolls(segments: Sequence[Rolled], longest_ms: int) -> int:
    """Return how many segments were rolled by time within `longest_ms` of the broker's clock."""
    return sum(
        one.reason == "time" and after.created_ms - one.created_ms <= longest_ms - one.jitter_ms
        for one, after in pairwise(segments)
    )


def allowed_ms(settings: TopicSettings) -> int | None:
    """Return by how much timestamps of two messages that arrive together may differ.

    0 under LogAppendTime, None without a limit.
    """
    difference = _given(settings.message_timestamp_difference_max_ms, _UNLIMITED)
    before = _given(settings.message_timestamp_before_max_ms, difference)
    after = _given(settings.message_timestamp_after_max_ms, difference)
    if settings.message_timestamp_type == "LogAppendTime":
        return 0
    return None if _UNLIMITED in {before, after} else before + after


def _given(value: int | None, otherwise: int) -> int:
    return otherwise if value is None else value


def early_remarks(rows: Iterable[Mapping[str, object]], policy: Policy) -> list[str]:
    """Return a remark for each topic with early rolls that its limits do not prevent.

    `rows` are of simulate.SIMULATED_NOW.
    """
    early: dict[str, int] = {}
    longest: dict[str, int] = {}
    for row in rows:
        topic = paths.partition_name(str(row["partition_dir"])).topic
        early[topic] = early.get(topic, 0) + int(str(row["early_rolls"] or 0))
        longest[topic] = int(str(row["segment_ms"] or 0))
    found = []
    for topic, count in sorted(early.items()):
        allowed = allowed_ms(policy.settings(topic))
        if count and (allowed is None or allowed > longest[topic]):
            limit = "without limit" if allowed is None else f"by {setting_text(allowed)}"
            found.append(
                f"{topic}: timestamps roll {counted(count, 'segment')} before segment.ms,"
                f" {setting_text(longest[topic])}, has passed: they may differ {limit}. Set"
                " message.timestamp.before.max.ms and message.timestamp.after.max.ms (before 3.6"
                " message.timestamp.difference.max.ms) so that they add up to less"
            )
    return found
