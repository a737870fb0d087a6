"""Conversion of whole segments.

Input checksums are checked. One thread, page cache warm; CPU time of the thread for every
contestant.

memcpy + new file  copies the mapped segment in pieces of 1 MiB through one buffer into a new file.
                   kafkats converts a new mapping into a new file, without the hash of the
                   new bytes that a plan holds, and with it
memcpy             the same without a file; kafkats writes nothing either
aiokafka           its reader and its batch builders (Cython), 16 KiB of records per builder, in
                   memory
cleaner            Kafka's log cleaner (4.3.1), keeping every record, in memory: the same batches as
                   kafkats
leader             Kafka 2.8.2's LogValidator on message sets of 16 KiB, in memory: it merges each
                   set into one batch and assigns its own offsets
down-conversion    Kafka 2.8.2's AbstractRecords.downConvert on 1 MiB, in memory, checksums not
                   checked
codec alone        the libraries that kafkats calls: they decompress batch after batch and compress
                   the new batches' bytes, into reused buffers
memory             RssAnon added to a process that has imported everything and has converted a
                   segment of one batch
"""

from __future__ import annotations

import ctypes
import mmap
import subprocess
import sys
import zlib
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import cramjam
import numpy as np
import zstandard
from aiokafka.record.default_records import DefaultRecordBatchBuilder
from aiokafka.record.legacy_records import LegacyRecordBatchBuilder
from aiokafka.record.memory_records import MemoryRecords
from isal import isal_zlib
from numpy.typing import NDArray

from bench import segments
from bench.harness import (
    MB,
    MIB,
    ROOT,
    Figure,
    Figures,
    cpu_seconds,
    scratch,
    take_turns,
    tell,
    times_cheaper,
)
from bench.java import Ask, judge, race_seconds
from bench.memory import anonymous, most_while
from bench.segments import Shape, write_segment
from kafkats.compression import Codec, decompress
from kafkats.formats import dispatch, message_set
from kafkats.formats.build import Target
from kafkats.segment.convert import Conversion, convert_source
from kafkats.segment.pack import lz4_compress_default
from kafkats.segment.reader import open_source
from kafkats.segment.unpack import lz4_decompress_safe, zstd_functions
from kafkats_model.memory_source import array_source

SIZE = 128 * MIB
PACKED_SIZE = 32 * MIB
PEER_SIZE = 8 * MIB
JAVA_SIZE = 64 * MIB
OLD_KAFKA = "2.8.2"
ROUNDS = 5
JAVA_WARM = 3
_PIECE = MIB
_BUILDER_BYTES = 16 * 1024


class Pair(NamedTuple):
    """An uncompressed conversion, with goals as multiples of the others' speed."""

    shape: Shape
    magic: int
    new_file: float | None
    hashed: float | None
    aiokafka: float | None
    kafka: dict[str, float | None]


PAIRS = (
    Pair(segments.V0_100, 1, 0.45, None, 13, {"leader": 10}),
    Pair(segments.V0_1K, 1, 0.7, None, 13, {"leader": 5}),
    Pair(segments.V1_100, 0, 0.45, None, 13, {"down-conversion": 6}),
    Pair(segments.V1_1K, 0, 0.7, None, 13, {"down-conversion": 5}),
    Pair(segments.V1_100, 2, None, 0.4, None, {"cleaner": 5, "leader": 5}),
    Pair(segments.V1_1K, 2, None, 0.6, None, {"cleaner": 3, "leader": 3}),
    Pair(segments.V0_100, 2, None, None, None, {"cleaner": None, "leader": None}),
    Pair(segments.V0_1K, 2, None, None, None, {"cleaner": None, "leader": None}),
    Pair(segments.V2_100, 1, None, None, None, {"down-conversion": 5}),
    Pair(segments.V2_1K, 1, None, None, None, {"down-conversion": 4}),
    Pair(segments.V2_100, 0, None, None, None, {"down-conversion": 5}),
    Pair(segments.V2_1K, 0, None, None, None, {"down-conversion": 4}),
)


class Packed(NamedTuple):
    """A conversion of compressed batches.

    Goals are multiples of the codec's and the cleaner's speed.
    """

    shape: Shape
    target: Target
    alone: float
    cleaner: float | None


