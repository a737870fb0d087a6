"""A partition that real brokers wrote, to be migrated: what must hold wherever apply, undo or purge are killed.

SCENES name a case, one of its partitions, the wanted magic and codec; what the way there needs of the changeset:
up      three formats in six segments; logs and both indexes replaced
down    transactions: logs and indexes replaced, producer snapshots and transaction indexes removed
"""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple

import pyarrow as pa
import pytest

from kafkats import paths
from kafkats.flow.apply import apply_partition, partition_works
from kafkats.flow.ending import end_partition
from kafkats.inspect.verify import VerifyOptions, verify_unit
from kafkats.logdir.checkpoints import encode_offsets
from kafkats.logdir.disk import DISK
from kafkats.logdir.workarea import WorkArea, site, work_area
from kafkats.migration import stage
from kafkats.migration.forecast import FORECAST, forecast_unit, target_of
from kafkats.migration.plan import MigrateOptions, decide_migrate
from kafkats.plans.facts import SEGMENTS
from kafkats.plans.plan import Plan
from kafkats.plans.run import PartitionWork, Run, run_of
from kafkats.plans.units import list_units
from tests.crash.real import fork
from tests.crash.watched import WatchedDisk
from tests.formats.logs import nullable, raw_message
from tests.golden import Unpacked

SCENES: Final = {
    "up": ("upgrade-0.9-to-2.8", "data", "none-many-segments-0", 2, "producer"),
    "down": ("transactions-4.3.1", "data", "txn-0", 1, "lz4"),
}
INDEXES: Final = (paths.OFFSET_INDEX, paths.TIME_INDEX, paths.TXN_INDEX)


class Seen(NamedTuple):
    """All of a file that undo has to bring back."""

    data: bytes
    mtime_ns: int
    mode: int
    inode: int


Files = dict[str, Seen]


class Scene(NamedTuple):
    """A log dir with one partition in it, its plan, and how the partition looks before and after."""

    directory: Path
    plan: Plan
    before: Files
    after: dict[str, bytes]

    @property
    def run(self) -> Run:
        return run_of(self.plan)

    @property
    def work(self) -> PartitionWork:
        (work,) = partition_works(self.plan, self.run)
        return work

    @property
    def area(self) -> WorkArea:
        return work_area(self.directory.parent)

    @property
    def run_folder(self) -> Path:
        return site(self.area, self.directory.name, self.run.run_id).run


def make(golden: Unpacked, name: str, to: Path, after: dict[str, bytes] | None = None) -> Scene:
    """The scene in a log dir of its own under `to`; `after` is what an earlier apply of the same scene gave."""
    case, state, partition, magic, codec = SCENES[name]
    source = golden(case, state)
    root = to / "kafka-logs"
    shutil.copytree(source / partition, root / partition)
    (root / ".lock").touch()
    (root / paths.CLEAN_SHUTDOWN).touch()
    for number, path in enumerate(sorted((root / partition).iterdir())):
        path.chmod(0o640 if number % 2 else 0o604)
        os.utime(path, ns=(10**18, 1_234_567_890_123_456_789 + number))
    plan = planned(root, magic, codec)
    before = look(root / partition)
    return Scene(root / partition, plan, before, after or {})


def planned(root: Path, magic: int, codec: str) -> Plan:
    """Everything is accepted as lost."""
    units, target = list(list_units([root])), target_of(magic, codec)
    facts = pa.Table.from_batches([verify_unit(unit, VerifyOptions()) for unit in units], SEGMENTS)
    forecast = pa.Table.from_batches([forecast_unit(unit, target) for unit in units], FORECAST)
    return decide_migrate(facts, forecast, MigrateOptions(magic, codec, ("all",)))[0]


def look(directory: Path) -> Files:
    seen = {}
    for path in directory.iterdir():
        st = path.lstat()
        seen[path.name] = Seen(path.read_bytes(), st.st_mtime_ns, st.st_mode, st.st_ino)
    return seen


def bytes_of(files: Files) -> dict[str, bytes]:
    return {name: seen.data for name, seen in files.items()}


def apply(scene: Scene) -> set[str]:
    """What became of it: outcomes, or errors where there are any."""
    with unsynced():
        rows = apply_partition(scene.work).to_pylist()
    return {row["error"] or row["outcome"] for row in rows}


def end(scene: Scene, verb: str, **options: bool) -> dict[str, Any]:
    with unsynced():
        return end_partition(
            scene.run, verb, str(scene.directory.parent), scene.directory.name, **options
        )


