"""Forecast what a mix of clients costs the brokers in each phase of a migration.

    phase-1   the brokers write the old format
    canary    one broker writes the new format
    phase-2   all brokers do

Leaders convert sets of producers with another format than the disk's. They also recompress sets of
magic 0 that are compressed, because these hold absolute offsets. Leaders convert what they send to
consumers with an older format than the disk's, which loses zero-copy. Pure functions.

The costs per GB are estimates: `conversion_costs.toml` has what bench/clients.py measured on real
brokers with values of 100 B. A cost is what the broker took more than for the same bytes in the
format of the disk. Source: KIP-31, KIP-32; LogValidator and ReplicaManager of Kafka 0.10 to 3.9.
"""

from __future__ import annotations

import tomllib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Final, NamedTuple

from kafkats import paths
from kafkats.config.values import magic_of
from kafkats.counts import counted, size_text
from kafkats.errors import UsageError
from kafkats.formats.versions import fetched_magic, produced_magic
from kafkats.migration.clients import Clients, TopicClients, read_clients
from kafkats.plans.units import Unit
from kafkats.text import Flag

_TABLE: Final = "conversion_costs.toml"
_NEW: Final = (0, 11)
_CONVERTS_NOTHING: Final = (4, 0)
_SIMILAR: Final = {"snappy": "lz4"}
"""Codecs that were not measured, and the nearest that was."""
_GB: Final = 1_000_000_000
Key = tuple[str, int, int, str]
"""Request, magic of the client, magic on disk, codec."""


class Measured(NamedTuple):
    """The costs of one release, and where they were measured."""

    kafka: str
    machine: str
    date: str
    seconds: Mapping[Key, float]
    """CPU seconds per GB."""

    def produced(self, sent: int, disk: int, codec: str) -> float:
        """Return what a leader takes more per GB than for sets in the format of the disk."""
        kept = max(disk, 1) if codec != "none" else disk  # wrappers of magic 0 are never kept
        return self._more("produce", (sent, disk), (kept, kept), codec)

    def read(self, reader: int, disk: int, codec: str) -> float:
        """Return what a broker takes more per GB than for a consumer of the format on disk."""
        return self._more("fetch", (min(reader, disk), disk), (disk, disk), codec)

    def _more(
        self, request: str, one: tuple[int, int], other: tuple[int, int], codec: str
    ) -> float:
        if one == other:
            return 0.0
        codec = _SIMILAR.get(codec, codec)
        both = (self.seconds[request, *pair, codec] for pair in (one, other))
        return max(0.0, next(both) - next(both))


class PhaseCost(NamedTuple):
    """The forecast of one phase: bytes, and CPU seconds of all brokers, per `basis`."""

    phase: str
    basis: str
    """`day`, or `stored`: if what is stored now were produced and read again."""
    produced_bytes: float
    converted_bytes: float
    """Produced bytes in another format than the disk's."""
    recompressed_bytes: float
    """Produced bytes of compressed sets that leaders compress again; these are also converted, or
    of magic 0."""
    read_bytes: float
    zero_copy_lost_bytes: float
    """Read bytes that are converted for the consumer."""
    cpu_seconds: float
    """More than if every client had the format of the disk."""

    def plus(self, other: PhaseCost, share: float, own: float = 1.0) -> PhaseCost:
        """Return the sum of `own` of this one and a share of the other."""
        both = zip(self[2:], other[2:], strict=True)
        return PhaseCost(self.phase, self.basis, *(own * a + share * b for a, b in both))


def measured(kafka: str) -> Measured:
    """Return the costs of the measured release that converts as `kafka` does.

    Raises UsageError for a release that converts nothing, and for what is no release.
    """
    parts = kafka.split(".")
    if len(parts) < 2:
        raise UsageError(f"kafka: {kafka} is no release such as 2.8.2")
    version = int(parts[0]), int(parts[1])
    if version >= _CONVERTS_NOTHING:
        raise UsageError(
            f"kafka: {kafka} converts nothing: brokers from 4.0 on do not answer clients of older"
            " formats; name the release that runs in the migration"
        )
    table = _table()
    release = min(table) if version < _NEW else max(table)
    return table[release]


@cache
def _table() -> Mapping[str, Measured]:
    package = resources.files(__package__ or "")  # which may be an archive
    content = tomllib.loads(package.joinpath(_TABLE).read_text())
    rows: dict[str, dict[Key, float]] = {}
    for kafka, request, client, disk, codec, seconds in content["costs"]:
        rows.setdefault(kafka, {})[request, client, disk, codec] = seconds
    return {
        kafka: Measured(kafka, content["machine"], content["date"], seconds)
        for kafka, seconds in rows.items()
    }


def check_clients(clients: Clients, to_magic: int) -> None:
    """Raise UsageError for brokers that do not know one of the formats, on disk or in requests."""
    measured(clients.kafka)
    newest = magic_of(clients.kafka)
    for magic in (clients.from_magic(to_magic), to_magic):
        if magic > newest:
            raise UsageError(f"kafka: {clients.kafka} does not write magic {magic}")
    for glob, mix in clients.topics.items():
        magics = {("produce", version): produced_magic(version) for version in mix.produce}
        magics |= {("fetch", version): fetched_magic(version) for version in mix.fetch}
        for (request, version), magic in magics.items():
            if magic > newest:
                reason = f"Kafka {clients.kafka} does not answer version {version}"
                raise UsageError(f"topics: {glob}: {request}: {reason}")


