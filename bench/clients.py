"""`python -m bench.clients`: what clients of other formats cost real brokers. CPU time.

Renews `kafkats/migration/conversion_costs.toml`, from which `plan migrate --clients` forecasts. For
each release and message.format.version a broker runs with a heap of 1 GB. A client of each format
sends sets of 16 KiB with values of 100 B, and reads them back in fetches of 1 MiB, over one
connection. The CPU time is that of the broker's process, with its JIT and garbage collector, as
/proc/PID/stat has it. Each cell runs a while before it is measured.
"""

from __future__ import annotations

import argparse
import datetime
import os
import platform
import re
import struct
import sys
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple

from bench.appends import sets_of
from bench.harness import MB, ROOT, scratch, tell
from bench.java import jars
from bench.segments import Shape
from kafkats.formats import dispatch
from kafkats.formats.model import Codec

RECIPES: Final = ROOT / "conformance" / "recipes"
TABLE: Final = ROOT / "kafkats" / "migration" / "conversion_costs.toml"
RELEASES: Final = {"0.10.2.2": ("0.9.0", "0.10.2"), "2.8.2": ("0.9.0", "0.10.2", "2.8")}
"""Releases, and the formats by magic that they can write."""
CODECS: Final = (Codec.NONE, Codec.GZIP, Codec.LZ4)
BYTES: Final = 16 * MB
WARM_BYTES: Final = 8 * MB
ROUNDS: Final = 2
"""The cheapest counts: in the first ones the JIT compiles."""
FETCH_BYTES: Final = 1 << 20
_TICKS: Final = os.sysconf("SC_CLK_TCK")
_HEAP: Final = ("-Xms1g", "-Xmx1g", "-XX:+UseG1GC")
_PRODUCE: Final = (1, 2, 3)
_FETCH: Final = (1, 2, 4)
"""The version of a request that carries at most the magic at its place."""


class Cell(NamedTuple):
    """A measured cost. `disk` is the magic of the topic, `client` that of the client."""

    kafka: str
    request: str
    client: int
    disk: int
    codec: str
    seconds: float
    """CPU seconds of the broker per GB: of what a producer sends, of what is stored."""


class Connection:
    """A connection to a broker that sends one request at a time."""

    def __init__(self, port: int) -> None:
        from wire import Wire  # type: ignore[import-not-found]

        self._wire = Wire(port)

    def create(self, topic: str) -> None:
        """Ask for the metadata of a topic until it has a leader: the broker creates it."""
        body = struct.pack(">i", 1) + _string(topic)
        while True:
            answer: bytes = self._wire.request(3, 0, body)
            at = answer.index(topic.encode()) + len(topic)
            partitions = struct.unpack_from(">i", answer, at)[0]
            if partitions and struct.unpack_from(">hii", answer, at + 4)[2] >= 0:
                return

    def produce(self, topic: str, version: int, data: bytes) -> None:
        error, _ = self._wire.produce(topic, 0, data, version)
        if error:
            raise RuntimeError(f"produce version {version} to {topic}: error {error}")

    def fetch(self, topic: str, version: int, offset: int) -> bytes:
        """Return the records from an offset on. Version 4 has an isolation level."""
        body = struct.pack(">iii", -1, 500, 1)
        body += struct.pack(">i", FETCH_BYTES) if version >= 3 else b""
        body += b"\0" if version >= 4 else b""
        body += struct.pack(">i", 1) + _string(topic)
        body += struct.pack(">iiqi", 1, 0, offset, FETCH_BYTES)
        answer: bytes = self._wire.request(1, version, body)
        at = (4 if version >= 1 else 0) + 4 + 2 + len(topic) + 4
        _, error, _ = struct.unpack_from(">ihq", answer, at)
        if error:
            raise RuntimeError(f"fetch version {version} of {topic}: error {error}")
        at += 14
        if version >= 4:
            _, aborted = struct.unpack_from(">qi", answer, at)
            at += 12 + 16 * max(aborted, 0)
        (size,) = struct.unpack_from(">i", answer, at)
        return answer[at + 4 : at + 4 + size]


def _string(text: str) -> bytes:
    return struct.pack(">h", len(text)) + text.encode()


_more: Final[list[str]] = []
"""Jars that all brokers get."""


