"""What a migration may meet: broken logs, plans that were tampered with, directories that change, locks, full disks.

All through the command line. Each ends with an exit code of ours and one that fits, says what and where, changes
nothing it should not, and never shows a traceback.
"""

from __future__ import annotations

import gzip
import json
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pytest

from kafkats.cli import main
from kafkats.errors import KafkatsError
from kafkats.formats import dispatch, v2
from kafkats.formats.model import Record, TimestampType
from kafkats.migration.certificate import read_certificate
from kafkats.plans.plan import digest_of, make_plan, read_plan, write_plan
from tests.crash.migration import contents, good, log_dir, message, unsynced
from tests.formats.logs import nullable, raw_message
from tests.golden import Unpacked

LOG = "{:020d}.log"


class Said(NamedTuple):
    """What the command line printed and how it ended."""

    code: int
    rows: list[dict[str, Any]]
    summary: dict[str, Any]
    error: str

    def reasons(self, action: str) -> dict[str, str]:
        """partition/file -> reason, of items of that action."""
        return {
            f"{r['partition_dir']}/{r['file']}": r["reason"]
            for r in self.rows
            if r.get("action") == action
        }

    @property
    def told(self) -> str:
        """Every error, wherever it was printed."""
        return "\n".join([self.error, *(str(row.get("error", "")) for row in self.rows)])


@pytest.fixture
def kafkats(capsys: pytest.CaptureFixture[str]) -> Callable[..., Said]:
    """Runs a command in this process with --json; nothing but an exit of ours may come out."""

    def run(*words: object, code: int | tuple[int, ...] = (0, 1, 2, 3)) -> Said:
        capsys.readouterr()
        with pytest.raises(SystemExit) as end, unsynced():
            main([
                *map(str, words),
                *([] if words[0] == "ledger" and words[1] != "show" else ["--json"]),
            ])
        out, err = capsys.readouterr()
        assert "Traceback" not in err
        lines = [json.loads(line) for line in out.splitlines() if line.startswith("{")]
        summary = next((line["summary"] for line in lines if "summary" in line), {})
        assert end.value.code in ((code,) if isinstance(code, int) else code), (
            end.value.code,
            out[-2000:],
            err,
        )
        return Said(end.value.code, [line for line in lines if "summary" not in line], summary, err)

    return run


# A log dir of our own: each partition is a list of (base offset, bytes).


def wrapper(
    offset: int, inner: bytes, magic: int = 1, codec: int = 1, attributes: int = 0
) -> bytes:
    return raw_message(
        offset, magic, attributes=codec | attributes, value=nullable(gzip.compress(inner))
    )


def record(offset: int, timestamp: int = 1000) -> Record:
    return Record(offset, timestamp, TimestampType.CREATE_TIME, b"k", b"some value")


# Broken logs


def flipped(data: bytes) -> bytes:
    return data[:-3] + bytes([data[-3] ^ 1]) + data[-2:]