def _packed(codec: Codec, magic: int, size: int) -> Shape:
    return Shape(f"v{magic} {codec.name.lower()} {size} B", magic, size, per_batch=0, codec=codec)


PACKED = (
    Packed(segments.V1_LZ4_100, Target(2), 0.7, 5),
    Packed(segments.V1_LZ4_1K, Target(2), 0.7, 5),
    Packed(_packed(Codec.LZ4, 2, 100), Target(1), 0.7, None),
    *(Packed(_packed(codec, 1, size), Target(2), 0.8, None) for codec in (Codec.GZIP, Codec.SNAPPY) for size in (100, 1024)),
    *(Packed(_packed(Codec.ZSTD, 2, size), Target(1, Codec.LZ4), 0.8, None) for size in (100, 1024)),
    *(Packed(_packed(Codec.LZ4, 2, size), Target(2, Codec.ZSTD), 0.8, None) for size in (100, 1024)),
)  # fmt: skip
MEMORY_MB = 128
MEMORY = (
    (segments.V1_100, Target(2)),
    (segments.V2_100, Target(0)),
    (segments.V1_LZ4_100, Target(2)),
)


def figures(*, small: bool = False) -> Figures:
    share = 16 if small else 1
    with scratch() as folder:
        for pair in PAIRS:
            tell(f"{pair.shape.name} to v{pair.magic}")
            yield from _pair(pair, write_segment(folder / "log", pair.shape, SIZE // share), folder)
        for packed in PACKED:
            tell(f"{packed.shape.name} to {_name(packed.target)}")
            yield from _compressed(
                packed, write_segment(folder / "log", packed.shape, PACKED_SIZE // share)
            )
        yield from _memory(folder, (1024 if not small else 32) * MIB)


def _name(target: Target) -> str:
    return f"v{target.magic}" + (f" {target.codec.name.lower()}" if target.codec else "")


def _pair(pair: Pair, log: Path, folder: Path) -> Figures:
    data = np.fromfile(log, np.uint8)
    target, new, size = Target(pair.magic), folder / "new.log", len(data)
    peer = data[:PEER_SIZE].tobytes()
    with judge(kafka=OLD_KAFKA) as old_kafka, judge() as new_kafka:
        races = {name: _race(name, pair.magic, old_kafka, new_kafka, log) for name in pair.kafka}
        for race in races.values():
            for _ in range(JAVA_WARM):
                race()
        costs = take_turns(
            {
                "converted": lambda: cpu_seconds(partial(in_memory, data, target)) / size,
                "memcpy": lambda: cpu_seconds(partial(copied, data)) / size,
                "new file": lambda: cpu_seconds(partial(into_file, log, target, new)) / size,
                "with hash": lambda: (
                    cpu_seconds(partial(into_file, log, target, new, digest=True)) / size
                ),
                "memcpy + new file": lambda: cpu_seconds(partial(copied_to_file, log, new)) / size,
                "aiokafka": lambda: cpu_seconds(partial(by_aiokafka, peer, pair.magic)) / len(peer),
                **races,
            },
            ROUNDS,
        )
    label = f"convert, {pair.shape.name} to v{pair.magic}"
    yield _beside(label, costs, "new file", "memcpy + new file", pair.new_file)
    yield _beside(
        label + ", with a plan's hash", costs, "with hash", "memcpy + new file", pair.hashed
    )
    yield _beside(label, costs, "converted", "memcpy", None)
    yield _beside(label, costs, "converted", "aiokafka", pair.aiokafka)
    for name, goal in pair.kafka.items():
        yield _beside(label, costs, "converted", name, goal, f"Kafka's {name}")


def _beside(
    label: str,
    costs: dict[str, list[float]],
    us: str,
    them: str,
    goal: float | None,
    named: str = "",
) -> Figure:
    speed = {name: 1 / MB / sorted(cost)[len(cost) // 2] for name, cost in costs.items()}
    detail = f"{speed[us]:,.0f} / {speed[them]:,.0f} MB/s"
    return Figure(
        f"{label} / {named or them}", times_cheaper(costs, us, them), "x", goal, detail=detail
    )


def _race(name: str, magic: int, old_kafka: Ask, new_kafka: Ask, log: Path) -> Callable[[], float]:
    """Return a function that measures one of Kafka's converters in seconds per byte."""
    limit = ("--limit", str(JAVA_SIZE), "--magic", str(magic))
    size = log.stat().st_size
    if name == "cleaner":
        return lambda: race_seconds(new_kafka, "clean", log) / size
    kind, chunk = ("convert", 16 * 1024) if name == "leader" else ("downconvert", MIB)
    share = min(JAVA_SIZE, size)
    return lambda: race_seconds(old_kafka, kind, log, *limit, "--chunk", str(chunk)) / share


def in_memory(data: NDArray[np.uint8], target: Target) -> Conversion:
    return convert_source(
        array_source(data), 0, target, lambda piece: None, log_end=False, digest=False
    )


def into_file(log: Path, target: Target, new: Path, *, digest: bool = False) -> Conversion:
    """Convert as `apply` does with one .log, without sync and swap."""
    with open_source(log, mapped=True) as source, new.open("wb", buffering=0) as file:
        done = convert_source(source, 0, target, file.write, log_end=False, digest=digest)
    new.unlink()
    return done


def copied(
    data: NDArray[np.uint8], write: Callable[[memoryview], object] = lambda piece: None
) -> None:
    room = np.empty(_PIECE, np.uint8)
    for start in range(0, len(data), _PIECE):
        piece = data[start : start + _PIECE]
        room[: len(piece)] = piece
        write(room[: len(piece)].data)


def copied_to_file(log: Path, new: Path) -> None:
    with log.open("rb") as file, new.open("wb", buffering=0) as out:
        region = mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)
        copied(np.frombuffer(region, np.uint8), out.write)
    new.unlink()


def by_aiokafka(data: bytes, magic: int) -> int:
    """Convert with aiokafka's reader and builders, and return the built bytes.

    An incomplete batch at the end is ignored.
    """
    built, builder, filled = 0, None, 0
    batches = MemoryRecords(data)
    while (batch := batches.next_batch()) is not None:
        batch.validate_crc()
        for record in batch:
            if builder is None:
                first, filled = record.offset, 0
                builder = (
                    DefaultRecordBatchBuilder(2, 0, 0, -1, -1, -1, MIB) if magic == 2 else LegacyRecordBatchBuilder(magic, 0, MIB)
                )  # fmt: skip
            key, value, time = record.key, record.value, record.timestamp
            if magic == 2:
                builder.append(record.offset - first, -1 if time is None else time, key, value, [])
            else:
                builder.append(record.offset, -1 if time is None else time, key, value)
            filled += len(value)
            if filled >= _BUILDER_BYTES:
                built += len(builder.build())
                builder = None
    return built


def _compressed(packed: Packed, log: Path) -> Figures:
    data = np.fromfile(log, np.uint8)
    size = len(data)
    work = alone(data, packed.target)
    contestants: dict[str, Callable[[], float]] = {
        "converted": lambda: cpu_seconds(partial(in_memory, data, packed.target)) / size,
        "codec alone": lambda: cpu_seconds(work) / size,
    }
    with judge() as kafka:
        if packed.cleaner:
            for _ in range(JAVA_WARM):
                race_seconds(kafka, "clean", log)
            contestants["cleaner"] = lambda: race_seconds(kafka, "clean", log) / size
        costs = take_turns(contestants, ROUNDS)
    label = f"convert, {packed.shape.name} to {_name(packed.target)}"
    yield _beside(label, costs, "converted", "codec alone", packed.alone)
    if packed.cleaner:
        yield _beside(label, costs, "converted", "cleaner", packed.cleaner, "Kafka's cleaner")


def alone(data: NDArray[np.uint8], target: Target) -> Callable[[], None]:
    """Return the codecs' work of a conversion: the decompressions and the compressions."""
    pieces: list[memoryview] = []
    convert_source(array_source(data), 0, target, lambda p: pieces.append(memoryview(bytes(p))), log_end=False, digest=False)  # fmt: skip
    before = list(_payloads(data.tobytes()))
    after = [
        (codec, decompress(codec, packed, broken_lz4=True))
        for codec, packed in _payloads(b"".join(pieces))
    ]
    room = np.empty(4 * MIB, np.uint8)
    unpack = [_decompressor(codec, room) for codec, _ in before[:1]] * len(before)
    pack = [_compressor(codec, room) for codec, _ in after[:1]] * len(after)

    def work() -> None:
        room[0] = 0  # it must live as long as its address is used
        for (_, packed), (_, plain), one, other in zip(before, after, unpack, pack, strict=True):
            one(packed)
            other(plain)

    return work


def _payloads(log: bytes) -> Iterator[tuple[int, bytes]]:
    for batch in dispatch.batches(log, verify=False):
        if batch.magic == 2:
            yield batch.codec, log[batch.position + 61 : batch.end]
        else:
            yield (
                batch.codec,
                message_set._key_and_value(
                    memoryview(log)[: batch.end], batch.position, batch.magic
                )[1]
                or b"",
            )


def _address(data: bytes) -> int:
    return ctypes.cast(ctypes.c_char_p(data), ctypes.c_void_p).value or 0


def _decompressor(codec: int, room: NDArray[np.uint8]) -> Callable[[bytes], Any]:
    to = room.ctypes.data
    if codec == Codec.GZIP:
        return lambda data: isal_zlib.decompressobj(31).decompress(data)
    if codec == Codec.SNAPPY:
        return lambda data: [
            cramjam.snappy.decompress_raw_into(block, room) for block in _blocks(data, 16, "big")
        ]
    if codec == Codec.LZ4:
        function = lz4_decompress_safe()
        assert function
        return lambda data: [
            function(_address(block), to, len(block), 65536) for block in _blocks(data, 7, "little")
        ]
    zstd = zstd_functions()
    assert zstd
    context = zstd.create()
    return lambda data: zstd.decompress(context, to, len(room), _address(data), len(data))


def _blocks(data: bytes, at: int, order: Any) -> Iterator[bytes]:
    while at + 4 <= len(data) and (size := int.from_bytes(data[at : at + 4], order)):
        yield data[at + 4 : at + 4 + size]
        at += 4 + size


def _compressor(codec: int, room: NDArray[np.uint8]) -> Callable[[bytes], Any]:
    to = room.ctypes.data
    if codec == Codec.GZIP:
        return _deflate
    if codec == Codec.SNAPPY:
        return lambda data: [
            cramjam.snappy.compress_raw_into(data[at : at + 32768], room)
            for at in range(0, len(data), 32768)
        ]
    if codec == Codec.LZ4:
        function = lz4_compress_default()
        assert function
        return lambda data: [
            function(_address(data) + at, to, min(65536, len(data) - at), len(room))
            for at in range(0, len(data), 65536)
        ]
    zstd = zstandard.ZstdCompressor(level=3, write_content_size=False, write_checksum=False)

    def frame(data: bytes) -> None:
        stream = zstd.compressobj()
        stream.compress(data)
        stream.flush(zstandard.COMPRESSOBJ_FLUSH_BLOCK)
        stream.flush()

    return frame


def _deflate(data: bytes) -> bytes:
    deflate = zlib.compressobj(-1, zlib.DEFLATED, -15, 8, 0)
    return deflate.compress(data) + deflate.flush()


def _memory(folder: Path, size: int) -> Figures:
    for shape, target in MEMORY:
        tiny = write_segment(folder / "tiny", shape, 1)
        log = write_segment(folder / "log", shape, size)
        said = subprocess.run(
            [sys.executable, "-m", "bench.convert", str(tiny), str(log), str(target.magic)],
            cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        before, most = (int(word) / MB for word in said.stdout.split())
        yield Figure(
            f"memory of convert, {log.stat().st_size / 2**30:.2f} GiB of {shape.name} to {_name(target)}", most - before, "MB", MEMORY_MB,
            at_least=False, detail=f"{before:,.0f} MB with everything imported, {most:,.0f} MB at most",
        )  # fmt: skip
        log.unlink()


def main() -> None:
    tiny, log, magic = sys.argv[1:]
    target = Target(int(magic))
    new = Path(log).with_name("new.log")
    into_file(Path(tiny), target, new, digest=True)
    before = anonymous()
    print(before, most_while(lambda: into_file(Path(log), target, new, digest=True)))


if __name__ == "__main__":
    main()