def check_sound(scene: Scene) -> None:
    """At every moment: each file is the old or the new one, whole; none but an index is away; no index lies beside the
    other log than its own; and an old file that is not live is kept.
    """
    live = look(scene.directory)
    kept = scene.run_folder / "undo"
    assert live.keys() <= {*scene.before, *scene.after}, "foreign files"
    for name in {*scene.before, *scene.after}:
        old, new = scene.before.get(name), scene.after.get(name)
        now = live.get(name)
        if now is None:
            assert old is None or new is None or name.endswith(INDEXES), f"{name} is away"
        else:
            assert now == old or now.data == new, f"{name} is neither the old nor the new one"
        if old is not None and now != old:
            assert (kept / name).read_bytes() == old.data, f"the old {name} is lost"
    for name, now in live.items():
        if name.endswith(INDEXES) and scene.before[name].data != scene.after.get(name):
            log = f"{name.partition('.')[0]}{paths.LOG}"
            if scene.before[log].data != scene.after[log]:
                of_new_log = live[log].data == scene.after[log]
                assert (now.data == scene.after.get(name)) == of_new_log, f"{name} is stale"


def check_undone(scene: Scene) -> None:
    assert look(scene.directory) == scene.before, "undo brings back the very files"
    assert {path.name for path in scene.run_folder.rglob("*")} <= {
        "journal.undone",
        "journal.new",
    }, "undo leaves things behind"


@contextmanager
def unsynced() -> Generator[None]:
    """Inside, nothing is synced: kill -9 cannot tell, and it saves most of the time."""
    if isinstance(DISK, WatchedDisk):
        yield
        return
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(DISK, "before_effect", lambda *_: None, raising=False)
        patch.setattr(DISK, "__class__", WatchedDisk)
        yield


@contextmanager
def watched(before_effect: Callable[..., object]) -> Generator[None]:
    """Inside, `before_effect` is called before each effect of apply and undo: the changeset's, and those of staging."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(DISK, "before_effect", before_effect, raising=False)
        patch.setattr(DISK, "__class__", WatchedDisk)
        convert, write_bytes = stage.convert_source, Path.write_bytes

        def converted(source: Any, base: int, target: Any, write: Any, **options: Any) -> Any:
            if write is None:  # a forecast
                return convert(source, base, target, write, **options)
            before_effect("make", f"{base:020d}.log")
            return convert(source, base, target, lambda data: in_halves(write, data), **options)

        def in_halves(write: Any, data: memoryview) -> None:
            half = len(data) // 2
            write(data[:half])
            write.__self__.flush()
            before_effect("write the rest of", Path(write.__self__.name))
            write(data[half:])
            write.__self__.flush()
            before_effect("close", Path(write.__self__.name))

        def written(path: Path, data: bytes) -> int:
            before_effect("write", path)
            write_bytes(path, data[: len(data) // 2])
            before_effect("write the rest of", path)
            return write_bytes(path, data)

        patch.setattr(stage, "convert_source", converted)
        patch.setattr(Path, "write_bytes", written)
        yield


def killed_at(n: int, act: Callable[[], object]) -> bool:
    """Run `act` in a process that kills itself before its n-th effect; whether it came to that."""
    left = [n]

    def count_down(*_: object) -> None:
        left[0] -= 1
        if left[0] < 0:
            os.kill(os.getpid(), signal.SIGKILL)

    def run() -> None:
        with unsynced(), watched(count_down):
            act()

    _, status = os.waitpid(fork(run), 0)
    code = os.waitstatus_to_exitcode(status)
    assert code in {0, -signal.SIGKILL}
    return code != 0


# Small log dirs, each partition a list of (base offset, bytes)


def message(offset: int, magic: int = 1, **fields: Any) -> bytes:
    return raw_message(offset, magic, key=nullable(b"k"), value=nullable(b"some value"), **fields)


def good(base: int, magic: int = 1, count: int = 5) -> bytes:
    return b"".join(message(base + n, magic) for n in range(count))


def log_dir(root: Path, partitions: dict[str, list[tuple[int, bytes]]], clean: bool = True) -> Path:
    for name, segments in partitions.items():
        (root / name).mkdir(parents=True)
        for base, data in segments:
            (root / name / paths.segment_file(base, paths.LOG)).write_bytes(data)
    cleaned = {
        name: 0 for name in map(paths.parse_partition, partitions) if name
    }  # what lies between segments was compacted away
    (root / paths.CLEANER).write_bytes(encode_offsets(cleaned))
    (root / ".lock").touch()
    (root / "meta.properties").write_text("version=0\nbroker.id=1\n")
    if clean:
        (root / ".kafka_cleanshutdown").touch()
    return root


def everything(root: Path) -> dict[str, Files]:
    return {path.name: look(path) for path in root.iterdir() if path.is_dir()}


def contents(root: Path) -> dict[str, dict[str, tuple[bytes, int]]]:
    """Bytes and mtimes."""
    return {
        name: {f: (s.data, s.mtime_ns) for f, s in files.items()}
        for name, files in everything(root).items()
    }