def forecast_phases(
    clients: Clients, stored_bytes: Mapping[str, int], to_magic: int
) -> list[PhaseCost]:
    """Return the forecast of each phase and basis, of the topics that the file has.

    `stored_bytes` are the bytes of the topics' logs. Raises UsageError as `check_clients`.
    """
    check_clients(clients, to_magic)
    costs = measured(clients.kafka)
    old, new = clients.from_magic(to_magic), to_magic
    found = []
    for basis in ("day", "stored"):
        before, after = (
            _sum(phase, basis, disk, clients, stored_bytes, costs)
            for phase, disk in (("phase-1", old), ("phase-2", new))
        )
        if before.produced_bytes:
            share = 1 / clients.brokers
            canary = before._replace(phase="canary").plus(after, share, 1 - share)
            found += [before, canary, after]
    return found


def _sum(
    phase: str,
    basis: str,
    disk: int,
    clients: Clients,
    stored_bytes: Mapping[str, int],
    costs: Measured,
) -> PhaseCost:
    total = PhaseCost(phase, basis, 0, 0, 0, 0, 0, 0)
    for topic, stored in stored_bytes.items():
        mix = clients.of(topic)
        if mix is None or (mix.bytes_per_day is not None) != (basis == "day"):
            continue
        amount = stored if mix.bytes_per_day is None else mix.bytes_per_day
        for codec, share in _codecs(mix):
            one = _of_codec(mix, disk, codec, costs)
            total = total.plus(PhaseCost(phase, basis, *one), amount * share)
    return total


def _codecs(mix: TopicClients) -> Iterator[tuple[str, float]]:
    yield from mix.compression.items()
    yield "none", max(0.0, 1 - sum(mix.compression.values()))


def _of_codec(
    mix: TopicClients, disk: int, codec: str, costs: Measured
) -> tuple[float, float, float, float, float, float]:
    """Return the numbers of a PhaseCost for one produced byte of this codec."""
    converted = recompressed = lost = seconds = 0.0
    for version, share in mix.produce.items():
        magic = produced_magic(version)
        converted += share * (magic != disk)
        recompressed += share * (codec != "none" and (magic != disk or magic == 0))
        seconds += share * costs.produced(magic, disk, codec)
    for version, share in mix.fetch.items():
        magic = fetched_magic(version)
        lost += share * mix.reads * (magic < disk)
        seconds += share * mix.reads * costs.read(magic, disk, codec)
    return 1.0, converted, recompressed, mix.reads, lost, seconds / _GB


class Estimate(NamedTuple):
    """The estimate for programs, and for people."""

    summary: dict[str, object]
    sentences: list[str]


def read_mix(path: Path, to_magic: int, dialect: str | None = None) -> Clients:
    """Read the file of clients, for brokers that know both formats; none knows a dialect.

    Raises UsageError with the line of what is wrong, StorageFailed.
    """
    if dialect:
        raise UsageError(
            Flag("--clients"), f": no broker and no client knows the dialect {dialect}"
        )
    clients = read_clients(path)
    try:
        check_clients(clients, to_magic)
    except UsageError as e:
        raise UsageError(e.reason, path=path) from e
    return clients


def estimate(clients: Clients, units: Sequence[Unit], to_magic: int) -> Estimate:
    """Return the estimate for the topics of the units."""
    stored: Counter[str] = Counter()
    for unit in units:
        name = paths.parse_partition(unit.partition_dir)
        if name is not None and unit.base_offset >= 0:
            stored[name.topic] += unit.bytes
    without = sorted(topic for topic in stored if clients.of(topic) is None)
    phases = forecast_phases(clients, stored, to_magic)
    costs = measured(clients.kafka)
    source = f"measured on Kafka {costs.kafka}, {costs.machine}, {costs.date}"
    summary: dict[str, object] = {
        "estimate": source,
        "phases": [_row(phase) for phase in phases],
        "topics_without_clients": without,
    }
    sentences = [_sentence(phase) for phase in phases]
    if sentences:
        sentences.append(f"these are estimates: CPU time per GB {source}")
    if without:
        named = f"{', '.join(without[:3])}{' ...' if len(without) > 3 else ''}"
        sentences.append(
            f"the file of clients has no glob for {counted(len(without), 'topic')}: {named}"
        )
    return Estimate(summary, sentences)


def _row(phase: PhaseCost) -> dict[str, str | int | float]:
    names = phase._fields[2:-1]
    numbers = {name: round(value) for name, value in zip(names, phase[2:-1], strict=True)}
    return {
        "phase": phase.phase,
        "per": phase.basis,
        **numbers,
        "cpu_seconds": round(phase.cpu_seconds, 1),
    }


def _sentence(phase: PhaseCost) -> str:
    per = "a day" if phase.basis == "day" else "for the bytes that are stored now"
    return (
        f"{phase.phase}, {per}: leaders convert {size_text(round(phase.converted_bytes))} of"
        f" {size_text(round(phase.produced_bytes))} produced, and recompress"
        f" {size_text(round(phase.recompressed_bytes))};"
        f" {size_text(round(phase.zero_copy_lost_bytes))} of"
        f" {size_text(round(phase.read_bytes))} read lose zero-copy;"
        f" {phase.cpu_seconds:,.0f} CPU seconds more"
    )
