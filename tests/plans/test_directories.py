"""Groups of partition directories: together they list what `list_units` lists, and nothing twice."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from kafkats.errors import Refused
from kafkats.plans.directories import divide
from kafkats.plans.listed import check_listed
from kafkats.plans.units import list_units, segments_in
from tests.golden import case


@pytest.mark.parametrize(
    ("name", "state", "roots"),
    [
        ("root-4.3.1", "data", ["disk-a", "disk-b"]),
        ("crash-4.3.1", "before", ["."]),
        ("crash-0.10.2.2", "before", ["."]),
    ],
)
def test_groups_list_what_one_listing_does(
    name: str, state: str, roots: list[str], tmp_path: Path
) -> None:
    case(name).unpack(state, tmp_path)
    given = [tmp_path / root for root in roots]
    whole = list(list_units(given))
    for most in (1, 3, 1000):
        groups = divide(given, "*", most=most)
        assert [unit for group in groups for unit in group.units()] == whole
        assert [group.number for group in groups] == list(range(len(groups)))
        assert all(group.segments <= most or len(group.names) == 1 for group in groups)
        assert sum(group.segments for group in groups) == segments_in(whole)
        check_listed(sample for group in groups for sample in group.samples)


def test_topics_choose_and_paths_in_a_root_are_not_divided(tmp_path: Path) -> None:
    root = case("crash-4.3.1").unpack("before", tmp_path)
    topic = next(unit.partition_dir for unit in list_units([root]) if unit.partition_dir)
    wanted = topic.rpartition("-")[0]
    groups = divide([root], wanted, most=1)
    assert [unit for group in groups for unit in group.units()] == list(
        list_units([root], topics=wanted)
    )
    assert divide([root / topic], "*", most=1) == []
    assert divide([root, root], "*", most=1) == divide([root], "*", most=1)


def test_a_sample_of_another_time_is_another_volume(tmp_path: Path) -> None:
    root = case("crash-4.3.1").unpack("before", tmp_path)
    groups = [group for group in divide([root], "*", most=1) if group.samples]
    for group in groups:
        for sample in group.samples:
            os.utime(sample.log, ns=(1, 1))
        with pytest.raises(Refused, match="none of 1 listed logs is as listed"):
            check_listed(group.samples)
    assert groups
