"""A compaction that is killed at any point: the next start has the old segments or the cleaned one."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from kafkats import paths
from kafkats.formats import dispatch, v1, v2
from kafkats.formats.model import Record, TimestampType
from kafkats_model.broker import files
from kafkats_model.broker.generation import generation
from kafkats_model.broker.partition_log import PartitionLog, create
from kafkats_model.broker.settings import settings_from, topic_of
from kafkats_model.broker.starting import start
from kafkats_model.compaction.cleaner import compact

NOW = 1_700_000_000_000
KAFKAS = ("0.10.2", "2.8.2", "4.3")


class Killed(Exception):
    """The process ends here."""


def partition(folder: Path, kafka: str) -> PartitionLog:
    """Three segments of two records each, and an active one. Each key comes three times."""
    rules = generation(kafka)
    config = {
        "cleanup.policy": "compact",
        "min.cleanable.dirty.ratio": 0,
        "index.interval.bytes": 0,
    }
    log = create(folder / "t-0", topic_of(settings_from(config), rules), rules, NOW)
    encode = v1.encode_batch if kafka.startswith("0.") else v2.encode_batch
    for offset in range(6):
        record = Record(offset, NOW, TimestampType.CREATE_TIME, b"k%d" % (offset % 2), b"v")
        log.append_as_follower(encode([record]), now_ms=NOW)
        if offset % 2:
            log.roll(log.log_end_offset, NOW)
    log.high_watermark = log.log_end_offset
    return log


def offsets(directory: Path) -> list[int]:
    logs = [path.read_bytes() for path in sorted(directory.glob("*.log"))]
    return [
        r.offset for data in logs for b in dispatch.batches(data) for r in dispatch.records(data, b)
    ]


def killed_after(count: int, patched: pytest.MonkeyPatch) -> None:
    """Let `count` renames and deletions of files happen, and end the process at the next one."""
    effects = iter(range(count))

    def before(real):  # type: ignore[no-untyped-def]
        def effect(*arguments):  # type: ignore[no-untyped-def]
            if next(effects, None) is None:
                raise Killed
            return real(*arguments)

        return effect

    patched.setattr(files, "rename", before(files.rename))
    patched.setattr(files, "delete", before(files.delete))


@pytest.mark.parametrize("kafka", KAFKAS)
def test_no_key_is_lost(kafka: str, tmp_path: Path) -> None:
    for count in range(60):
        log = partition(tmp_path, kafka)
        with pytest.MonkeyPatch.context() as patched:
            killed_after(count, patched)
            try:
                compact(log, NOW)
                done = True
            except Killed:
                done = False
        again = start(log, log.topic, log.generation, NOW, clean=False)
        found = offsets(log.directory)
        assert found in ([0, 1, 2, 3, 4, 5], [4, 5]), (count, found)
        assert again.log_end_offset == 6
        left = [
            path.name for path in log.directory.iterdir() if path.suffix in (".cleaned", ".swap")
        ]
        if kafka != "4.3":  # before 3.0 an index that was not swapped in stays as it is
            left = [name for name in left if name.startswith(paths.segment_file(0, paths.LOG))]
        assert not left, (count, left)
        assert again.read(4, 6, 1 << 20)
        shutil.rmtree(log.directory)
        if done:
            break
    assert done and found == [4, 5]
    assert count > 10, "there are more effects than that"


def test_the_files_that_a_broker_leaves_in_the_middle(tmp_path: Path) -> None:
    log = partition(tmp_path, "4.3")
    before = {path.name: path.read_bytes() for path in log.directory.iterdir()}
    with pytest.MonkeyPatch.context() as patched:
        killed_after(4, patched)  # four deletions of an earlier attempt's files
        with pytest.raises(Killed):
            compact(log, NOW)
    names = {path.name for path in log.directory.iterdir()} - set(before)
    kinds = (paths.LOG, paths.OFFSET_INDEX, paths.TIME_INDEX)
    assert names == {paths.segment_file(0, kind) + ".cleaned" for kind in kinds}
    assert {name: (log.directory / name).read_bytes() for name in before} == before