INNER = b"".join(message(n) for n in range(3))
BAD_LOGS: dict[str, tuple[bytes, str]] = {
    "a wrong checksum in the last message": (flipped(good(100)), "CRC"),
    "a wrong checksum in the first message": (flipped(good(100, count=1)) + good(101), "CRC"),
    "a wrapper without messages": (wrapper(104, b""), "without messages"),
    "a wrapper of only a torn message": (wrapper(104, INNER[:20]), "without messages"),
    "a wrapper without a value": (raw_message(104, 1, attributes=1), "without a value"),
    "a wrapper that is no gzip": (raw_message(104, 1, attributes=1, value=nullable(b"no gzip at all")), "gzip"),
    "a message of magic 2 in a wrapper": (
        wrapper(104, message(0)[:16] + b"\x02" + message(0)[17:]), "magic 2 of a message",
    ),
    "a compressed message in a wrapper": (wrapper(104, message(0, attributes=1)), "compressed message"),
    "offsets that fall": (wrapper(104, message(2) + message(1) + message(3)), "must increase"),
    "equal offsets": (wrapper(104, message(2) * 2), "must increase"),
    "no timestamp under LogAppendTime": (
        wrapper(101, message(0, 0) + message(1), attributes=8), "without a timestamp",
    ),
    "a wrapper of magic 0 at offset 0": (wrapper(0, message(0, 0) + message(1, 0), magic=0), "offset"),
    "a wrapper of magic 1 at offset 0": (wrapper(0, INNER), "offset"),
    "an offset beyond 2^31-1": (good(100) + message(100 + 2**31), "offset"),
    "an inner offset below the base": (wrapper(100, INNER), "offset 98 cannot be"),
    "an offset below the base": (message(50) + good(100), "offset"),
    "a negative offset": (message(-5), "offset"),
    "zstd in magic 1": (raw_message(104, 1, attributes=4, value=nullable(b"x")), "codec 4"),
    "a torn tail": (good(100) + message(105)[:20], "after the last whole batch"),
    "a tail of zeros": (good(100) + bytes(4096), "size field 0"),
    "text": (b"It was a dark and stormy night; the rain fell in torrents.\n" * 3, "after the last whole batch"),
    "a size of 2^31-1": (good(100) + bytes(8) + b"\x7f\xff\xff\xff" + bytes(60), "after the last whole batch"),
    "a negative size": (good(100) + bytes(8) + b"\xff\xff\xff\xff" + bytes(60), "size field -1"),
    "magic 3": (good(100) + message(105)[:16] + b"\x03" + message(105)[17:], "magic 3"),
}  # fmt: skip


@pytest.mark.examples(8)
@pytest.mark.parametrize("what", BAD_LOGS)
def test_a_bad_segment_is_left_and_named_and_the_rest_goes_on(
    kafkats: Any, tmp_path: Path, what: str
) -> None:
    data, reason = BAD_LOGS[what]
    root = log_dir(
        tmp_path / "data",
        {"t-0": [(0, good(0)), (100, data), (2**32, good(2**32))], "u-0": [(0, good(0))]},
    )
    before = contents(root)
    plan = kafkats("plan", "migrate", root, "--to-magic", 2, "-o", tmp_path / "plan", code=1)
    blocked = plan.reasons("blocked")
    assert list(blocked) == [f"t-0/{LOG.format(100)}"], plan
    assert reason in blocked[f"t-0/{LOG.format(100)}"], blocked
    assert plan.summary["blocked"] == 1 and plan.summary["segments"] == 3
    kafkats("apply", tmp_path / "plan", "--digest", "any", code=0)
    now = contents(root)
    assert now["t-0"][LOG.format(100)] == before["t-0"][LOG.format(100)]
    assert all(
        now[p][f] != before[p][f] for p, f in (("t-0", LOG.format(0)), ("u-0", LOG.format(0)))
    )
    refused = kafkats("certify", root, "--min-magic", 2, "-o", tmp_path / "certificate", code=1)
    assert {row["base_offset"] for row in refused.rows} == {100}
    kafkats("undo", tmp_path / "plan.run", code=0)
    assert contents(root) == before


CONVERTIBLE: dict[str, tuple[bytes, list[int]]] = {
    "a message of magic 0 in a wrapper of magic 1": (
        wrapper(101, message(0, 0) + message(1)),
        [100, 101],
    ),
    "a wrapper that ends in a torn message": (
        wrapper(102, INNER + message(3)[:20]),
        [100, 101, 102],
    ),
    "holes and a wrapper of old librdkafka": (wrapper(104, message(0) + message(4)), [100, 104]),
    "a message that ends early": (good(100, count=1), [100]),
    "nothing": (b"", []),
}


