"""The indexes of a plan's item, built again from its log."""

from __future__ import annotations

from pathlib import Path

from kafkats.errors import Changed
from kafkats.generations import RULES
from kafkats.hashes import SHA256, hash_bytes
from kafkats.index.build import Built, build_from
from kafkats.logdir.families import stage_bytes
from kafkats.logdir.identity import identity_of
from kafkats.logdir.lease import Lease
from kafkats.logdir.staging import Replace
from kafkats.plans.rows import Item
from kafkats.segment.reader import Source


def build_planned(log: Source, item: Item) -> Built:
    """Build both indexes by the rule and the settings of the item. Raises StorageFailed."""
    return build_from(
        log,
        item["base_offset"],
        RULES[item["rule"]],
        item["index_interval_bytes"],
        item["segment_index_bytes"],
        None if item["next_base_offset"] < 0 else item["next_base_offset"],
    )


def stage_checked(log: Path, item: Item, content: bytes, lease: Lease) -> Replace:
    """Stage the content of an item's file, which was made from `log`.

    Raises Changed if it is not what the plan says, StorageFailed.
    """
    if hash_bytes(content, SHA256) != item["after_sha256"]:
        raise Changed(
            "other bytes than planned are built: its log or a file beside it has changed since the"
            " plan; make a new one, and report this if it ends so, too",
            path=log,
        )
    return stage_bytes(item["file"], content, identity_of(item["before"]), lease)
