"""The hosts that a stage's units are offered to, by the answers of their tasks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from kafkats.errors import OtherVolume
from pyspark_kafkats.placing import ANYWHERE, Offer, Place, Rounds, Seen, executor_hosts, placed

A: Place = ("/kafka/a",)
B: Place = ("/kafka/b",)
PLACES = (A, A, A, A, B, B)


def carried(
    known: Seen, places: Sequence[Place], seen: Mapping[str, set[Place]], first: str = ""
) -> list[list[Offer]]:
    """Carry out a stage on hosts that see these places; `first` is where tasks for any host run. Return the rounds."""
    rounds, left, made = Rounds(places, known), list(range(len(places))), []
    while left:
        offers = [
            Offer(units[n :: max(len(hosts), 1)], host)
            for units, hosts in rounds.groups(left)
            for n, host in enumerate(hosts or (ANYWHERE,))
        ]
        made.append(offers)
        for offer in offers:
            at = offer.host if offer.host in seen else first
            done = [unit for unit in offer.units if places[unit] in seen[at]]
            others = {places[unit] for unit in offer.units} - seen[at]
            rounds.done(offer, done)
            refused = {
                place: OtherVolume(f"other volume on {at}", path=place[0]) for place in others
            }
            rounds.refused(offer, refused)
            left = [unit for unit in left if unit not in done]
        if left:
            rounds.next(left, sorted(seen))
    return made


def test_units_are_done_where_their_volume_is_and_the_next_stage_begins_there() -> None:
    known: Seen = {}
    seen = {"one": {A}, "two": {B}}
    first = carried(known, PLACES, seen, "two")
    assert first == [
        [Offer([0, 1, 2, 3, 4, 5])],
        [Offer([0, 2], "one"), Offer([1, 3], "two")],
        [Offer([1, 3], "one")],
    ]
    second = carried(known, PLACES, seen, "two")
    assert second == [[Offer([0, 1, 2, 3], "one"), Offer([4, 5])]]


def test_a_volume_that_no_host_sees_ends_with_what_each_of_them_said() -> None:
    with pytest.raises(OtherVolume, match=r"^/kafka/b: other volume on one; other volume on two$"):
        carried({}, PLACES, {"one": {A}, "two": {A}}, "two")


def test_a_volume_that_has_moved_is_found_again() -> None:
    known: Seen = {}
    carried(known, PLACES, {"one": {A}, "two": {B}}, "two")
    moved = carried(known, PLACES, {"one": {B}, "two": {A}}, "one")
    assert moved[0] == [Offer([0, 1, 2, 3], "one"), Offer([4, 5])]
    assert moved[-1] == [Offer([0, 2], "two")]


def test_a_host_that_is_gone_is_no_reason_to_begin_again_and_again() -> None:
    known: Seen = {}
    carried(known, PLACES, {"one": {A}, "two": {B}}, "two")
    with pytest.raises(OtherVolume, match=r"^/kafka/a: other volume on two$"):
        carried(known, PLACES, {"two": {B}}, "two")


def test_a_host_that_lost_its_executor_is_asked_again() -> None:
    rounds = Rounds((A,), {})
    refusal = {A: OtherVolume("other volume on two", path=A[0])}
    rounds.refused(Offer([0]), refusal)
    rounds.next([0], ["one", "two"])
    for host in ("one", "two"):
        rounds.refused(Offer([0], host), refusal)  # two runs the task of one
    rounds.next([0], ["one", "two"])
    assert list(rounds.groups([0])) == [([0], ["one", "two"])]
    for host in ("one", "two"):
        rounds.refused(Offer([0], host), refusal)
    with pytest.raises(OtherVolume):
        rounds.next([0], ["one", "two"])


def test_on_a_local_master_no_other_host_is_asked() -> None:
    rounds = Rounds((A,), {})
    rounds.refused(Offer([0]), {A: OtherVolume("other volume on one", path=A[0])})
    with pytest.raises(OtherVolume, match=r"^/kafka/a: other volume on one$"):
        rounds.next([0], [])


def test_a_task_has_the_host_that_it_is_offered_to(spark: Any) -> None:
    sc = spark.sparkContext
    tasks = placed(sc, [(b"first", "one"), (b"second", ANYWHERE)])
    assert tasks.map(bytes).collect() == [b"first", b"second"]
    made = tasks._jrdd.rdd()
    places = [made.preferredLocations(part) for part in made.partitions()]
    assert [place.mkString(",") for place in places] == ["one", ""]
    assert executor_hosts(sc) == [], "a local master has the driver only"
