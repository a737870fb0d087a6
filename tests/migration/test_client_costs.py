"""The forecast of what clients cost: which bytes are converted, recompressed, lose zero-copy, and their CPU time."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from kafkats.errors import UsageError
from kafkats.migration import client_costs
from kafkats.migration.client_costs import (
    Key,
    Measured,
    check_clients,
    forecast_phases,
    measured,
)
from kafkats.migration.clients import Clients, TopicClients

GB = 1_000_000_000


def mix(produce: dict[int, float], fetch: dict[int, float], **more: object) -> TopicClients:
    return TopicClients.model_validate({"produce": produce, "fetch": fetch, **more})


def clients(one: TopicClients, **more: object) -> Clients:
    return Clients.model_validate({"topics": {"t*": one}, "brokers": 4, **more})


def costs() -> Mapping[Key, float]:
    """Seconds that tell client, disk and codec apart; in the format of the disk 1, compressed 2."""
    found: dict[Key, float] = {}
    for request in ("produce", "fetch"):
        for client in range(3):
            for disk in range(3):
                for codec, kept in (("none", 1.0), ("gzip", 2.0), ("lz4", 2.0)):
                    more = 10 * abs(client - disk) + (5 if request == "fetch" else 0)
                    old = request == "produce" and codec != "none" and client == disk == 0
                    same = client == disk and not old
                    found[request, client, disk, codec] = kept + (0 if same else more + kept)
    return found


@pytest.fixture(autouse=True)
def known(monkeypatch: pytest.MonkeyPatch) -> None:
    table = {v: Measured(v, "a machine", "2026-01-01", costs()) for v in ("0.10.2.2", "2.8.2")}
    monkeypatch.setattr(client_costs, "_table", lambda: table)


def test_the_phases_of_a_day() -> None:
    """Before: a quarter is converted up, none down. After: producers of 1 and consumers of 1."""
    one = mix({2: 0.75, 3: 0.25}, {2: 0.5, 4: 0.5}, **{"bytes.per.day": 8 * GB, "reads": 3})
    before, canary, after = forecast_phases(clients(one), {"t": 5, "other": 7}, 2)
    assert before[:6] == ("phase-1", "day", 8 * GB, 2 * GB, 0, 24 * GB)
    assert before.zero_copy_lost_bytes == 0
    assert before.cpu_seconds == pytest.approx(2 * (10 + 1))
    assert after[:7] == ("phase-2", "day", 8 * GB, 6 * GB, 0, 24 * GB, 12 * GB)
    assert after.cpu_seconds == pytest.approx(6 * 11 + 12 * 16)
    assert canary[:4] == ("canary", "day", 8 * GB, (3 * 2 + 6) / 4 * GB)
    assert canary.zero_copy_lost_bytes == 3 * GB
    assert canary.cpu_seconds == pytest.approx((3 * before.cpu_seconds + after.cpu_seconds) / 4)


def test_compressed_sets_are_compressed_again() -> None:
    """Of magic 0 always, because of their absolute offsets; of magic 1 and 2 where they are converted."""
    one = mix({0: 0.5, 2: 0.5}, {1: 1}, compression={"gzip": 0.5})
    before, _, after = forecast_phases(clients(one), {"t-a": 8 * GB}, 1)
    assert (before.basis, before.produced_bytes) == ("stored", 8 * GB)
    assert (before.converted_bytes, before.recompressed_bytes) == (4 * GB, 4 * GB)
    assert (after.converted_bytes, after.recompressed_bytes) == (4 * GB, 2 * GB)
    # before: 2 GB of magic 0 kept, 2 GB recompressed, 2 GB plain and 2 GB gzip converted
    assert before.cpu_seconds == pytest.approx(2 * 0 + 2 * 2 + 2 * 11 + 2 * 12)
    assert after.cpu_seconds == pytest.approx(2 * 11 + 2 * 12 + 4 * 16 + 4 * 17)


def test_snappy_is_estimated_as_lz4() -> None:
    snappy, lz4 = (
        forecast_phases(clients(mix({2: 1}, {2: 1}, compression={codec: 1})), {"t": GB}, 2)
        for codec in ("snappy", "lz4")
    )
    assert snappy == lz4 and snappy[2].cpu_seconds > 0


def test_days_and_stored_bytes_are_told_apart() -> None:
    day, stored = mix({3: 1}, {4: 1}, **{"bytes.per.day": GB}), mix({3: 1}, {4: 1})
    both = Clients.model_validate({"topics": {"t": day, "u": stored}})
    found = forecast_phases(both, {"t": 5, "u": 6, "v": 7}, 2)
    assert [(p.phase, p.basis) for p in found] == [
        (phase, basis) for basis in ("day", "stored") for phase in ("phase-1", "canary", "phase-2")
    ]
    assert [p.produced_bytes for p in found] == [GB] * 3 + [6] * 3
    assert found[2].cpu_seconds == found[2].converted_bytes == 0
    assert forecast_phases(both, {"v": 7}, 2) == []


@pytest.mark.parametrize(
    ("kafka", "to_magic", "says"),
    [("4.0.0", 2, "converts nothing"), ("2", 2, "no release"), ("0", 1, "no release")],
)
def test_brokers_that_cannot_be(kafka: str, to_magic: int, says: str) -> None:
    with pytest.raises(UsageError, match=says):
        check_clients(clients(mix({3: 1}, {4: 1}), kafka=kafka), to_magic)


def test_the_table_is_complete(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every cost that a forecast may ask for was measured."""
    monkeypatch.undo()
    for kafka, magics in (("0.10.1", (0, 1)), ("0.11.0", (0, 1, 2)), ("3.9.1", (0, 1, 2))):
        found = measured(kafka)
        assert found.machine and found.date
        for disk in magics:
            for client in magics:
                for codec in ("none", "gzip", "lz4"):
                    assert found.seconds["produce", client, disk, codec] > 0
                    assert found.produced(client, disk, codec) >= 0
                    assert found.read(client, disk, codec) >= 0
            assert found.read(2, disk, "none") == 0, "a newer consumer takes what is stored"
    with pytest.raises(UsageError, match="does not write magic 2"):
        check_clients(clients(mix({2: 1}, {2: 1}), kafka="0.10.2"), 2)
    conversions = measured("2.8.2")
    assert conversions.produced(1, 2, "gzip") > conversions.produced(1, 2, "none") > 0
    assert conversions.read(0, 2, "none") > 0 and conversions.produced(0, 0, "gzip") > 0


@pytest.mark.parametrize(
    ("kafka", "to_magic", "produce", "fetch", "reason"),
    [
        ("0.10.2", 1, 3, 2, "topics: a: produce: Kafka 0.10.2 does not answer version 3"),
        ("0.10.2", 1, 2, 4, "topics: a: fetch: Kafka 0.10.2 does not answer version 4"),
        ("0.9.0", 1, 1, 1, "kafka: 0.9.0 does not write magic 1"),
    ],
)
def test_requests_and_formats_that_the_brokers_do_not_know(
    kafka: str, to_magic: int, produce: int, fetch: int, reason: str
) -> None:
    topics = {"a": {"produce": {produce: 1.0}, "fetch": {fetch: 1.0}}}
    clients = Clients.model_validate({"kafka": kafka, "topics": topics})
    with pytest.raises(UsageError, match=reason):
        check_clients(clients, to_magic)
