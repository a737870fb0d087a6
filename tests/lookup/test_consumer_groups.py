"""Committed offsets as Kafka's tools have printed them over the years."""

from __future__ import annotations

import pytest

from kafkats.errors import BadInput
from kafkats.lookup.consumer_groups import Committed, read_committed_offsets

NOW = """
Consumer group 'night shift' has no active members.

GROUP           TOPIC           PARTITION  CURRENT-OFFSET  LOG-END-OFFSET  LAG             CONSUMER-ID     HOST            CLIENT-ID
night shift     a-LAG           0          17              40              23              -               -               -
night shift     a-LAG           1          -               40              -               c-1-9f          /10.0.0.7       some client
night shift     -               -          -               -               -               c-2             /10.0.0.7       idle
"""
VERBOSE = """
GROUP  TOPIC  PARTITION  LEADER-EPOCH  CURRENT-OFFSET  LOG-END-OFFSET  LAG  CONSUMER-ID  HOST  CLIENT-ID
g      t      3          7             5               9               4    -            -     -
h      t      3          -             6               9               3    -            -     -
"""
OF_1_0 = """
Note: This will not show information about old Zookeeper-based consumers.

TOPIC                          PARTITION  CURRENT-OFFSET  LOG-END-OFFSET  LAG        CONSUMER-ID  HOST  CLIENT-ID
t                              0          5               9               4          -            -     -
"""
OF_0_9 = """GROUP, TOPIC, PARTITION, CURRENT OFFSET, LOG END OFFSET, LAG, OWNER
g, t, 0, 5, 9, 4, none
"""
OF_0_10 = """GROUP                          TOPIC                          PARTITION  CURRENT-OFFSET  LOG-END-OFFSET  LAG             OWNER
g                              t                              0          unknown         9               unknown         none
"""


@pytest.mark.parametrize(
    ("text", "group", "expected"),
    [
        (
            NOW,
            "",
            [
                Committed("night shift", "a-LAG", 0, 17, 40),
                Committed("night shift", "a-LAG", 1, -1, 40),
            ],
        ),
        (VERBOSE, "", [Committed("g", "t", 3, 5, 9), Committed("h", "t", 3, 6, 9)]),
        (OF_1_0, "given", [Committed("given", "t", 0, 5, 9)]),
        (OF_0_9, "", [Committed("g", "t", 0, 5, 9)]),
        (OF_0_10, "", [Committed("g", "t", 0, -1, 9)]),
        (
            "\nWarn: Partition 0 from topic t is empty.\nt,0,5\nt,1,6\n",
            "g",
            [Committed("g", "t", 0, 5), Committed("g", "t", 1, 6)],
        ),
        (
            '"g",t,0,5\r\n"h, too",t,0,6\r\n',
            "",
            [Committed("g", "t", 0, 5), Committed("h, too", "t", 0, 6)],
        ),
    ],
)
def test_forms(text: str, group: str, expected: list[Committed]) -> None:
    assert read_committed_offsets(text, group=group) == expected


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "no committed offset"),
        ("t,0\n", "line 1 is not"),
        ("t,0,5\nt,zero,5\n", "line 2 is not"),
        ("t,0,-2\n", "line 1 is not"),
        ("t,9999999999,5\n", "line 1 is not"),
        (NOW.replace("  17  ", f"  {10**18}  "), "line 5 is not"),
        ("t,0,5\nt,0,6\n", "t-0 twice"),
        (NOW + "Error: the coordinator is not there\n", "line 8 is not"),
        ("a b/c,0,5\n", "line 1 is not"),
        ("\x00\n", "line 1 is not"),
        ("t" * 200_000 + ",0,5\n", "line 1 is not"),
    ],
)
def test_what_is_neither(text: str, reason: str) -> None:
    with pytest.raises(BadInput, match=f"offsets.txt: .*{reason}"):
        read_committed_offsets(text, path="offsets.txt")
