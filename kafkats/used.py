"""Which settings an operation goes by: one that is given and not read is said, not silently passed over."""

from __future__ import annotations

from typing import Final

INDEXES: Final = frozenset({"index.interval.bytes", "segment.index.bytes", "cleanup.policy", "remote.storage.enable"})
"""Read by what makes index files or holds a directory against what it should be: verify, rebuild, migrate, split."""
SEARCHES: Final = frozenset({"index.interval.bytes", "message.format.version"})
"""Read by lookups and exports."""
LAYOUTS: Final = frozenset({"index.interval.bytes"})
NOWHERE: Final = frozenset({
    "message.timestamp.type", "message.timestamp.before.max.ms", "message.timestamp.after.max.ms",
    "message.timestamp.difference.max.ms", "file.delete.delay.ms", "delete.retention.ms", "compression.type",
})  # fmt: skip
"""Accepted, since files of brokers have them, and read by no operation."""
INSTEAD: Final = {"compression.type": "; the option --compression-type of plan migrate is what counts"}
