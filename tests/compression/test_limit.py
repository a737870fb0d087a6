"""What a batch may decompress to: bombs of every codec end as findings and blocked rows, and take no more memory than allowed."""

from __future__ import annotations

import json
import subprocess
import sys
import zlib
from pathlib import Path

import pytest

from kafkats.cli import main
from kafkats.compression import Codec, compress, decompress, limit
from kafkats.compression.gzip import HEADER as GZIP
from kafkats.errors import OversizedBatch, UsageError
from kafkats.formats import v2
from kafkats.formats.model import Record, TimestampType
from tests.formats.logs import raw_batch

MIB = 1 << 20
CODECS = (Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD)


def record(offset: int, value: bytes = b"v") -> Record:
    return Record(offset, 5, TimestampType.CREATE_TIME, b"k", value)


def partition(root: Path, name: str, *batches: bytes) -> Path:
    path = root / name
    path.mkdir(parents=True)
    (path / f"{0:020d}.log").write_bytes(b"".join(batches))
    (root / "meta.properties").write_text("version=0\nbroker.id=1\n")
    (root / ".kafka_cleanshutdown").touch()
    main_code("plan", "rebuild", root, "-o", root.parent / f"built-{name}")
    main_code("apply", root.parent / f"built-{name}", "--digest", "any")
    return path


def main_code(*words: object) -> int:
    with pytest.raises(SystemExit) as end:
        main([str(word) for word in words])
    assert isinstance(end.value.code, int)
    return end.value.code


@pytest.mark.parametrize("codec", CODECS)
def test_a_bomb_is_a_finding_and_a_blocked_row(
    codec: Codec, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    root = tmp_path / "data"
    bomb = raw_batch(compress(codec, bytes(6 * MIB)), attributes=codec, base_offset=0)
    partition(root, "bomb-0", bomb, v2.encode_batch([record(1)]))
    partition(root, "good-0", v2.encode_batch([record(0)], codec=codec))
    capsys.readouterr()
    assert main_code("verify", "--deep", root, "--max-batch-bytes", "4MiB", "--json") == 1
    found = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [
        (row["partition_dir"], row["position"]) for row in found if row.get("kind") == "oversized"
    ] == [("bomb-0", 0)]
    target = "none" if codec == Codec.GZIP else "gzip"
    words = ("--to-magic", 2, "--compression-type", target, "--max-batch-bytes", "4MiB", "--json")
    main_code("plan", "migrate", root, "-o", tmp_path / "plan", *words)
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    actions = {row["partition_dir"]: row for row in rows if row.get("file", "").endswith(".log")}
    assert actions["bomb-0"]["action"] == "blocked"
    assert "--max-batch-bytes raises it" in actions["bomb-0"]["reason"]
    assert actions["good-0"]["action"] == "replace", "the others go on"


PEAK = """
def peak():
    # ru_maxrss would begin at what the process had that started this one.
    return next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmHWM"))
"""
"""The most memory that a process of its own has taken, in KiB."""
MEASURED = """
import sys
from kafkats.compression import limit
from kafkats.compression import decompress
from kafkats.errors import OversizedBatch
codec, data = int(sys.argv[1]), open(sys.argv[2], "rb").read()
limit.allow(int(sys.argv[3]))
before = peak()
try:
    decompress(codec, data)
except OversizedBatch:
    print(peak() - before)
"""
VERIFIES = """
import sys
from kafkats.cli import main
try:
    main(sys.argv[1:])
finally:
    print(peak(), file=sys.stderr)
"""


@pytest.mark.slow(1)
@pytest.mark.parametrize("codec", CODECS)
def test_a_bomb_takes_no_more_than_twice_the_limit(codec: Codec, tmp_path: Path) -> None:
    packed = tmp_path / "packed"
    packed.write_bytes(compress(codec, bytes(256 * MIB)))
    command = [sys.executable, "-c", PEAK + MEASURED, str(int(codec)), str(packed), str(32 * MIB)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    assert int(done.stdout) * 1024 <= 2 * 32 * MIB


def test_the_limit_is_a_number_that_memory_can_have() -> None:
    for wrong in (0, -1, 2**31):
        with pytest.raises(UsageError, match="between 1 and"):
            limit.allow(wrong)
    limit.allow(10)
    try:
        with pytest.raises(OversizedBatch, match="more than 10 bytes"):
            decompress(Codec.ZSTD, compress(Codec.ZSTD, bytes(11)))
        assert decompress(Codec.ZSTD, compress(Codec.ZSTD, bytes(10))) == bytes(10)
    finally:
        limit.allow(limit.MAX_OUTPUT_BYTES)


@pytest.mark.slow(4)
def test_a_legitimate_batch_of_300_mib(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    root = tmp_path / "data"
    value = zlib.compress(b"x") * (MIB // 9)
    data = v2.encode_batch([record(n, value) for n in range(305)], codec=Codec.GZIP)
    assert data[61 : 61 + 4] == GZIP[:4]
    partition(root, "large-0", data)
    del data
    capsys.readouterr()
    assert main_code("verify", "--deep", root, "--json") == 1
    assert '"oversized"' in capsys.readouterr().out
    words = [
        sys.executable,
        "-c",
        PEAK + VERIFIES,
        "verify",
        "--deep",
        str(root),
        "--max-batch-bytes",
        "310MiB",
    ]
    done = subprocess.run(words, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    peak = int(done.stderr.splitlines()[-1])
    assert peak >= 305 * 1024, "the batch was decompressed"
    assert peak * 1024 <= 2 * 310 * MIB + 400 * MIB, "twice the limit over an idle process"
