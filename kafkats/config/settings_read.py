"""The settings that each operation reads. A given setting that is not read leads to a remark."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

INDEXES: Final = frozenset({
    "index.interval.bytes",
    "segment.index.bytes",
    "cleanup.policy",
    "remote.storage.enable",
})
SEARCHES: Final = frozenset({"index.interval.bytes", "message.format.version"})
LAYOUTS: Final = frozenset({"index.interval.bytes"})
_ROLLS: Final = frozenset({
    "segment.ms", "segment.bytes", "segment.jitter.ms", "segment.index.bytes", "cleanup.policy",
    "max.compaction.lag.ms",
})  # fmt: skip
_RETAINS: Final = frozenset({
    "cleanup.policy", "retention.ms", "retention.bytes", "remote.storage.enable",
    "message.format.version", "kafkats.legal.hold", "kafkats.guard.max.share",
    "kafkats.guard.max.bytes", "kafkats.implausible.timestamps",
    "kafkats.keep.segments",
})  # fmt: skip
READS: Final[Mapping[str, frozenset[str]]] = {
    "verify": INDEXES,
    "rebuild": INDEXES,
    "migrate": INDEXES,
    "split": INDEXES,
    "lookup": SEARCHES,
    "export": SEARCHES,
    "layouts": LAYOUTS,
    "retain": _RETAINS,
    "retain inside segments": _RETAINS | INDEXES,
    "roll": _ROLLS,
    "simulate roll": _ROLLS | {"index.interval.bytes", "retention.ms", "retention.bytes"},
}
"""Keys by operation; `simulate retain` is `retain`."""


def retaining(*, inside_segments: bool) -> str:
    """Return the name in READS of a retention."""
    return "retain inside segments" if inside_segments else "retain"


NOWHERE: Final = frozenset({
    "message.timestamp.type", "message.timestamp.before.max.ms", "message.timestamp.after.max.ms",
    "message.timestamp.difference.max.ms", "file.delete.delay.ms", "delete.retention.ms",
    "compression.type",
})  # fmt: skip
"""Accepted because brokers' files have them, and read by no operation."""
INSTEAD: Final = {
    "compression.type": "; the option --compression-type of plan migrate is what counts"
}