@pytest.mark.parametrize("what", CONVERTIBLE)
def test_odd_and_convertible(kafkats: Any, tmp_path: Path, what: str) -> None:
    data, offsets = CONVERTIBLE[what]
    root = log_dir(tmp_path / "data", {"t-0": [(0, good(0)), (100, data), (200, good(200))]})
    before = contents(root)
    kafkats("plan", "migrate", root, "--to-magic", 2, "-o", tmp_path / "plan", code=0)
    kafkats("apply", tmp_path / "plan", "--digest", "any", code=0)
    log = (root / "t-0" / LOG.format(100)).read_bytes()
    found = [r.offset for one in dispatch.batches(log) for r in dispatch.records(log, one)]
    assert found == offsets
    kafkats("certify", root, "--min-magic", 2, "-o", tmp_path / "certificate", code=0)
    assert kafkats("verify", "--deep", root).summary["severities"].get("damage", 0) == 0
    kafkats("undo", tmp_path / "plan.run", code=0)
    assert contents(root) == before


def test_more_than_a_segment_holds(
    kafkats: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kafkats.segment.convert.MAX_SEGMENT_BYTES", 2000)
    root = log_dir(
        tmp_path / "data", {"t-0": [(0, good(0)), (100, good(100, count=40)), (200, good(200))]}
    )
    plan = kafkats("plan", "migrate", root, "--to-magic", 2, "-o", tmp_path / "plan", code=1)
    assert "more than 2000 bytes" in plan.reasons("blocked")[f"t-0/{LOG.format(100)}"]
    kafkats("apply", tmp_path / "plan", "--digest", "any", code=0)


def test_an_index_that_is_too_small_for_the_larger_log(kafkats: Any, tmp_path: Path) -> None:
    """A refusal of that partition alone: nothing was proved wrong, and the others go on."""
    root = log_dir(tmp_path / "data", {"t-0": [(0, good(0, count=80))], "u-0": [(0, good(0))]})
    before = contents(root)
    # 40 entries for every other message of 45 bytes; 80 when each is a batch of its own.
    settings = ("--config", "index.interval.bytes=72", "--config", "segment.index.bytes=400")
    plan = kafkats(
        "plan", "migrate", root, "--to-magic", 2, *settings, "-o", tmp_path / "plan", code=0
    )
    assert not plan.reasons("blocked")
    said = kafkats("apply", tmp_path / "plan", "--digest", "any", code=3)
    assert {row["partition_dir"]: row["outcome"] for row in said.rows} == {
        "t-0": "refused",
        "u-0": "done",
    }
    assert "index" in said.told and str(root / "t-0") in said.told
    assert contents(root)["t-0"] == before["t-0"]


# What is lost on the way down, and what is hardly there


def batch(first: int, count: int = 2) -> bytes:
    return v2.encode_batch([record(first + n) for n in range(count)])


def test_segments_of_control_batches_only(kafkats: Any, golden: Unpacked, tmp_path: Path) -> None:
    """The active one keeps its last batch, or offsets would be given out twice; an older one may become empty."""
    source = max(
        golden("transactions-4.3.1", "data").glob("txn-0/*.log"), key=lambda p: p.stat().st_size
    )
    marker = next(b for b in controls(source.read_bytes()))

    def at(offset: int) -> bytes:
        return offset.to_bytes(8, "big") + marker[8:]

    root = log_dir(
        tmp_path / "data", {"t-0": [(0, at(0) + at(1)), (2, batch(2)), (4, at(4) + at(5))]}
    )
    before = contents(root)
    refused = kafkats("plan", "migrate", root, "--to-magic", 1, "-o", tmp_path / "plan", code=3)
    assert "control (" in refused.error
    loss = ("--accept-loss", "all")
    kafkats("plan", "migrate", root, "--to-magic", 1, *loss, "-o", tmp_path / "plan", code=0)
    kafkats("apply", tmp_path / "plan", "--digest", "any", code=0)
    now = contents(root)["t-0"]
    assert now[LOG.format(0)][0] == b"" and now[LOG.format(4)][0] == at(5)
    assert kafkats("verify", "--deep", root).summary["severities"].get("damage", 0) == 0
    kafkats("plan", "migrate", root, "--to-magic", 2, "-o", tmp_path / "up", code=0)
    kafkats("apply", tmp_path / "up", "--digest", "any", code=0)
    kafkats("undo", tmp_path / "plan.run", code=3)  # another run lies above it
    kafkats("undo", tmp_path / "up.run", code=0)
    kafkats("undo", tmp_path / "plan.run", code=0)
    assert contents(root) == before


def controls(log: bytes) -> Iterator[bytes]:
    for one in dispatch.batches(log):
        if one.control:
            yield log[one.position : one.end]


@pytest.mark.parametrize(
    ("case", "magic", "codec"), [("compaction-4.3.1", 0, "gzip"), ("compaction-2.8.2", 1, "none")]
)
def test_compacted_partitions(
    kafkats: Any, golden: Unpacked, tmp_path: Path, case: str, magic: int, codec: str
) -> None:
    """With empty segments, holes, tombstones, empty batches that only keep a producer."""
    source, root = golden(case, "after"), tmp_path / "data"
    shutil.copytree(source, root, ignore=lambda _, names: [n for n in names if n.startswith("__")])
    (root / ".lock").touch()
    before = contents(root)
    assert any(
        name.endswith(".log") and not data
        for files in before.values()
        for name, (data, _) in files.items()
    )
    words = ("--to-magic", magic, "--compression-type", codec, "--accept-loss", "all")
    kafkats("plan", "migrate", root, *words, "-o", tmp_path / "plan", code=0)
    kafkats("apply", tmp_path / "plan", "--digest", "any", code=0)
    assert kafkats("verify", "--deep", root).summary["severities"].get("damage", 0) == 0
    kafkats("undo", tmp_path / "plan.run", code=0)
    assert contents(root) == before


def test_empty_things(kafkats: Any, tmp_path: Path) -> None:
    """A partition without a segment, one whose only segment is empty, one whose active segment is."""
    root = log_dir(
        tmp_path / "data", {"a-0": [], "b-0": [(0, b"")], "c-0": [(0, good(0)), (5, b"")]}
    )
    plan = kafkats("plan", "migrate", root, "--to-magic", 2, "-o", tmp_path / "plan", code=0)
    assert {name.split("/")[0] for kind in ("add", "replace") for name in plan.reasons(kind)} == {
        "c-0"
    }
    kafkats("apply", tmp_path / "plan", "--digest", "any", code=0)
    kafkats("certify", root, "--min-magic", 2, "-o", tmp_path / "certificate", code=0)
    kafkats("certify", "--check", tmp_path / "certificate", code=0)


KAFKAS = ("a.b.c-0", "a_b-12", "..a-0", "x" * 249 + "-0")


@pytest.mark.parametrize(
    "name", [*KAFKAS, "-0", "a-x", "temps.d'été-0", "日誌-0", "a b-0", "a\nb-0"]
)
def test_names_of_partitions(kafkats: Any, tmp_path: Path, name: str) -> None:
    """Kafka's own names are migrated; others are no partitions, and left alone."""
    root = log_dir(tmp_path / "dáta dir", {"t-0": [(0, good(0))]})
    log_dir(root, {name: [(0, good(0))]})
    before = contents(root)
    plan = kafkats("plan", "migrate", root, "--to-magic", 2, "-o", tmp_path / "plan", code=0)
    done = kafkats("apply", tmp_path / "plan", "--digest", "any", code=0)
    touched = {row["partition_dir"] for row in done.rows}
    changed = {p for p, files in contents(root).items() if files != before[p]}
    assert touched == changed >= {"t-0"} and plan.summary["partitions"] == len(touched)
    assert (name in touched) == (name in KAFKAS)
    kafkats("undo", tmp_path / "plan.run", code=0)
    assert contents(root) == before


# Plans that were sealed again after somebody had been at them


def tampered(
    folder: Path, change: Callable[[dict[str, Any]], None], header: Callable[[dict[str, Any]], None]
) -> None:
    """Change every item, and the header, and give the plan a digest that holds."""
    plan = read_plan(folder)
    items = plan.items.to_pylist()
    for item in items:
        change(item)
    content = json.loads(json.dumps(dict(plan.header)))
    header(content)
    made = make_plan(
        content["operation"],
        content["options"],
        content["totals"],
        pa.Table.from_pylist(items, plan.items.schema),
    )
    write_plan(made, folder)


def to(**columns: Any) -> Callable[[dict[str, Any]], None]:
    return lambda item: item.update(columns)


def of(kind: str, **columns: Any) -> Callable[[dict[str, Any]], None]:
    return lambda item: item.update(columns) if item["file"].endswith(kind) else None


def options(**changed: Any) -> Callable[[dict[str, Any]], None]:
    def change(header: dict[str, Any]) -> None:
        header["options"] = {
            k: v for k, v in (header["options"] | changed).items() if v is not None
        }

    return change


def same(_: dict[str, Any]) -> None:
    pass


FILE = {"size": 1, "mtime_ns": 2, "ctime_ns": 3, "inode": 4}
NULLS = dict.fromkeys(FILE)
TAMPERED: dict[str, tuple[Callable[..., None], Callable[..., None], tuple[int, ...]]] = {
    "no magic": (same, options(to_magic=None), (2,)),
    "magic 7": (same, options(to_magic=7), (2,)),
    "magic in words": (same, options(to_magic="two"), (2,)),
    "a list of magics": (same, options(to_magic=[2]), (2,)),
    "another magic": (same, options(to_magic=0), (2, 3)),
    "no compression type": (same, options(compression_type=None), (2,)),
    "another compression type": (same, options(compression_type="gzip"), (3,)),
    "zstd below magic 2": (same, options(to_magic=1, compression_type="zstd"), (2,)),
    "no options": (same, lambda header: header.update(options={}), (2,)),
    "another operation": (same, lambda header: header.update(operation="rebuild"), (2,)),
    "an operation that is a module": (same, lambda header: header.update(operation="apply"), (2,)),
    "a path for an operation": (same, lambda header: header.update(operation="../x"), (2,)),
    "an unknown rule": (to(rule="mine"), same, (2,)),
    "a rule for no broker": (to(rule="kip33"), same, (2,)),
    "other bytes": (of(".log", after_sha256="0" * 64), same, (3,)),
    "other bytes by blake3": (of(".log", after_sha256="blake3:" + "0" * 64), same, (3,)),
    "an unknown hash": (of(".log", after_sha256="md5:" + "0" * 32), same, (2,)),
    "fewer bytes": (of(".log", after_bytes=-(2**62)), same, (0, 3)),
    "bytes that no disk holds": (of(".log", after_bytes=2**62), same, (2,)),
    "the index alone": (of(".log", action="blocked"), same, (2,)),
    "the log alone": (of("index", action="blocked"), same, (2,)),
    "a log that is removed": (of(".log", action="remove"), same, (2,)),
    "a log that is added": (of(".log", action="add", before=None), same, (2,)),
    "an index that is added": (of(".index", action="add", before=None), same, (3,)),
    "an unknown action": (to(action="shred"), same, (2,)),
    "another file": (of(".log", file="00000000000000000022.log"), same, (2,)),
    "a file elsewhere": (of(".log", file="../../x.log"), same, (2,)),
    "a file of zeros": (of(".log", file="\0" * 20 + ".log"), same, (2,)),
    "a parent for a partition": (to(partition_dir=".."), same, (2,)),
    "the root for a partition": (to(partition_dir="."), same, (2,)),
    "no partition": (to(partition_dir=""), same, (2,)),
    "a partition that is none": (to(partition_dir="no partition"), same, (2,)),
    "a partition with a NUL": (to(partition_dir="t\0-0"), same, (2,)),
    "a log dir that is none": (to(log_dir="/nowhere/at/all"), same, (3,)),
    "a log dir with a NUL": (to(log_dir="/da\0ta"), same, (2,)),
    "no log dir": (to(log_dir=""), same, (2, 3)),
    "a device for a log dir": (to(log_dir="/dev/null"), same, (2, 3)),
    "a name that no file has": (of(".log", partition_dir="t" * 300 + "-0"), same, (2, 3)),
    "another file before": (of(".log", before=FILE), same, (3,)),
    "nulls before": (of(".log", before=NULLS), same, (2, 3)),
    "another log": (to(log=FILE), same, (0, 3)),
    "no log": (to(log=None), same, (2,)),
    "another segment behind": (to(next_base_offset=2**62), same, (3,)),
    "the active segment": (to(next_base_offset=-1), same, (3,)),
    "an offset below 0": (to(base_offset=-1), same, (2,)),
    "an index without room": (to(segment_index_bytes=1), same, (0, 3)),
    "an index of huge room": (to(segment_index_bytes=2**62), same, (0,)),
    "an interval below 0": (to(index_interval_bytes=-1), same, (2,)),
    "an interval of 2^62": (to(index_interval_bytes=2**62), same, (0, 3)),
    "a ledger with a NUL": (same, options(ledger="/led\0ger", phase="canary", broker="1"), (2,)),
    "a ledger that is a folder": (same, options(ledger="/", phase="canary", broker="1"), (2,)),
    "a ledger that is a number": (same, options(ledger=5, phase=6, broker=7), (2, 3)),
    "a ledger that is a list": (same, options(ledger=["/x"], phase={}, broker=True), (2, 3)),
}  # fmt: skip


@pytest.mark.slow(1)
@pytest.mark.examples(15)
@pytest.mark.parametrize("what", TAMPERED)
def test_a_plan_that_was_tampered_with(
    kafkats: Any, tmp_path: Path, what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    change, header, codes = TAMPERED[what]
    root = log_dir(tmp_path / "data", {"t-0": [(0, good(0)), (22, good(22)), (44, good(44))]})
    for base in (0, 22, 44):
        (root / "t-0" / f"{base:020d}.index").touch()
    before = contents(root)
    plan = tmp_path / "plan"
    kafkats("plan", "migrate", root, "--to-magic", 2, "-o", plan, code=0)
    tampered(plan, change, header)
    kafkats("show", plan, code=(0, 1, 2))
    said = kafkats("apply", plan, "--digest", "any", code=codes)
    if said.code:
        assert contents(root) == before
        assert said.told.strip(), "nothing was said"
        assert not list(tmp_path.glob(".kafkats/**/staging-*")), "and nothing lies about"
    if (tmp_path / "plan.run" / "run.json").exists():
        kafkats("undo", tmp_path / "plan.run", code=(0, 2, 3))
    assert contents(root) == before
    assert {path.name for path in tmp_path.iterdir()} <= {"data", "plan", "plan.run", ".kafkats"}


@pytest.mark.parametrize("name", ["plan.json", "items.parquet"])
@pytest.mark.parametrize("how", ["cut", "flipped", "gone", "empty", "a folder"])
def test_a_damaged_plan(kafkats: Any, tmp_path: Path, name: str, how: str) -> None:
    root = log_dir(tmp_path / "data", {"t-0": [(0, good(0))]})
    before = contents(root)
    kafkats("plan", "migrate", root, "--to-magic", 2, "-o", tmp_path / "plan", code=0)
    digest = read_plan(tmp_path / "plan").digest
    path = tmp_path / "plan" / name
    data = path.read_bytes()
    path.unlink()
    if how == "a folder":
        path.mkdir()
    elif how != "gone":
        middle = len(data) // 2
        path.write_bytes(
            {
                "cut": data[:middle],
                "flipped": data[:middle] + bytes([data[middle] ^ 1]) + data[middle + 1 :],
                "empty": b"",
            }[how]
        )
    try:
        assert read_plan(tmp_path / "plan").digest == digest, "what was approved"
        return  # the flip lies in what nobody reads
    except KafkatsError:
        pass
    said = kafkats("apply", tmp_path / "plan", "--digest", "any", code=2)
    assert str(tmp_path / "plan") in said.error
    assert contents(root) == before


# Directories that are not any more what the plan saw


def last_log(partition: Path) -> Path:
    return max(partition.glob("*.log"))


def first_log(partition: Path) -> Path:
    return min(partition.glob("*.log"))


def touch_again(path: Path) -> None:
    os.utime(path)


CHANGED: dict[str, Callable[[Path], object]] = {
    "a log has grown": lambda p: first_log(p).open("ab").write(b"x"),
    "a log was cut": lambda p: os.truncate(first_log(p), 50),
    "a log is empty": lambda p: os.truncate(first_log(p), 0),
    "a log was touched": lambda p: touch_again(first_log(p)),
    "a log is gone": lambda p: first_log(p).unlink(),
    "the last log is gone": lambda p: last_log(p).unlink(),
    "a log is a folder": lambda p: (first_log(p).unlink(), first_log_name(p).mkdir()),
    "a log is a pipe": lambda p: (first_log(p).unlink(), os.mkfifo(first_log_name(p))),
    "a log is a link": lambda p: (first_log(p).rename(p.parent / "x"), first_log_name(p).symlink_to(p.parent / "x")),
    "a log was written anew": lambda p: (shutil.copy(first_log(p), p.parent / "x"), (p.parent / "x").rename(first_log(p))),
    "the partition is gone": shutil.rmtree,
    "the partition is a file": lambda p: (shutil.rmtree(p), p.write_bytes(b"")),
    "the partition is a link": lambda p: (p.rename(p.parent.parent / "elsewhere"), p.symlink_to(p.parent.parent / "elsewhere")),
    "a later segment came": lambda p: (p / LOG.format(10**9)).write_bytes(b""),
    "a segment came in between": lambda p: (p / LOG.format(1)).write_bytes(b""),
    "an index went": lambda p: first_log(p).with_suffix(".index").unlink(),
    "an index is a folder": lambda p: (first_log(p).with_suffix(".index").unlink(), first_log(p).with_suffix(".index").mkdir()),
    "a transaction index came": lambda p: first_log(p).with_suffix(".txnindex").write_bytes(b""),
    "a cleaner was at work": lambda p: (p / f"{LOG.format(0)}.cleaned").write_bytes(b""),
    "a swap was begun": lambda p: (p / f"{LOG.format(0)}.swap").write_bytes(b""),
    "a broker ran": lambda p: (p.parent / ".kafka_cleanshutdown").unlink(),
}  # fmt: skip


def first_log_name(partition: Path) -> Path:
    return partition / LOG.format(0)


@pytest.mark.examples(8)
@pytest.mark.parametrize("what", CHANGED)
def test_what_changed_between_plan_and_apply(kafkats: Any, tmp_path: Path, what: str) -> None:
    """The partition is left as it is, the other one goes on."""
    segments = [(base, good(base)) for base in (0, 22, 44)]
    root = log_dir(tmp_path / "data", {"t-0": segments, "u-0": segments})
    for path in [*root.glob("*/*.log")]:
        path.with_suffix(".index").touch()
    plan, run, partition = tmp_path / "plan", tmp_path / "plan.run", root / "t-0"
    kafkats("plan", "migrate", root, "--to-magic", 2, "-o", plan, code=0)
    CHANGED[what](partition)
    before = shape(partition)
    said = kafkats("apply", plan, "--digest", "any", code=0 if "transaction" in what else (2, 3))
    outcomes = {row["partition_dir"]: row["outcome"] for row in said.rows}
    if said.code:
        assert outcomes["t-0"] in ("refused", "failed")
        assert str(partition) in said.told
        assert shape(partition) == before
    assert outcomes["u-0"] == ("refused" if what == "a broker ran" else "done")
    assert not list((tmp_path / ".kafkats").rglob("staging-*"))
    kafkats("apply", plan, "--digest", "any", code=said.code)
    kafkats("undo", run, code=(0, 2, 3))
    assert shape(partition) == before


def shape(path: Path) -> object:
    """Everything at `path`, whatever it is."""
    if path.is_symlink():
        return os.readlink(path), shape(path.resolve())
    if path.is_dir():
        return {p.name: shape(p) for p in path.iterdir()}
    return path.read_bytes() if path.is_file() else path.exists()


# Runs and certificates that were edited


RUNS: dict[str, dict[str, Any]] = {
    "no directories": {"directories": {}},
    "another partition": {"directories": {"DATA": ["t-1"]}},
    "a parent": {"directories": {"DATA": ["../t-0"]}},
    "a directory with a NUL": {"directories": {"/x\0": ["t-0"]}},
    "directories in a list": {"directories": []},
    "a run id that leads away": {"run_id": "../.."},
    "a run id with a NUL": {"run_id": "x\0"},
    "a work area elsewhere": {"place": "/nowhere"},
    "a work area with a NUL": {"place": "\0"},
    "a number for a ledger": {"ledger": 5},
    "another format": {"format": 2},
}


@pytest.mark.parametrize("what", RUNS)
def test_a_run_that_was_edited(kafkats: Any, tmp_path: Path, what: str) -> None:
    """Undo never says that it was done when it was not."""
    root = log_dir(tmp_path / "data", {"t-0": [(0, good(0))], "t-1": []})
    before, run = contents(root), tmp_path / "plan.run"
    kafkats("plan", "migrate", root, "--to-magic", 2, "-o", tmp_path / "plan", code=0)
    kafkats("apply", tmp_path / "plan", "--digest", "any", code=0)
    after, good_run = contents(root), (run / "run.json").read_text()
    edited = json.dumps(json.loads(good_run) | RUNS[what]).replace("DATA", str(root))
    for verb in ("undo", "purge"):
        (run / "run.json").write_text(edited)
        said = kafkats(verb, run, code=(2, 3))
        assert said.told.strip() and contents(root) == after
    (run / "run.json").write_text(good_run)
    kafkats("undo", run, code=0)
    assert contents(root) == before


CERTIFICATES: dict[str, dict[str, Any]] = {
    "no options": {"options": {}},
    "a NUL": {"options": {"log_dirs": ["/x\0"], "min_magic": 1}},
    "numbers for directories": {"options": {"log_dirs": [5], "min_magic": 1}},
    "a text for directories": {"options": {"log_dirs": "/x", "min_magic": 1}},
    "a number for topics": {"options": {"log_dirs": ["/x"], "topics": 5, "min_magic": 1}},
    "no bound": {"options": {"log_dirs": ["/x"]}},
    "a bound in words": {"options": {"log_dirs": ["/x"], "min_magic": "one"}},
    "no statement": {"statement": None},
}


@pytest.mark.parametrize("what", CERTIFICATES)
def test_a_certificate_that_was_sealed_again(kafkats: Any, tmp_path: Path, what: str) -> None:
    root, folder = log_dir(tmp_path / "data", {"t-0": [(0, good(0))]}), tmp_path / "certificate"
    kafkats("certify", root, "--min-magic", 1, "-o", folder, code=0)
    header = json.loads((folder / "certificate.json").read_text()) | CERTIFICATES[what]
    sealed = {key: value for key, value in header.items() if key not in ("digest", "at")}
    header["digest"] = digest_of(sealed, read_certificate(folder).segments)
    (folder / "certificate.json").write_text(json.dumps(header))
    assert kafkats("certify", "--check", folder, code=2).error.strip()
