"""Torn tails beside a clean-shutdown marker: a loading broker takes them for the log's end."""

from __future__ import annotations

from typing import Final

from kafkats.findings import Finding
from kafkats.formats.framing import MIN_LEFT
from kafkats.plans.units import Unit
from kafkats.segment.facts import SegmentFacts

MARKED_CLEAN: Final = "torn-tail-marked-clean"


def is_marked_clean(unit: Unit, finding: Finding, facts: SegmentFacts) -> bool:
    """Return whether a loading broker does not notice this tail.

    The segment is the active one, its log directory has a clean-shutdown marker, and the tail is an
    unfinished batch, or has too few zeros for a batch header.
    """
    if not (unit.active and unit.clean):
        return False
    left = facts.log_bytes - facts.valid_bytes
    return finding.kind == "torn-tail" or (finding.kind == "zero-tail" and left < MIN_LEFT)
