"""Compare the speed of the kernels of two commits.

    python -m bench.kernels BEFORE [AFTER] [--only TEXT] [--pairs N] [--small]

AFTER is the work tree if it is not given. Both versions are loaded into one process and run in
turns on the same bytes in memory, with compiled code warm. The cost is the CPU time of the thread.
A ratio is AFTER / BEFORE of one pair of turns. The table shows the median of the pairs and its 95 %
interval. Exits with 1 if a median is above 1.03. Repeat such a case with `--only` before you
believe it: two copies of the same code differ by up to 0.02.
"""

from __future__ import annotations

import argparse
import importlib
import math
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from functools import cache, partial
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bench import segments
from bench.harness import MIB, ROOT, cpu_seconds
from bench.segments import Shape, make_log
from kafkats.formats import v2
from kafkats.formats.model import Codec, Header, Record, TimestampType
from kafkats_model.memory_source import array_source

PAIRS = 31
LIMIT = 1.03
TURN_SECONDS = 0.006
SIZE = 6 * MIB

V2_LZ4 = Shape("v2 lz4, 100 B", 2, 100, per_batch=0, codec=Codec.LZ4)
V2_ZSTD = Shape("v2 zstd, 100 B", 2, 100, per_batch=0, codec=Codec.ZSTD)
V2_HEADERS = Shape("v2 100 B with two headers", 2, 100, per_batch=0)
MODULES = ("walk", "headers", "deep", "columns", "convert", "search", "reader")

Log = NDArray[np.uint8]
Work = Callable[[], object]


class Tree:
    """The package `kafkats` of one commit, beside that of another in the same process."""

    def __init__(self, folder: Path) -> None:
        self._modules: dict[str, ModuleType] = {}
        sys.path.insert(0, str(folder))
        with self.active():
            names = {name: importlib.import_module(f"kafkats.segment.{name}") for name in MODULES}
            names["build"] = importlib.import_module("kafkats.index.build")
            names["generations"] = importlib.import_module("kafkats.generations")
            names["cells"] = importlib.import_module("kafkats.kernels.cells")
            self.segment = SimpleNamespace(**names)
            loaded = Path(names["walk"].__file__ or "").resolve()
        sys.path.remove(str(folder))
        if not loaded.is_relative_to(folder.resolve()):
            raise SystemExit(f"kafkats was imported from {loaded}, not from {folder}")

    @contextmanager
    def active(self) -> Generator[None, None, None]:
        """Let imports inside functions find the modules of this tree."""
        others = _taken()
        sys.modules.update(self._modules)
        try:
            yield
        finally:
            self._modules = _taken()
            sys.modules.update(others)


def _taken() -> dict[str, ModuleType]:
    """Remove the modules of kafkats from the table of imported modules, and return them."""
    names = [name for name in sys.modules if name.partition(".")[0] == "kafkats"]
    return {name: sys.modules.pop(name) for name in names}


class Case(NamedTuple):
    """A path through the kernels. `prepare` returns the work of one call."""

    name: str
    prepare: Callable[[Tree], Work]


class Result(NamedTuple):
    """The ratios AFTER / BEFORE of the pairs, and the median cost of BEFORE in ms."""

    name: str
    ratios: list[float]
    before_ms: float

    @property
    def median(self) -> float:
        return statistics.median(self.ratios)

    @property
    def line(self) -> str:
        low, high = interval(self.ratios)
        verdict = "" if self.median <= LIMIT else "SLOWER"
        return (
            f"| {self.name} | {self.before_ms:.2f} | {self.median:.3f} | "
            f"{low:.3f} to {high:.3f} | {verdict} |"
        )


def interval(ratios: Sequence[float]) -> tuple[float, float]:
    """Return the 95 % interval of the median, from the order of the ratios (binomial)."""
    ordered, n = sorted(ratios), len(ratios)
    reach = 0.98 * math.sqrt(n)
    return ordered[max(0, int(n / 2 - reach))], ordered[min(n - 1, math.ceil(n / 2 + reach) - 1)]


