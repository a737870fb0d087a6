"""Behaviours of Kafka's clients that the documents describe, shown by real clients on a real broker: rows of model/docs/seeds/*.toml.

The broker and the new clients are 2.8.2's, the old consumer is 0.9.0.1's. It meets the format that it does not know behind a proxy
which raises the version of its fetch requests from 1 to 2, so that the broker does not convert.
"""

from __future__ import annotations

import json
import os
import socket
import socketserver
import struct
import subprocess
import threading
from pathlib import Path
from typing import Any, Final, NamedTuple

from conformance.judge import JUDGE
from conformance.raw_requests import produce_batch
from conformance.soaked import Broker
from conformance.tally import Tally
from kafkats.formats import message_set, v1, v2
from kafkats.formats.dispatch import batches
from kafkats.formats.model import Codec, Record, TimestampType

CHECK: Final = "a real client shows what a document says of clients"
VERSION: Final = "2.8.2"
OLD: Final = "0.9.0.1"
SENT: Final = 1_000_000_000_000
"""The CreateTime of what is produced: 2001-09-09."""
SPUTNIK: Final = -386_380_800_000
TOPICS: Final = ("create", "append", "old")
_CLIENT_S: Final = 120
_FETCH: Final = 1
Told = dict[str, Any]


class Seen(NamedTuple):
    """What the clients printed, and what lies on the broker's disk."""

    produced: dict[str, Told]
    """By topic: the time in the metadata and in the callback, and the clock before and after."""
    checks: Told
    """What the producer says of a negative timestamp: its `constructor`, and without it the `producer`."""
    consumed: dict[str, list[Told]]
    """By topic: the records of a consumer."""
    old: Told
    """An old consumer, for which the broker converts."""
    misled: Told
    """The same behind the proxy."""
    compressed: tuple[bytes, bytes]
    """The compressed bytes of a wrapper: as sent, and as stored."""


def conform(tally: Tally, work: Path) -> None:
    """Start a broker, run the clients, and compare what they show with what the documents say."""
    broker = Broker(VERSION, work)
    try:
        broker.start()
        seen = _seen(broker)
    finally:
        broker.close()
    rows = (
        producer_record, consumer_record, record_metadata, callback, kind_is_told, old_consumer,
        negative_published, negative_kept_by_streams, compressed_sent,
    )  # fmt: skip
    for row in rows:
        expected, found = row(seen)
        tally.same(CHECK, VERSION, row.__name__, "shown", expected, found)
    tally.expect(CHECK, VERSION, len(rows))


def producer_record(seen: Seen) -> tuple[object, object]:
    """K32-06: a record is produced with a timestamp, and it is that of the message."""
    return SENT, seen.consumed["create"][0]["timestamp"]


def consumer_record(seen: Seen) -> tuple[object, object]:
    """K32-07: a consumed record has the timestamp of the message, and its type."""
    told = seen.produced["append"]
    found = [
        (r["type"], r["timestamp"]) for t in ("create", "append") for r in seen.consumed[t][:1]
    ]
    return [("CreateTime", SENT), ("LogAppendTime", told["metadata"])], found


def record_metadata(seen: Seen) -> tuple[object, object]:
    """K32-13: the metadata has the timestamp of the message that was appended."""
    return (
        [seen.consumed[topic][0]["timestamp"] for topic in TOPICS],
        [seen.produced[topic]["metadata"] for topic in TOPICS],
    )


def callback(seen: Seen) -> tuple[object, object]:
    """K32-14: a callback gets the response's timestamp, or the message's if the response has none."""
    create, append = seen.produced["create"], seen.produced["append"]
    in_time = append["before"] <= append["callback"] <= append["after"]
    return (SENT, True), (create["callback"], in_time)


def kind_is_told(seen: Seen) -> tuple[object, object]:
    """K32-15: a producer tells CreateTime from LogAppendTime: only the first is its own."""
    found = {topic: told["metadata"] == SENT for topic, told in seen.produced.items()}
    return {"create": True, "append": False, "old": True}, found


def old_consumer(seen: Seen) -> tuple[object, object]:
    """K31-37: an old consumer reads what is converted for it; the new format is an exception."""
    kept = {"key": "key", "value": "value"}
    return (kept, {"error": "java.lang.IndexOutOfBoundsException"}), (seen.old, seen.misled)


def negative_published(seen: Seen) -> tuple[object, object]:
    """K228-12: two checks keep a client from publishing a negative timestamp, which brokers accept."""
    found = tuple("negative" in seen.checks[name] for name in ("constructor", "producer"))
    return (True, True, SPUTNIK), (*found, seen.consumed["create"][-1]["timestamp"])


