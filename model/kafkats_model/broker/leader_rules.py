"""The rules by which leaders of each Kafka generation judge and build a set before they append it.

Source: LogValidator (before 0.11 ByteBufferMessageSet), and the texts of KIP-31, KIP-32, KIP-228.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final, Literal

from kafkats.generations import KIP228


@dataclass(frozen=True)
class LeaderRule:
    """The rule by which the leaders of one generation judge a message set before they append it."""

    name: str
    kafka: str
    magics: tuple[int, ...]
    """The formats that a topic can have."""
    bounds: bool
    """Two limits, before.max.ms and after.max.ms; otherwise one difference for both sides."""
    after_max_ms: int
    """Default of message.timestamp.after.max.ms, or of the difference."""
    untimed: bool
    """A record without a timestamp is in range."""
    stamped: bool
    """A CreateTime topic takes batches that are marked LogAppendTime, if their times are in range.
    """
    holes: Literal["renumbered", "rejected", "unread"]
    """Offsets in a compressed set that are not 0, 1, 2 ... become so, or the set is rejected.

    `unread`: only a batch of magic 2 that stays as it is, since its values were not read. Checked
    by the sources, and on Log of 2.3.1, 2.4.1, 2.5.0, 2.5.1, 2.6.0, and LogValidator of 2.8, 4.3.
    """
    record_of_maximum: bool
    """In an uncompressed set the largest timestamp is that of a record, not of a batch."""
    delete_horizon: bool
    """Bit 6 of a batch's attributes stays where its header is written anew (KIP-534)."""
    stamp_inner: bool
    """A wrapper that is built anew has the broker's time in its messages, too (0.11)."""
    built_last: bool
    """The largest timestamp of a rebuilt set under LogAppendTime is its last message's (0.10.2)."""
    out_of_range: str
    """The error for a timestamp out of range."""
    invalid: str
    """The error for a record or a header that breaks a rule.

    Up to 2.3 the exception for it was one of a corrupt record.
    """
    one_kind: bool
    """All batches of a set have one magic, and a compressed set is one batch (2.4).

    Before, such a set is built anew as one; uncompressed batches of the topic's magic stay as they
    are. Checked, like `invalid`, on Log of 1.1.1, 2.3.1 and 2.4.1.
    """
    dialect: str | None = None
    """One of DIALECTS: the format in which it writes, if it never shipped."""


_FOREVER: Final = 2**63 - 1
_LEADER_4_0: Final = LeaderRule(
    "4.0",
    "4.0 and later",
    (2,),
    bounds=True,
    after_max_ms=3_600_000,
    untimed=True,
    stamped=True,
    holes="unread",
    record_of_maximum=False,
    delete_horizon=True,
    stamp_inner=True,
    built_last=False,
    out_of_range="INVALID_TIMESTAMP",
    invalid="INVALID_RECORD",
    one_kind=True,
)
_LEADER_3_7: Final = replace(
    _LEADER_4_0, name="3.7", kafka="3.7 to 3.9", magics=(0, 1, 2), after_max_ms=_FOREVER
)
_LEADER_3_6: Final = replace(_LEADER_3_7, name="3.6", kafka="3.6", record_of_maximum=True)
_LEADER_3_1: Final = replace(
    _LEADER_3_6, name="3.1", kafka="3.1 to 3.5", bounds=False, stamped=False
)
_LEADER_2_6: Final = replace(_LEADER_3_1, name="2.6", kafka="2.6 to 3.0", delete_horizon=False)
_LEADER_2_5_1: Final = replace(_LEADER_2_6, name="2.5.1", kafka="2.5.1", holes="renumbered")
_LEADER_2_4: Final = replace(_LEADER_2_5_1, name="2.4", kafka="2.4 and 2.5.0", holes="rejected")
_LEADER_0_11: Final = replace(
    _LEADER_2_4,
    name="0.11",
    kafka="0.11 to 2.3",
    holes="renumbered",
    invalid="CORRUPT_MESSAGE",
    one_kind=False,
)
_LEADER_0_10_2: Final = replace(
    _LEADER_0_11,
    name="0.10.2",
    kafka="0.10.2",
    magics=(0, 1),
    untimed=False,
    stamp_inner=False,
    built_last=True,
)
_LEADER_0_10: Final = replace(
    _LEADER_0_10_2, name="0.10", kafka="0.10.0 and 0.10.1", built_last=False
)
_LEADER_0_8: Final = replace(_LEADER_0_10, name="0.8", kafka="0.8 and 0.9", magics=(0,))
_LEADER_KIP32: Final = replace(
    _LEADER_0_10,
    name="kip32",
    kafka="the texts of KIP-31 and KIP-32",
    untimed=True,
    out_of_range="TimestampExceededThresholdException",
)
_LEADER_KIP228: Final = replace(
    _LEADER_0_11, name=KIP228, kafka="the text of KIP-228", magics=(2,), dialect=KIP228
)
LEADER_RULES: Final = {
    r.name: r
    for r in (
        *(_LEADER_4_0, _LEADER_3_7, _LEADER_3_6, _LEADER_3_1, _LEADER_2_6, _LEADER_2_5_1),
        *(_LEADER_2_4, _LEADER_0_11, _LEADER_0_10_2, _LEADER_0_10, _LEADER_0_8),
        *(_LEADER_KIP32, _LEADER_KIP228),
    )
}
"""By name, newest first. Each rule names only its differences from the next newer one."""
