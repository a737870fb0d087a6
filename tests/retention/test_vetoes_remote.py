"""A partition that shows remote storage keeps its segments until the policy says that it has none."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import yaml

from kafkats import paths
from kafkats.cli import main
from kafkats.logdir.checkpoints import encode_offsets
from kafkats.paths import PartitionName
from kafkats.plans.plan import read_plan
from tests.golden import Unpacked
from tests.recovery.crashed import CRASHED, some_of

TOPIC = "untouched"


@pytest.fixture
def root(golden: Unpacked, tmp_path: Path) -> Path:
    """The first segment is in remote storage alone: the log start offset lies below the first local one."""
    made = some_of(golden, CRASHED.name, (f"{TOPIC}-0",), tmp_path / "data")
    for file in (made / f"{TOPIC}-0").glob(f"{0:020d}.*"):
        file.unlink()
    (made / paths.REMOTE_INDEX_CACHE).mkdir()
    offsets = {PartitionName(TOPIC, 0, ""): 100}
    for name in (paths.RECOVERY_POINT, paths.HIGH_WATERMARK):
        (made / name).write_bytes(encode_offsets(offsets))
    (made / paths.LOG_START).write_bytes(encode_offsets(dict.fromkeys(offsets, 5)))
    (made / ".kafka_cleanshutdown").touch()
    return made


@pytest.mark.parametrize(("said", "deletes"), [(None, False), (False, True), (True, False)])
@pytest.mark.parametrize("inside", [False, True])
def test_what_is_deleted(
    root: Path, tmp_path: Path, said: bool | None, deletes: bool, inside: bool
) -> None:
    settings = {"cleanup.policy": "delete", "retention.ms": 60_000}
    settings |= {} if said is None else {"remote.storage.enable": said}
    policy = tmp_path / "policy.yaml"
    policy.write_text(yaml.safe_dump({"topics": {TOPIC: settings}}))
    words = ["plan", "retain", str(root), "--policy", str(policy), "-o", str(tmp_path / "plan")]
    with pytest.raises(SystemExit):
        main([*words, "--over-guard", *(["--inside-segments"] if inside else [])])
    totals = read_plan(tmp_path / "plan").header["totals"]
    assert bool(totals["segments"]) is deletes
    assert any("remote" in veto for veto in totals["vetoes"]) is not deletes
    shutil.rmtree(tmp_path / "plan")
