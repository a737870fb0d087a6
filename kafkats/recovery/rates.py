"""The speed of a broker's recovery, as measured: it costs a time per byte and a time per batch.

Measured by `scripts/bench recovery` as the CPU time of the one thread that recovers a partition,
files in memory, on an AMD EPYC: 256 MiB of batches with one record of 100 B, and 1 GiB of batches
of 16 KiB. A disk that reads less per second than this, or a machine with other work, takes longer:
`--recovery-rate` gives a rate of one's own. Brokers before 2.8 are taken for one of 2.8.2.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from kafkats.recovery.facts import Recovered
from kafkats.recovery.rules import StartRule


class Rate(NamedTuple):
    """The time that one thread of a broker takes."""

    kafka: str
    """The release that was measured."""
    per_gigabyte: float
    """Seconds for 10^9 bytes, whatever the batches."""
    per_batch: float
    """Seconds for each batch of magic 2, besides its bytes."""
    per_message: float
    """Seconds for each message or wrapper of magic 0 or 1, besides its bytes."""

    def seconds(self, recovered: Iterable[Recovered]) -> float:
        """Return the time that one thread takes for these recoveries."""
        return sum(
            one.log_bytes / 1e9 * self.per_gigabyte
            + one.batches * self.per_batch
            + one.messages * self.per_message
            for one in recovered
        )


_RATES: Final = {
    "4.0": Rate("4.3.1", 0.38, 1.12e-6, 1.52e-6),
    "3.7": Rate("3.9.1", 0.48, 1.39e-6, 1.58e-6),
}
_OLDER: Final = Rate("2.8.2", 0.47, 1.36e-6, 1.77e-6)


def measured_rate(rule: StartRule) -> Rate:
    """Return the rate of the release nearest to those of `rule`."""
    return _RATES.get(rule.name, _OLDER)
