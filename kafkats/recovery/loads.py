"""Estimate what a broker's recovery reads: bytes from the names, batches from a few samples."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

from kafkats.errors import CorruptBatch
from kafkats.formats.framing import frames
from kafkats.plans.rows import PartitionKey
from kafkats.plans.units import Unit
from kafkats.recovery.outage import Load

_SAMPLES: Final = 64
"""Partitions whose first bytes are read; the others are taken for their average."""
_SAMPLED_BYTES: Final = 128 * 1024
_SECONDS: Final = 0.5
"""No further sample is read after that time: a disk that seeks takes long for each."""
_UNKNOWN: Final = 16 * 1024
"""Bytes of a batch where no sample was read: that of a producer with the defaults, when busy."""


class Sample(NamedTuple):
    """Bytes, batches of magic 2, and messages or wrappers of magic 0 and 1 at a log's beginning."""

    bytes: int = 0
    batches: int = 0
    messages: int = 0


def loads_of(units: Iterable[Unit]) -> list[Load]:
    """Return the partitions of which a broker recovers something, the largest first."""
    recovered: dict[PartitionKey, list[Unit]] = {}
    for unit in units:
        if unit.recovery and unit.base_offset >= 0:
            recovered.setdefault(unit.key.partition, []).append(unit)
    sizes = {where: sum(map(_bytes, own)) for where, own in recovered.items()}
    order = sorted(sizes, key=lambda where: (-sizes[where], where))
    samples: dict[PartitionKey, Sample] = {}
    until = time.monotonic() + _SECONDS
    for where in order[:_SAMPLES]:
        if sizes[where] and time.monotonic() < until:
            samples[where] = sampled(max(recovered[where], key=_bytes).log)
    mean = _mean(samples)
    return [
        _load(where, len(recovered[where]), sizes[where], samples.get(where, mean))
        for where in order
    ]


def _bytes(unit: Unit) -> int:
    log = unit.files[0]
    return 0 if log is None else log.size


def sampled(log: Path) -> Sample:
    """Return the batches at the beginning of a log; none for a file that cannot be read."""
    found = {True: 0, False: 0}
    size = 0
    with suppress(OSError, CorruptBatch), log.open("rb") as file:
        for frame in frames(file.read(_SAMPLED_BYTES)):
            found[frame.magic == 2] += 1
            size = frame.position + frame.size
    return Sample(size, found[True], found[False])


def _mean(samples: Mapping[PartitionKey, Sample]) -> Sample:
    sums = (sum(column) for column in zip(*samples.values(), strict=True))
    return Sample(*sums) if samples else Sample(_UNKNOWN, 1)


def _load(where: PartitionKey, segments: int, size: int, sample: Sample) -> Load:
    """Return a partition's load. A batch that is longer than a sample counts as one of its size."""
    known = sample if sample.bytes else Sample(_SAMPLED_BYTES, 1)
    times = size / known.bytes
    return Load(*where, segments, size, round(known.batches * times), round(known.messages * times))
