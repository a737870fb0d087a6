"""Topics whose timestamps are LogAppendTimes: a search by time finds when records arrived.

KIP-33's use case 2: after a bulk load all these times lie close together, so a search for an
earlier day finds the begin of the load.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Final

from kafkats import paths
from kafkats.errors import KafkatsError, storage
from kafkats.formats import v2
from kafkats.formats.framing import MAGIC_AT
from kafkats.logdir.partition import log_bases
from kafkats.search import PartitionUnit

_TYPE_BIT: Final = 8
_ATTRIBUTES_AT: Final = {1: 17, 2: 22}
"""By magic; of magic 2 the lower byte."""
_NAMED: Final = 5


def append_time_topics(units: Iterable[PartitionUnit]) -> list[str]:
    """Return the topics with LogAppendTimes, by name.

    Goes by the first batch of the last segment that has one, in any partition. Reads one header per
    partition. A partition that cannot be read does not count.
    """
    return sorted({
        paths.partition_name(unit.partition_dir).topic
        for unit in units
        if not unit.hidden and _is_stamped(unit.path)
    })


def append_time_sentences(topics: list[str]) -> list[str]:
    """Return the sentence for people about these topics."""
    if not topics:
        return []
    more = ", ..." if len(topics) > _NAMED else ""
    return [
        f"timestamps are LogAppendTimes in {', '.join(topics[:_NAMED])}{more}: the answer goes by"
        " arrival, and records of a bulk load all arrived at about the same time"
    ]


def _is_stamped(directory: Path) -> bool:
    try:
        with storage(directory, "looking"):
            for base in reversed(log_bases(directory)):
                head = _head(directory / paths.segment_file(base))
                if head:
                    at = _ATTRIBUTES_AT.get(head[MAGIC_AT], -1)
                    return at >= 0 and bool(head[at] & _TYPE_BIT)
    except KafkatsError:
        pass
    return False


def _head(log: Path) -> bytes:
    """Return the first header of the log, b"" for none."""
    with storage(log, "reading"), log.open("rb") as file:
        head = file.read(v2.HEADER_BYTES)
    return head if len(head) > max(_ATTRIBUTES_AT.values()) else b""
