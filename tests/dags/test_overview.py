"""The figures per log directory, from the tables of a report."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from click.testing import CliRunner
from kafkats_airflow.reports import overview
from kafkats_airflow.reports.common import PARTITION, SEGMENT, segments_of

from kafkats.cli import cli
from kafkats.migration.census import CENSUS
from kafkats.plans.facts import SEGMENTS, read_table, summary, write_table
from tests.builders.directories import another_volume
from tests.golden import case


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> pa.Table:
    """Two log directories, one of them damaged, as `verify` sees them."""
    place = tmp_path_factory.mktemp("overview")
    roots = [place / "one", place / "two"]
    for number, root in enumerate(roots):
        root.mkdir()
        case("matrix-4.3.1-v2").unpack("data", root)
        another_volume(root, number)
    for path in sorted(roots[1].glob("*/*.timeindex"))[:3]:
        path.write_bytes(b"12345")
    (roots[0] / "stray-file").write_text("")
    words = ["verify", *map(str, roots), "--report", str(place / "report"), "--depth", "full"]
    assert CliRunner().invoke(cli, words).exit_code == 0
    return read_table(place / "report" / "segments.parquet", SEGMENTS)


def test_the_figures_are_those_of_the_files(seen: pa.Table) -> None:
    volumes = overview.volumes_of([], [seen])
    for volume in volumes:
        files = {path: path.stat().st_size for path in Path(volume.log_dir).glob("*-ct-0/*")}
        files |= {path: path.stat().st_size for path in Path(volume.log_dir).glob("*-lat-0/*")}
        logs = {path: size for path, size in files.items() if path.suffix == ".log"}
        others = (".index", ".timeindex", ".txnindex", ".snapshot")
        indexes = sum(
            size
            for path, size in files.items()
            if path.suffix in others and path.with_suffix(".log").exists()
        )
        assert volume.log_bytes == sum(logs.values()) > 0
        assert volume.bytes == sum(logs.values()) + indexes
        assert (volume.segments, volume.partitions) == (
            len(logs),
            len({path.parent for path in logs}),
        )
        assert volume.magic_bytes == (0, 0, volume.log_bytes)
        assert volume.depth == "full"
    assert sum(volume.segments or 0 for volume in volumes) == summary(seen)["segments"]
    assert "damage" not in (volumes[0].kinds or {})
    damage = (volumes[1].kinds or {})["damage"]
    assert sum(damage.values()) == summary(seen)["severities"]["damage"] > 3
    kinds: dict[str, int] = {}
    for volume in volumes:
        for counts in (volume.kinds or {}).values():
            for kind, count in counts.items():
                kinds[kind] = kinds.get(kind, 0) + count
    assert kinds == summary(seen)["kinds"]


def test_a_log_directory_without_segments_has_figures_and_one_that_was_left_out_has_none() -> None:
    row = {"log_dir": "/empty", "partition_dir": "", "base_offset": -1, "worst": "", "findings": []}
    empty, out = overview.volumes_of(["/left out"], [pa.Table.from_pylist([row], schema=SEGMENTS)])
    assert (empty.log_dir, empty.bytes, empty.kinds, empty.magic_bytes) == ("/empty", 0, {}, None)
    assert (out.log_dir, out.bytes, out.kinds) == ("/left out", None, None)


def test_a_census_knows_the_formats_and_not_the_defects() -> None:
    where = {"log_dir": "/a", "partition_dir": "t-0"}
    rows = [
        where | {"magic": magic, "bytes": size}
        for magic, size in ((0, 5), (2, 70), (2, 1), (-1, 4))
    ]
    (volume,) = overview.volumes_of([], census=pa.Table.from_pylist(rows, schema=CENSUS))
    assert (volume.magic_bytes, volume.log_bytes, volume.kinds) == ((5, 0, 71), 80, None)


def overlaid(before: pa.Table, after: pa.Table, keys: Any) -> pa.Table:
    """`before` with the rows of `after` in place of those with the same keys, row by row."""
    changed = set(zip(*(after[key].to_pylist() for key in keys), strict=True))
    rows = zip(*(before[key].to_pylist() for key in keys), strict=True)
    kept = pa.array([row not in changed for row in rows], pa.bool_())
    return pa.concat_tables([before.filter(kept), after])


@pytest.mark.parametrize("keys", [SEGMENT, PARTITION])
@pytest.mark.parametrize("step", [1, 2, 7, 10_000])
def test_the_end_of_a_run_is_what_the_proof_saw(seen: pa.Table, keys: Any, step: int) -> None:
    after = seen.take(list(range(0, seen.num_rows, step))) if step < 10_000 else seen.slice(0, 0)
    found = overview.at_the_end(seen, after, keys)
    assert found.equals(overlaid(seen, after, keys))


def test_plans_and_censuses_say_how_full_the_disks_were(tmp_path: Path) -> None:
    for name, log_dir in (("seen", "/a"), ("census", "/b")):
        disks = {log_dir: {"bytes": 100, "free_bytes": 7}}
        (tmp_path / name).mkdir()
        (tmp_path / name / "disks.json").write_text(json.dumps(disks))
    looks: Any = [{one: {"report": str(tmp_path / one)}} for one in ("seen", "census")]
    found = overview.volumes_of(["/a", "/b", "/c"], looks=[*looks, {}])
    assert [one.disk_free_bytes for one in found] == [7, 7, None]


def test_a_log_directory_is_as_deep_as_the_segment_that_was_looked_at_least() -> None:
    def depth_of(*depths: str | None, worst: str = "") -> str | None:
        rows = [
            {"log_dir": "/a", "partition_dir": "t-0", "base_offset": n, "worst": "", "findings": []}
            | {"depth": depth}
            for n, depth in enumerate(depths)
        ]
        rows[0]["worst"] = worst
        (found,) = overview.volumes_of([], [pa.Table.from_pylist(rows, schema=SEGMENTS)])
        return found.depth

    assert depth_of("full", "deep") == "full"
    assert depth_of("full", "tail") == "tail"
    assert depth_of(None, "full") == "stat", "nobody looked at it"
    assert depth_of(None, "full", worst="damage") == "full", "it could not be read"


def test_two_brokers_with_one_path_are_two_volumes_in_a_report(tmp_path: Path) -> None:
    """Each application of a run sees its own disk at that path; identities are those it saw."""
    policy = tmp_path / "policy.yaml"
    lines = [f'- {{broker: "{n}", path: /data, connection: spark_{n}}}' for n in (1, 2)]
    policy.write_text("volumes:\n" + "\n".join(lines))
    context: Any = {"params": {"policy": str(policy), "volumes": []}}
    run, reports = tmp_path / "run", []
    for n in (1, 2):
        reports.append(report := run / f"spark_{n}" / "before")
        report.mkdir(parents=True)
        row = {"log_dir": "/data", "partition_dir": "t-0", "base_offset": 0, "worst": ""}
        table = pa.Table.from_pylist([row | {"depth": "full"}] * n, schema=SEGMENTS)
        write_table(report / "segments.parquet", table)
        identity = {"cluster_id": "c", "node_id": n, "directory_id": f"d{n}"}
        (report / "volumes.json").write_text(json.dumps({"/data": identity}))
    overview.labels_in(context, run)
    looks: Any = [{"seen": {"report": str(one)}, "log_dirs": ["/data"]} for one in reports]
    seen = [*segments_of(reports)]
    found = overview.volumes_of([], seen, looks=looks, params=context["params"])
    assert [(one.log_dir, one.broker, one.segments, one.identity) for one in found] == [
        ("/data (broker 1)", "1", 1, ("c", 1, "d1")),
        ("/data (broker 2)", "2", 2, ("c", 2, "d2")),
    ]
    assert {name for rows in seen for name in rows["log_dir"].to_pylist()} == {
        one.log_dir for one in found
    }
