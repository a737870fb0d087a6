"""The versions of requests by release, as ApiKeys of each release's kafka-clients names them (0.10.0: Protocol)."""

from __future__ import annotations

import pytest

from kafkats_model.broker.generation import Versions, generation

KNOWN = {
    # release: produce, fetch and list offsets, each the lowest and the highest
    "0.10.0.1": ((0, 2), (0, 2), (0, 0)),
    "0.10.1.1": ((0, 2), (0, 3), (0, 1)),
    "0.11.0.3": ((0, 3), (0, 5), (0, 2)),
    "1.0.2": ((0, 5), (0, 6), (0, 2)),
    "1.1.1": ((0, 5), (0, 7), (0, 2)),
    "2.0.1": ((0, 6), (0, 8), (0, 3)),
    "2.1.1": ((0, 7), (0, 10), (0, 4)),
    "2.2.2": ((0, 7), (0, 10), (0, 5)),
    "2.3.1": ((0, 7), (0, 11), (0, 5)),
    "2.4.1": ((0, 8), (0, 11), (0, 5)),
    "2.5.1": ((0, 8), (0, 11), (0, 5)),
    "2.6.3": ((0, 8), (0, 11), (0, 5)),
    "2.7.2": ((0, 8), (0, 12), (0, 5)),
    "2.8.2": ((0, 9), (0, 12), (0, 6)),
    "3.0.2": ((0, 9), (0, 12), (0, 7)),
    "3.1.2": ((0, 9), (0, 13), (0, 7)),
    "3.4.1": ((0, 9), (0, 13), (0, 7)),
    "3.5.2": ((0, 9), (0, 15), (0, 8)),
    "3.6.2": ((0, 9), (0, 15), (0, 8)),
    "3.7.2": ((0, 10), (0, 16), (0, 8)),
    "3.8.1": ((0, 11), (0, 16), (0, 8)),
    "3.9.1": ((0, 11), (0, 17), (0, 9)),
    "4.0.0": ((3, 12), (4, 17), (1, 10)),
    "4.1.0": ((3, 13), (4, 18), (1, 10)),
    "4.2.0": ((3, 13), (4, 18), (1, 11)),
    "4.3.1": ((3, 13), (4, 18), (1, 11)),
}


@pytest.mark.parametrize("kafka", KNOWN)
def test_the_versions_of_requests(kafka: str) -> None:
    rules = generation(kafka)
    told = (rules.produce, rules.fetch, rules.list_offsets)
    assert told == tuple(Versions(*one) for one in KNOWN[kafka])
