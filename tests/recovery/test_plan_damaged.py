"""Partitions with one to three random damages: recovery like Kafka's ends as the predicted start, and cheaply.

The predictions are compared with real brokers on the same damages by `scripts/conformance preflight`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from conformance.damaged_partitions import Damaged, damaged
from conformance.preflight import names_after
from kafkats import paths
from kafkats.config.policy import Policy
from kafkats.evidence.claims import claims_of
from kafkats.execution.local import LocalExecutor
from kafkats.flow.looking import LogStages
from kafkats.logdir.checkpoints import encode_offsets
from kafkats.logdir.partition import log_bases
from kafkats.paths import PartitionName
from kafkats.plans.operation import Planned
from kafkats.plans.units import list_units
from kafkats.recovery.facts import PartitionStart
from kafkats.recovery.look import RecoverOptions
from kafkats.recovery.partition_start import predict
from kafkats.recovery.plan import look_and_plan
from kafkats.recovery.rules import start_rule
from tests.builders.directories import contents, scan_root
from tests.builders.operations import applied_rows, undone
from tests.golden import Unpacked

NAME: Final = PartitionName("p", 0, "")
COMPARED: Final = [
    *(("4.3.1", n) for n in (*range(1, 12), 97, 105, 118)),
    *(("2.8.2", n) for n in range(1, 12)),
]
"""97, 105 and 118: an index without its log begins where the log will end."""


def root_of(one: Damaged) -> Path:
    """The log directory of an unclean stop around a damaged partition."""
    root = one.directory.parent
    (root / paths.META_PROPERTIES).write_text("version=1\nnode.id=1\ncluster.id=x\n")
    (root / paths.RECOVERY_POINT).write_bytes(encode_offsets({NAME: one.recovery_point}))
    if one.log_start:
        (root / paths.LOG_START).write_bytes(encode_offsets({NAME: one.log_start}))
    return root


def started(root: Path, version: str, interval: int) -> PartitionStart:
    seen = scan_root(root)
    (partition,) = seen.partitions
    claims = claims_of(partition, seen, live=False, tiered=False)
    rule = start_rule(version)
    return predict(partition, claims, rule, log_dir=str(root), interval=interval)


def planned_of(root: Path, interval: int, *, accept: bool = True) -> Planned:
    policy = Policy.model_validate({"topics": {"p": {"index.interval.bytes": interval}}})
    options = RecoverOptions(like_kafka=True, accept_loss=("offsets",) if accept else ())
    return look_and_plan(LogStages(LocalExecutor(1)), list(list_units([root])), policy, options)


def logs_after(start: PartitionStart, sizes: dict[str, int]) -> dict[int, int]:
    """Bytes by base offset of the logs that are not empty after a predicted start."""
    cut = {one.base_offset: one.cut_to for one in start.recovered}
    from_swap = {name.removesuffix(".swap"): name for name in start.renamed}
    found = {}
    for name in names_after(set(sizes), start):
        parsed = paths.parse_segment_file(name)
        if parsed and parsed.kind == paths.LOG and not parsed.suffix:
            base = parsed.base_offset
            found[base] = cut.get(base, sizes.get(from_swap.get(name, name), 0))
    return {base: size for base, size in found.items() if size}


def logs_of(directory: Path) -> dict[int, int]:
    sizes = {
        b: (directory / paths.segment_file(b, paths.LOG)).stat().st_size
        for b in log_bases(directory)
    }
    return {base: size for base, size in sizes.items() if size}


@pytest.mark.examples(12)
@pytest.mark.parametrize(("version", "number"), COMPARED)
def test_recovery_ends_as_the_start_is_predicted(
    golden: Unpacked, tmp_path: Path, version: str, number: int
) -> None:
    (tmp_path / "data").mkdir()
    one = damaged(version, number, golden, tmp_path / "data" / "p-0")
    root = root_of(one)
    theirs = started(root, version, one.interval)
    sizes = {path.name: path.stat().st_size for path in one.directory.iterdir()}
    before = contents(root)
    planned = planned_of(root, one.interval)
    (row,) = planned.beside["recovery"].to_pylist()
    assert set(applied_rows(planned.plan)["outcome"].to_pylist()) <= {"done", "nothing"}
    if row["blocked"]:
        assert contents(root) == before
        return
    after = started(root, version, one.interval)
    assert (after.outcome, after.log_end_offset) == ("loads", row["log_end"])
    assert len(after.recovered) <= 1 or not row["segments"]
    assert not after.replay_bytes or not row["segments"]
    if theirs.outcome == "loads":
        assert (row["log_end"], logs_of(one.directory)) == (
            theirs.log_end_offset,
            logs_after(theirs, sizes),
        )
    assert not planned_of(root, one.interval).plan.items.num_rows
    assert all(not row["error"] for row in undone(planned.plan))
    assert contents(root) == before


@pytest.mark.parametrize(
    ("number", "reason"),
    [
        (96, "log-start-offset-checkpoint says 8, and the log ends at 6"),
        (36, "xx.log.cleaned"),
        (66, "records are missing: offsets 0 to 999999"),
    ],
)
def test_what_no_recovery_may_end(
    golden: Unpacked, tmp_path: Path, number: int, reason: str
) -> None:
    """A cut below the log start, a name that stops brokers, and a partition without any log."""
    (tmp_path / "data").mkdir()
    one = damaged("4.3.1", number, golden, tmp_path / "data" / "p-0")
    root = root_of(one)
    before = contents(root)
    planned = planned_of(root, one.interval, accept=number != 66)
    (item,) = planned.plan.items.to_pylist()
    assert item["action"] == "blocked" and reason in item["reason"]
    assert planned.plan.exit_code == 1
    applied_rows(planned.plan)
    assert contents(root) == before
