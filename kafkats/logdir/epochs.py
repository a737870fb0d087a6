"""Leader epochs as a broker assigns them when it reads batches (LeaderEpochFileCache.assign)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from kafkats.logdir.checkpoints import EpochStart
from kafkats.segment.headers import Rows


def epochs_begun(rows: Rows, latest: int) -> Iterator[EpochStart]:
    """Yield the epochs above `latest` that the batches begin, in order.

    Batches of older formats have the epoch -1 and begin none.
    """
    from kafkats.kernels import headers as k

    epochs = rows[:, k.LEADER_EPOCH]
    highest = np.maximum.accumulate(np.append(latest, epochs))
    for n in np.flatnonzero(highest[1:] > highest[:-1]).tolist():
        yield EpochStart(int(epochs[n]), int(rows[n, k.FIRST_OFFSET]))


def assigned(epochs: Sequence[EpochStart], begun: EpochStart) -> list[EpochStart]:
    """Return the epochs with one that begins above them; it replaces those from its offset on."""
    return [*(e for e in epochs if e.start_offset < begun.start_offset), begun]