@cache
def _log(shape: Shape, size: int) -> Log:
    if shape is not V2_HEADERS:
        return make_log(shape, size)
    headers = (Header("trace", b"0123456789abcdef"), Header("source", None))
    records = [
        Record(n, 1000 + n, TimestampType.CREATE_TIME, b"12345678", bytes(100), headers)
        for n in range(100)
    ]
    batch = np.frombuffer(v2.encode_batch(records), np.uint8)
    return np.tile(batch, max(1, size // len(batch)))


def cases(size: int, folder: Path) -> Iterator[Case]:
    """Yield every case. `folder` receives the files that the searches read."""
    plain = (segments.V0_100, segments.V1_100, segments.V1_1K, segments.V2_100, segments.V2_1K)
    packed = (segments.V1_LZ4_100, V2_LZ4)
    for shape in (*plain, segments.V2_SINGLE, *packed):
        yield Case(f"walk, {shape.name}", partial(_walk, log=_log(shape, size)))
    for shape in (segments.V1_100, segments.V2_SINGLE):
        yield Case(f"headers, {shape.name}", partial(_headers, log=_log(shape, size)))
    for shape in (*plain, segments.V2_SINGLE, *packed, V2_HEADERS):
        yield Case(f"deep, {shape.name}", partial(_deep, log=_log(shape, size)))
    for shape in (*plain, segments.V2_SINGLE, *packed, V2_ZSTD, V2_HEADERS):
        yield Case(f"columns, {shape.name}", partial(_columns, log=_log(shape, size)))
    batch = partial(_columns, log=_log(segments.V2_100, size), batch=True)
    yield Case(f"columns with batch fields, {segments.V2_100.name}", batch)
    for shape, magic, codec in (
        (segments.V0_100, 2, None), (segments.V1_100, 2, None), (segments.V1_100, 0, None),
        (segments.V1_1K, 2, None), (segments.V2_100, 1, None), (segments.V2_100, 0, None),
        (segments.V2_1K, 1, None), (segments.V2_100, 2, Codec.LZ4), (segments.V1_100, 2, Codec.LZ4),
        (segments.V1_LZ4_100, 2, None), (segments.V1_LZ4_100, 0, None), (V2_LZ4, 1, None),
        (V2_LZ4, 2, Codec.NONE), (V2_HEADERS, 1, None),
    ):  # fmt: skip
        target = f"to v{magic}" + ("" if codec is None else f" {codec.name.lower()}")
        work = partial(_convert, log=_log(shape, size), magic=magic, codec=codec)
        yield Case(f"convert, {shape.name}, {target}", work)
    for shape in (segments.V0_100, *plain[1:], segments.V2_SINGLE, *packed):
        path = folder / f"{shape.name}.log".replace(" ", "-")
        path.write_bytes(_log(shape, size).data)
        if shape.magic:
            yield Case(f"sweep, {shape.name}", partial(_sweep, path=path, targets=2000))
        yield Case(f"search to the end, {shape.name}", partial(_search, path=path))
    yield Case("index entries", _entries)
    yield Case("cells of a lookup table", _cells)


def _walk(tree: Tree, log: Log) -> Work:
    s, got = tree.segment, []

    def work() -> None:
        walked = s.walk.walk(array_source(log), 0, interval=4096, on_points=got.append)
        assert walked.facts.valid_bytes == len(log)
        got.clear()

    return work


def _headers(tree: Tree, log: Log) -> Work:
    s = tree.segment
    return lambda: sum(map(len, s.headers.batch_headers(array_source(log))))


def _deep(tree: Tree, log: Log) -> Work:
    s = tree.segment
    facts = s.walk.walk(array_source(log), 0).facts

    def work() -> None:
        assert not s.deep.look_at_records(array_source(log), facts).undecodable

    return work


def _columns(tree: Tree, log: Log, batch: bool = False) -> Work:
    s = tree.segment

    def work() -> None:
        chunks = s.columns.columns(array_source(log), batch=batch)
        assert sum(chunk.rows for chunk in chunks)

    return work


def _convert(tree: Tree, log: Log, magic: int, codec: Codec | None) -> Work:
    s = tree.segment
    # uncommon forms go to the plain converter, which is no kernel: the log's end is not one here
    target = s.convert.Target(magic, codec)

    def work() -> None:
        source = array_source(log)
        assert s.convert.convert_source(
            source, 0, target, None, log_end=False, digest=False
        ).batches_in

    return work


def _sweep(tree: Tree, path: Path, targets: int) -> Work:
    s, searcher = tree.segment, tree.segment.search.Searcher()
    log = s.search.OpenLog(str(path), mapped=True)
    last = searcher.first_record(log, 0, segments.BEGIN_MS)
    assert last is not None
    times = segments.BEGIN_MS + np.arange(targets, dtype=np.int64) * 7
    starts, found = np.zeros(targets, np.int64), np.zeros((targets, 3), np.int64)
    return lambda: searcher.sweep(log, times, starts, found)


def _search(tree: Tree, path: Path) -> Work:
    searcher = tree.segment.search.Searcher()
    log = tree.segment.search.OpenLog(str(path), mapped=True)

    def work() -> None:
        assert searcher.first_record(log, 0, 2**62) is None

    return work


def _entries(tree: Tree) -> Work:
    build, n = tree.segment.build, 100_000
    rule = tree.segment.generations.DEFAULT_RULE
    points = np.arange(5 * n, dtype=np.int64).reshape(n, 5)
    return lambda: build.IndexBuilder(0, rule, 2**31 - 1, lambda at: at).add(points)


def _cells(tree: Tree) -> Work:
    k, n = tree.segment.cells, 100_000
    chance = np.random.default_rng(1)
    cells = chance.integers(0, 1000, (n, k.COLUMNS))
    rows, times = chance.integers(-1, n, n), chance.integers(0, 1000, n)
    words = np.arange(4, dtype=np.int8)
    numbers, epochs, reasons = (
        np.zeros((3, n), np.int64), np.zeros(n, np.int32), np.zeros(n, np.int8)
    )  # fmt: skip
    return lambda: k.pick(cells, rows, times, words, numbers, epochs, reasons)


def compare(case: Case, before: Tree, after: Tree, pairs: int) -> Result:
    """Run both versions of a case in turns. Who begins alternates."""
    works = {}
    for tree in (before, after):
        with tree.active():
            works[tree] = case.prepare(tree)
            works[tree]()  # compiles
            works[tree]()
    with before.active():
        repeats = max(1, round(TURN_SECONDS / max(cpu_seconds(works[before]), 1e-6)))
    costs: dict[Tree, list[float]] = {before: [], after: []}
    for n in range(pairs):
        for tree in (before, after) if n % 2 else (after, before):
            with tree.active():
                costs[tree].append(cpu_seconds(partial(_repeat, works[tree], repeats)) / repeats)
    ratios = [b / a for a, b in zip(costs[before], costs[after], strict=True)]
    return Result(case.name, ratios, 1000 * statistics.median(costs[before]))


def _repeat(work: Work, times: int) -> None:
    for _ in range(times):
        work()


def folder_of(commit: str) -> Path:
    """Return a folder with the package at `commit`. It is kept, with its compiled kernels."""
    run: Any = partial(subprocess.run, cwd=ROOT, check=True, stdout=subprocess.PIPE)
    sha = run(["git", "rev-parse", f"{commit}^{{commit}}"]).stdout.decode().strip()
    folder = Path(tempfile.gettempdir(), f"kafkats-kernels-{sha[:16]}")
    if not folder.exists():
        with tempfile.TemporaryDirectory(dir=folder.parent) as beside:
            archive = run(["git", "archive", sha, "kafkats"]).stdout
            subprocess.run(["tar", "-x", "-C", beside], input=archive, check=True)
            folder.mkdir()
            Path(beside, "kafkats").rename(folder / "kafkats")
    return folder


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.kernels")
    parser.add_argument("before")
    parser.add_argument("after", nargs="?", help="the work tree if it is not given")
    parser.add_argument("--only", default="", help="cases with this text in their name")
    parser.add_argument("--pairs", type=int, default=PAIRS)
    parser.add_argument("--small", action="store_true", help="small inputs: tries the program")
    args = parser.parse_args()
    before = Tree(folder_of(args.before))
    after = Tree(folder_of(args.after) if args.after else ROOT)
    began, slower = time.monotonic(), []
    print(
        "| path | before, ms | after / before | 95 % interval | |\n| --- | --- | --- | --- | --- |"
    )
    with tempfile.TemporaryDirectory() as folder:
        for case in cases(MIB // 4 if args.small else SIZE, Path(folder)):
            if args.only not in case.name:
                continue
            result = compare(case, before, after, args.pairs)
            print(result.line, flush=True)
            slower += [result.name] * (result.median > LIMIT)
    print(f"\n{args.pairs} pairs each, {time.monotonic() - began:.0f} s", file=sys.stderr)
    return int(bool(slower))


if __name__ == "__main__":
    sys.exit(main())