def measure(kafka: str, magic: int, amount: int, folder: Path) -> Iterator[Cell]:
    """Yield the costs of a broker whose topics have this magic."""
    sets = {
        (client, codec): _sets(client, codec)
        for client in range(len(RELEASES[kafka]))
        for codec in CODECS
    }
    with running(kafka, RELEASES[kafka][magic], folder) as (port, pid):
        client = Connection(port)
        for (sent, codec), some in sets.items():
            client.create(_topic(sent, codec))
            _send(client, sent, codec, some, WARM_BYTES * amount // BYTES)
        costs: dict[tuple[int, Codec], list[float]] = {one: [] for one in sets}
        for _ in range(ROUNDS):
            for (sent, codec), some in sets.items():
                before = _cpu(pid)
                size = _send(client, sent, codec, some, amount)
                costs[sent, codec].append((_cpu(pid) - before) / size * 1e9)
        for (sent, codec), found in costs.items():
            yield Cell(kafka, "produce", sent, magic, codec.name.lower(), min(found))
        for codec in CODECS:
            topic = _topic(magic, codec)
            size = (folder / "data" / f"{topic}-0" / f"{0:020d}.log").stat().st_size
            for reader in range(len(RELEASES[kafka])):
                _read(client, topic, _FETCH[reader])
                before = _cpu(pid)
                _read(client, topic, _FETCH[reader])
                seconds = (_cpu(pid) - before) / size * 1e9
                yield Cell(kafka, "fetch", reader, magic, codec.name.lower(), seconds)


def _topic(magic: int, codec: Codec) -> str:
    return f"from-{magic}-{codec.name.lower()}"


def _send(client: Connection, magic: int, codec: Codec, sets: list[bytes], amount: int) -> int:
    """Send about `amount` bytes, at least all sets once. Returns the bytes."""
    size = sum(map(len, sets))
    rounds = max(1, amount // size)
    for _ in range(rounds):
        for one in sets:
            client.produce(_topic(magic, codec), _PRODUCE[magic], one)
    return rounds * size


def _read(client: Connection, topic: str, version: int) -> None:
    """Read a topic from its beginning to its end."""
    offset = 0
    while data := client.fetch(topic, version, offset):
        *_, last = dispatch.batches(data, verify=False)
        offset = last.last_offset + 1


def _sets(magic: int, codec: Codec) -> list[bytes]:
    data, ends = sets_of(Shape("", magic, 100, codec=codec), 1)
    return [data[a:b].tobytes() for a, b in zip([0, *ends[:-1]], ends, strict=True)]


def _cpu(pid: int) -> float:
    """Return the CPU seconds of a process, with its kernel's part."""
    words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(words[11]) + int(words[12])) / _TICKS


@contextmanager
def running(kafka: str, version: str, folder: Path) -> Generator[tuple[int, int], None, None]:
    """Run a broker in the `with` block. Yields its port and its process id."""
    import broker as recipes  # type: ignore[import-not-found]

    recipes.classpath = lambda kafka: os.pathsep.join([f"{jars(kafka)}/*", *_more])
    recipes.JVM = [*_HEAP, f"-Dlog4j.configuration=file:{RECIPES / 'log4j.properties'}"]
    folder.mkdir()
    keeper = recipes.ZooKeeper(kafka, str(folder / "zookeeper"))
    properties = {
        "auto.create.topics.enable": "true",
        "log.message.format.version": version,
        "log.cleaner.enable": "false",
    }
    one = recipes.Broker(kafka, str(folder), properties, keeper)
    try:
        keeper.start()
        one.start()
        yield one.port, one.proc.pid
    finally:
        one.kill9()
        keeper.kill9()


def table_text(cells: list[Cell], machine: str, date: str) -> str:
    """Return the content of the table."""
    lines = [
        "# CPU seconds of real brokers per GB: see bench/clients.py, which renews this file.",
        f'machine = "{machine}"',
        f'date = "{date}"',
        "# release, request, magic of the client, magic on disk, codec, seconds per GB",
        "costs = [",
        *(
            f'    ["{c.kafka}", "{c.request}", {c.client}, {c.disk}, "{c.codec}", {c.seconds:.1f}],'
            for c in cells
        ),
        "]",
    ]
    return "\n".join(lines) + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.clients")
    parser.add_argument("--small", action="store_true", help="try it, and keep the table")
    parser.add_argument("--jaxb", help="jaxb-api.jar, which Kafka 0.10 needs from Java 11 on")
    given = parser.parse_args()
    amount = BYTES // 16 if given.small else BYTES
    _more.extend([given.jaxb] if given.jaxb else [])
    sys.path.insert(0, str(RECIPES))
    cells: list[Cell] = []
    for kafka, versions in RELEASES.items():
        for magic in range(len(versions)):
            with scratch() as folder:
                for cell in measure(kafka, magic, amount, folder / "broker"):
                    tell(str(cell))
                    cells.append(cell)
    found = re.search(r"model name\s*: (.*)", Path("/proc/cpuinfo").read_text())
    machine = f"{found[1] if found else platform.machine()}, {os.cpu_count()} cores"
    text = table_text(cells, machine, datetime.datetime.now(datetime.UTC).date().isoformat())
    if given.small:
        print(text)
    else:
        TABLE.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
