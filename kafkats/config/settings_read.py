"""Topic settings that commands read. A given setting that is not read leads to a remark.

The operations that plan and write name theirs themselves (kafkats.plans.operation).
"""

from __future__ import annotations

from typing import Final

from kafkats.text import Flag, Text

INDEXES: Final = frozenset({
    "index.interval.bytes",
    "segment.index.bytes",
    "cleanup.policy",
    "remote.storage.enable",
})
SEARCHES: Final = frozenset({"index.interval.bytes", "message.format.version"})
NOWHERE: Final = frozenset({
    "file.delete.delay.ms", "delete.retention.ms", "compression.type",
})  # fmt: skip
"""Accepted because brokers' files have them, and read by no operation."""
INSTEAD: Final = {
    "compression.type": Text(
        "; the option ", Flag("--compression-type"), " of plan migrate is what counts"
    )
}
