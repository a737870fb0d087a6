"""Messages whose latency follows one of KIP-32's patterns."""

from __future__ import annotations

from typing import Final, NamedTuple

from kafkats_model.broker.replay import BEGIN_MS

SECOND: Final = 1000
MINUTE: Final = 60 * SECOND
HOUR: Final = 60 * MINUTE
DAY: Final = 24 * HOUR
BEGIN: Final = BEGIN_MS + 365 * DAY
"""When the first message is created."""
EVERY: Final = 20 * MINUTE
COUNT: Final = 72
"""A message is created every 20 minutes for a day."""


class Message(NamedTuple):
    """A message of a producer. Times are in epoch ms."""

    number: int
    created: int
    """The CreateTime that the producer gives."""
    arrives: int
    """When it reaches the broker."""


class Pattern(NamedTuple):
    """Messages in the order of their arrival, and the times that the document prefers."""

    name: str
    latency: str
    retention: str
    rolling: str
    messages: tuple[Message, ...]

    @property
    def most_latency(self) -> int:
        """The largest latency, in ms."""
        return max(m.arrives - m.created for m in self.messages)


def _messages(latencies: list[int]) -> tuple[Message, ...]:
    sent = [
        Message(n, BEGIN + n * EVERY, BEGIN + n * EVERY + latencies[n % len(latencies)])
        for n in range(COUNT)
    ]
    return (*sorted(sent, key=lambda m: (m.arrives, m.number)),)


def _with_wrong_times(messages: tuple[Message, ...]) -> tuple[Message, ...]:
    """Return the messages, one stamped ten years ahead and one a year back."""
    wrong = {COUNT // 3: 3650 * DAY, 2 * COUNT // 3: -365 * DAY}
    return (*(m._replace(created=m.created + wrong.get(m.number, 0)) for m in messages),)


SMALL: Final = _messages([200])
PATTERNS: Final = (
    Pattern("1", "small: 0.2 s", "CT or LAT", "CT or LAT", SMALL),
    Pattern("2", "similar and large: 6 h", "CT", "LAT", _messages([6 * HOUR])),
    Pattern(
        "3",
        "very different: 0.2 s to 8 h",
        "LAT",
        "LAT",
        _messages([200, 8 * HOUR, 200, 20 * MINUTE]),
    ),
    Pattern("wrong", "small, two wrong times", "LAT", "LAT", _with_wrong_times(SMALL)),
)
"""KIP-32's three patterns and its question of robustness, with the preferences of its tables."""
