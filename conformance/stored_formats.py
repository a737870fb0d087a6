"""A real broker, Kafka 4.3.1, on stored batches of magic 0, 1 and 2 that nobody converted.

The root is that of a KRaft broker which adopted the partitions of a rolling upgrade from 0.9 to 2.8. The broker starts three times: after a
clean stop, without the marker of one (it recovers every log), and once more to append. Each time Kafka's own consumer reads everything.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final, NamedTuple

from conformance.alarms import CHECK, quiet_tally
from conformance.broker import CASE, ORIGIN, VERSION, jars, java, running
from conformance.migrated import as_recorded
from conformance.tally import Tally
from kafkats import paths
from kafkats.formats import dispatch
from tests.golden import case, is_segment, partitions

CLIENT: Final = Path(__file__).parent / "recipes" / "java" / "GoldenClient.java"
SERVED: Final = "a real broker serves what is stored in magic {}"
WHOLE: Final = "a real broker serves all records of magic 0, 1 and 2"
ANSWERED: Final = "a real broker answers searches by time in magic 0, 1 and 2"
KEPT: Final = "a real broker leaves stored batches as they are"
APPENDED: Final = "a real broker appends magic 2 behind them"
STARTS: Final = ("a start after a clean stop", "a start after an unclean stop", "a start to append")
Records = dict[str, list[tuple[object, ...]]]
"""Partition -> its records as a consumer got them."""
Magics = dict[str, dict[int, int]]
"""Partition -> last offset of each stored batch -> its magic, in the order of the log."""


def conform(tally: Tally, work: Path) -> None:
    """Start the broker three times on the unconverted root, and compare."""
    one, state, label = case(CASE[0]), *CASE[1:]
    root = work / "root"
    root.mkdir()
    one.unpack(state, root)
    stored = _logs(root)
    magics = {name: _magics(log) for name, log in stored.items()}
    origins = _records(one.records(label))
    # Compacted topics had not been read yet; they hold what their origins hold.
    recorded = {name: origins[name.removeprefix("compact-")] for name in stored}
    for start in STARTS:
        if "unclean" in start:
            (root / paths.CLEAN_SHUTDOWN).unlink()
        with running(root, work) as (port, _):
            client = _Client(port, work)
            read = client.read(magics)
            _compare_records(start, read, recorded, magics, tally)
            _compare_answers(start, client, tally)
            if start == STARTS[-1]:
                client.append(recorded)
        _compare_logs(start, stored, _logs(root), tally)
    _test_alarms(read, recorded, magics, tally)
    for magic in (0, 1, 2):
        tally.expect(SERVED.format(magic), VERSION, 300)
    tally.expect(ANSWERED, VERSION, 1000)
    tally.expect(APPENDED, VERSION, len(stored))


class _Client(NamedTuple):
    """Kafka's own producer and consumer, of the broker's release."""

    port: int
    work: Path

    def read(self, magics: Magics) -> Records:
        """Every record of each partition, up to the end of its last batch."""
        out = [self.work / f"read-{name}.jsonl" for name in magics]
        self._tell(
            f"read\t{name.removesuffix('-0')}\t0\t{max(ends) + 1}\t{path}"
            for (name, ends), path in zip(magics.items(), out, strict=True)
        )
        return _records(json.loads(line) for path in out for line in path.open())

    def times(self, asked: dict[str, list[int]]) -> dict[str, list[Any]]:
        """Return the answers of offsetsForTimes to each time, by partition."""
        paths_of = {
            name: (self.work / f"{name}.ask", self.work / f"{name}.found") for name in asked
        }
        for name, times in asked.items():
            paths_of[name][0].write_text("".join(f"{time}\n" for time in times))
        self._tell(
            f"times\t{name.removesuffix('-0')}\t0\t{ask}\t{found}"
            for name, (ask, found) in paths_of.items()
        )
        return {
            name: [json.loads(line)[1] for line in found.open()]
            for name, (_, found) in paths_of.items()
        }

    def append(self, names: Iterable[str]) -> None:
        """One record to each partition."""
        sent = [f"send\tnew\t{name.removesuffix('-0')}\t0\t-\t6e\t6e" for name in names]
        self._tell(["open\tnew\tacks=all", *sent, "flush\tnew", "close\tnew"])

    def _tell(self, lines: Iterable[str]) -> None:
        """Run the client over commands. Raises RuntimeError with what it said."""
        told = "".join(f"{line}\n" for line in lines)
        command = [java(), "-cp", f"{jars()}/*", str(CLIENT), f"127.0.0.1:{self.port}"]
        done = subprocess.run(command, input=told, capture_output=True, text=True)
        answers = done.stdout.splitlines()
        if len(answers) != told.count("\n") or any("ERR" in a or "gave up" in a for a in answers):
            raise RuntimeError(f"{answers}\n{done.stderr[-3000:]}")


def _compare_records(
    start: str, read: Records, recorded: Records, magics: Magics, tally: Tally
) -> None:
    """Every record against the recorded one, counted by the magic of the batch that stores it."""
    for name, theirs in recorded.items():
        ours, what = read.get(name, []), f"{name}, {start}"
        tally.same(WHOLE, VERSION, CASE[0], what, len(ours), len(theirs))
        for our, their in zip(ours, theirs, strict=False):
            magic = next(m for end, m in magics[name].items() if end >= int(str(their[0])))
            tally.same(SERVED.format(magic), VERSION, CASE[0], what, our, their)


def _test_alarms(read: Records, recorded: Records, magics: Magics, tally: Tally) -> None:
    """A record that is missing, and one with another offset, must be reported."""
    name, records = next(iter(read.items()))
    for what, wrong in (
        ("a missing record", records[:-1]),
        ("a wrong offset", [(-1, *records[0][1:]), *records[1:]]),
    ):
        quiet = quiet_tally()
        _compare_records("self-test", {**read, name: wrong}, recorded, magics, quiet)
        tally.same(CHECK, VERSION, CASE[0], f"{what} in {name}", len(quiet.differences), 1)


def _compare_answers(start: str, client: _Client, tally: Tally) -> None:
    """offsetsForTimes, as the last broker of the upgrade answered it."""
    recorded = {
        one["tp"]: one["answers"]
        for one in case(ORIGIN).times()
        if one["api"].startswith("Java consumer")
    }
    found = client.times({name: [time for time, _ in recorded[name]] for name in recorded})
    for name, answers in recorded.items():
        for (time, theirs), ours in zip(answers, found[name], strict=True):
            what = f"{time} in {name}, {start}"
            tally.same(ANSWERED, VERSION, CASE[0], what, _hit(ours), _hit(theirs))


def _hit(answer: dict[str, Any] | None) -> tuple[Any, Any] | None:
    return answer and (answer.get("offset"), answer.get("timestamp"))


def _compare_logs(
    start: str, stored: dict[str, bytes], now: dict[str, bytes], tally: Tally
) -> None:
    """The bytes of all logs; after the last start they are followed by one batch of magic 2."""
    for name, before in stored.items():
        tally.same(
            KEPT, VERSION, CASE[0], f"{name}, {start}", now[name][: len(before)] == before, True
        )
        added = list(_magics(now[name][len(before) :]).values())
        check = APPENDED if start == STARTS[-1] else KEPT
        tally.same(check, VERSION, CASE[0], f"{name}, {start}", added, [2] * (check == APPENDED))


def _logs(root: Path) -> dict[str, bytes]:
    """The bytes of each partition's logs, one segment after the other."""
    return {
        path.name: b"".join(log.read_bytes() for log in sorted(filter(is_segment, path.iterdir())))
        for path in partitions(root)
        if not path.name.startswith("__")
    }


def _magics(log: bytes) -> dict[int, int]:
    return {batch.last_offset: batch.magic for batch in dispatch.batches(log)}


def _records(said: Iterable[dict[str, Any]]) -> Records:
    found: Records = {}
    for one in said:
        magic = 0 if one["timestamp_type"] == "NoTimestampType" else 2
        found.setdefault(one["tp"], []).append(as_recorded(one, magic))
    return found
