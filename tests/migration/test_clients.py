"""The file of clients: read as a policy is, and refused with the line of what is wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

from kafkats.errors import UsageError
from kafkats.migration.clients import read_clients

FILE = """\
kafka: 2.8.2
brokers: 4
message.format.version: 0.9.0
topics:
  orders*:
    produce: {1: 0.25, 3: 0.75}
    fetch: {0: 0.1, 2: 0.4, 11: 0.5}
    compression: {gzip: 0.5}
    bytes.per.day: 2GB
    reads: 3
  "*":
    produce: {2: 1}
    fetch: {4: 1}
"""


def written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "clients.yaml"
    path.write_text(text)
    return path


def test_it_is_read(tmp_path: Path) -> None:
    clients = read_clients(written(tmp_path, FILE))
    orders, other = clients.of("orders-eu"), clients.of("audit")
    assert orders is not None and other is not None
    assert orders.produce == {1: 0.25, 3: 0.75} and orders.fetch == {0: 0.1, 2: 0.4, 11: 0.5}
    assert (orders.bytes_per_day, orders.reads, orders.compression) == (
        2_000_000_000,
        3,
        {"gzip": 0.5},
    )
    assert other.bytes_per_day is None and other.compression == {}
    assert clients.of("__consumer_offsets") is None, "* does not match Kafka's own topics"
    assert (clients.kafka, clients.brokers, clients.from_magic(2)) == ("2.8.2", 4, 0)


@pytest.mark.parametrize(("to_magic", "before"), [(2, 1), (1, 0), (0, 1)])
def test_the_format_before_the_new(to_magic: int, before: int, tmp_path: Path) -> None:
    text = FILE.replace("message.format.version: 0.9.0\n", "")
    assert read_clients(written(tmp_path, text)).from_magic(to_magic) == before


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("1: 0.25", "1: 0.5", "line 6: topics.orders*.produce: the shares should add up to 1, not 1.25"),
        ("3: 0.75", "3: -1", "line 6: topics.orders*.produce.3: must be a share from 0 to 1"),
        ("gzip: 0.5", "gzip: 0.9, lz4: 0.3", "line 8: topics.orders*.compression: the shares should add up to 1 at most"),
        ("gzip", "zstd", "line 8: topics.orders*.compression.zstd: must be 'gzip', 'snappy' or 'lz4'"),
        ("reads: 3", "reads: -3", "line 10: topics.orders*.reads"),
        ("reads: 3", "read: 3", "line 10: topics.orders*.read: unknown key"),
        ("brokers", "broker", "line 2: broker: unknown key; did you mean 'brokers'?"),
        ("    fetch: {4: 1}\n", "", "line 11: topics.*.fetch: is missing"),
        ("2GB", "2XB", "line 9: topics.orders*.bytes.per.day"),
        ("2.8.2", "old", "line 1: kafka: must be a magic"),
    ],
)  # fmt: skip
def test_a_wrong_line_is_named(old: str, new: str, says: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError) as said:
        read_clients(written(tmp_path, FILE.replace(old, new)))
    assert says in said.value.reason


@pytest.mark.parametrize("text", ["- a", "topics: [", "", "text"])
def test_what_is_no_such_file(text: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError):
        read_clients(written(tmp_path, text))
    with pytest.raises(UsageError, match="there is no such file of clients"):
        read_clients(tmp_path / "none")
