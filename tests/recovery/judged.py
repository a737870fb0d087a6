"""The judgements of verify, preflight and plan recover about one damaged partition, before and after apply."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any, Final, NamedTuple

from conformance.damaged_partitions import Damaged, damaged
from kafkats import paths
from kafkats.config.policy import Policy
from kafkats.execution.local import LocalExecutor
from kafkats.flow.looking import LogStages
from kafkats.logdir.checkpoints import encode_offsets
from kafkats.logdir.partition import log_bases
from kafkats.paths import PartitionName
from kafkats.plans.operation import Planned
from kafkats.plans.units import list_units
from kafkats.recovery.facts import BrokerStart, PartitionStart
from kafkats.recovery.look import RecoverOptions
from kafkats.recovery.plan import look_and_plan
from kafkats.recovery.start import predict_start
from tests.builders.operations import verified
from tests.golden import Unpacked

_P: Final = PartitionName("p", 0, "")
_VERSIONS: Final = ("2.8.2", "3.9.1", "4.1.0", "4.3.1")


class Scene(NamedTuple):
    """A log directory with one damaged partition, and the words for what was done to it."""

    root: Path
    policy: Policy
    interval: int
    clean: bool
    words: str

    @property
    def directory(self) -> Path:
        return self.root / "p-0"


class Judged(NamedTuple):
    """What the three commands say about a scene at one moment."""

    found: list[dict[str, Any]]
    """The findings of verify."""
    broker: BrokerStart
    planned: Planned

    @property
    def start(self) -> PartitionStart:
        [one] = self.broker.partitions
        return one

    @property
    def row(self) -> dict[str, Any]:
        """The plan's row of look.RECOVERY."""
        rows = self.planned.beside["recovery"].to_pylist()
        return rows[0] if rows else {}

    @property
    def blocked(self) -> bool:
        return self.planned.plan.blocked > 0


def scene(number: int, unpacked: Unpacked, root: Path) -> Scene:
    """Damage a partition in the new folder `root` as the number says: the same for the same number."""
    dice = random.Random(f"judged {number}")
    one: Damaged = damaged(dice.choice(_VERSIONS), number, unpacked, root / "p-0")
    end = (log_bases(one.directory) or [0])[-1] + 40
    high = dice.choice((-1, 0, dice.randrange(end), end, dice.randrange(end + 100), 1_000_000))
    clean = dice.random() < 0.2
    points = {
        paths.RECOVERY_POINT: max(one.recovery_point, 0),
        paths.LOG_START: one.log_start or -1,
        paths.HIGH_WATERMARK: high,
    }
    (root / paths.META_PROPERTIES).write_text("version=0\nbroker.id=1\n")
    for name, offset in points.items():
        (root / name).write_bytes(encode_offsets({_P: offset} if offset >= 0 else {}))
    if clean:
        (root / paths.CLEAN_SHUTDOWN).write_bytes(b"")
    policy = Policy.model_validate({"defaults": {"index.interval.bytes": one.interval}})
    words = f"{number}: {one}, high watermark {high}{', marked clean' if clean else ''}"
    return Scene(root, policy, one.interval, clean, words)


def judged(of: Scene) -> Judged:
    """Verify, predict the start of the newest release, and plan."""
    rows = verified(of.root, policy=of.policy).to_pylist()
    broker = predict_start(LocalExecutor(1), [of.root], "4.3", interval=of.interval)
    options = RecoverOptions()
    units = list(list_units([of.root]))
    planned = look_and_plan(LogStages(LocalExecutor(1)), units, of.policy, options)
    return Judged([f for row in rows for f in row["findings"]], broker, planned)