def negative_kept_by_streams(seen: Seen) -> tuple[object, object]:
    """K228-14: Kafka Streams does not take a record with a negative timestamp."""
    found = [seen.consumed["create"][n]["streams"] for n in (0, -1)]
    return [str(SENT), "StreamsException"], found


def compressed_sent(seen: Seen) -> tuple[object, object]:
    """ENR-30: a message that was compressed before is sent and stored as it is."""
    return seen.compressed


def _seen(broker: Broker) -> Seen:
    _run(VERSION, "client", "topics", broker.port)
    *produced, constructor, producer = _run(VERSION, "client", "produce", broker.port, SENT)
    made = _compressed()
    _append(broker, "old", made, version=2)
    old = Record(0, SPUTNIK, TimestampType.CREATE_TIME, b"key", b"1957")
    _append(broker, "create", _negative(old), version=3)
    with _Proxy(broker.port) as proxy:
        misled = _run(OLD, "old-consumer", proxy.port, "old")[0]
    consumed = _run(VERSION, "client", "consume", broker.port, *TOPICS)
    log = (broker.root / "old-0" / f"{0:020}.log").read_bytes()
    return Seen(
        {told["topic"]: told for told in produced},
        constructor | producer,
        {t: [record for record in consumed if record["topic"] == t] for t in TOPICS},
        _run(OLD, "old-consumer", broker.port, "old")[0],
        misled,
        (_inside(made), _inside(log[list(batches(log))[-1].position :])),
    )


def _append(broker: Broker, topic: str, data: bytes, *, version: int) -> None:
    answer = produce_batch(broker.port, topic, 0, data, version=version)
    if answer.error:
        raise RuntimeError(f"the broker answers {answer} to a produce request to {topic}")


def _compressed() -> bytes:
    """A wrapper that was compressed here, not by a producer of Kafka."""
    records = [Record(n, SENT + n, TimestampType.CREATE_TIME, b"key", b"v" * 40) for n in range(9)]
    return v1.encode_batch(records, codec=Codec.GZIP)


def _inside(data: bytes) -> bytes:
    return bytes(message_set.value_of(data, next(batches(data))))


def _negative(record: Record) -> bytes:
    return v2.encode_batch([record])


def _run(version: str, *words: object) -> list[Told]:
    """Run a client; return the objects that it prints. Raises RuntimeError with what it said."""
    options = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xmx256m"
    done = subprocess.run(
        [str(JUDGE), "--kafka", version, *map(str, words)],
        capture_output=True,
        text=True,
        timeout=_CLIENT_S,
        env=os.environ | {"KAFKATS_JUDGE_JAVA_OPTS": options},
    )
    found = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    if done.returncode or not found:
        raise RuntimeError(f"client {words}: {done.stdout}\n{done.stderr[-3000:]}")
    return found


class _Proxy:
    """Forwards to the broker, with fetch version 2 instead of 1; clients stay with it, because it names itself as the broker."""

    def __init__(self, broker: int) -> None:
        proxy = self

        class Handler(socketserver.BaseRequestHandler):
            def handle(self) -> None:
                with socket.create_connection(("127.0.0.1", broker)) as upstream:
                    while request := _frame(self.request):
                        key, version = struct.unpack_from(">hh", request)
                        if (key, version) == (_FETCH, 1):
                            request = struct.pack(">hh", _FETCH, 2) + request[4:]
                        upstream.sendall(struct.pack(">i", len(request)) + request)
                        answer = _frame(upstream).replace(
                            b"127.0.0.1" + struct.pack(">i", broker),
                            b"127.0.0.1" + struct.pack(">i", proxy.port),
                        )
                        self.request.sendall(struct.pack(">i", len(answer)) + answer)

        class Server(socketserver.ThreadingTCPServer):
            daemon_threads = True

        self._server = Server(("127.0.0.1", 0), Handler)
        self.port: int = self._server.server_address[1]

    def __enter__(self) -> _Proxy:
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *error: object) -> None:
        self._server.shutdown()
        self._server.server_close()


def _frame(connection: socket.socket) -> bytes:
    """Return one request or response without its size, b"" at the end of the connection."""
    head = _exactly(connection, 4)
    return _exactly(connection, struct.unpack(">i", head)[0]) if head else b""


def _exactly(connection: socket.socket, count: int) -> bytes:
    found = b""
    while len(found) < count:
        piece = connection.recv(count - len(found))
        if not piece:
            return b""
        found += piece
    return found
