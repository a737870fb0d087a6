"""The dialect `enriched`, played by `kafkats replay` and read by `kafkats dump`: what its text says, value by value."""

from __future__ import annotations

import gzip
import json
import struct
import zlib
from pathlib import Path

import pytest

from kafkats.compression import compress
from kafkats.formats.model import Codec, Record, TimestampType
from kafkats_model.broker.enriched_log import create
from kafkats_model.broker.enriched_log import start as restarted
from kafkats_model.broker.enriched_steps import mirror as mirrored
from kafkats_model.broker.enriched_steps import topic
from kafkats_model.broker.generation import generation
from kafkats_model.errors import Rejected
from kafkats_model.formats import enriched
from kafkats_model.formats.enriched import MessageType, Tags
from model.tests.builders.enriched import (
    BEGIN_MS,
    INDEX,
    LOG,
    Dump,
    Play,
    dump,
    mirror,
    of_kind,
    offsets,
    other_cluster,
    play,
    produce,
    start,
    step,
)
from tests.builders.commands import objects, run

__all__ = ["dump", "play"]

CODECS = ("gzip", "snappy", "lz4")
NULL = b"\xff\xff\xff\xff"


def wrapper(*records: Record, tags: Tags, level: int | None = None) -> str:
    """The hex of a gzip wrapper with any tags; `level`: not compressed as kafkats does it."""
    inner = b"".join(
        enriched.encode_message(r.offset, MessageType.NORMAL, r.key, r.value, Tags())
        for r in records
    )
    value = wrapped(inner) if level is None else gzip.compress(inner, level, mtime=1)
    return enriched.encode_message(0, MessageType.GZIP, None, value, tags).hex()


def wrapped(messages: bytes) -> bytes:
    return compress(Codec.GZIP, messages)


def read_length(sent: str) -> int:
    """The length of the value of a wrapper that has tag 32 alone, and no key."""
    return struct.unpack_from(">i", bytes.fromhex(sent), 26 + 5 + 4)[0]  # type: ignore[no-any-return]


def record(offset: int, key: bytes | None = None) -> Record:
    return Record(offset, -1, TimestampType.CREATE_TIME, key, b"v")


class TestLayout:
    def test_the_bytes_of_a_message(self, play: Play) -> None:
        """Offset first; magic 1; an int32 of seconds; the length of the tags; tag 0 with an int64."""
        done = play(*start(), produce("a", "none"))
        body = struct.pack(">bBi", 1, 0, BEGIN_MS // 1000)
        body += struct.pack(">ibq", 9, 0, BEGIN_MS)
        body += struct.pack(">i1si3s", 1, b"a", 3, b"va0")
        message = struct.pack(">I", zlib.crc32(body)) + body
        assert done.log().read_bytes() == struct.pack(">qi", 0, len(message)) + message

    def test_magic_0_wrappers_lie_at_their_last_message(self, play: Play, dump: Dump) -> None:
        """The current format: an absolute offset in each message, the last one outside."""
        done = play(
            {"do": "broker", "broker": "1", "kafka": "0.8.2"},
            step("create"),
            {**produce("ab"), "version": 0},
            {**produce("abc"), "version": 0},
        )
        batches = of_kind(dump(done.log(), dialect=""), "batch")
        assert [(b["magic"], b["base_offset"], b["last_offset"]) for b in batches] == [
            (0, 0, 1),
            (0, 2, 4),
        ]

    def test_magic_is_1_and_never_guessed(
        self, play: Play, dump: Dump, capsys: pytest.CaptureFixture[str]
    ) -> None:
        done = play(*start(), produce("a", "none"))
        assert [row["magic"] for row in of_kind(dump(done.log()), "batch")] == [1]
        code, out, _ = run(capsys, "dump", done.log(), "--deep")
        rows = objects(out)
        assert of_kind(rows, "batch")[0]["timestamp_type"] == "CREATE_TIME"  # as KIP-32's magic 1
        assert (code, [row.get("key") for row in of_kind(rows, "record")]) != (0, ["a"])

    def test_no_tags_are_length_minus_1_and_8_bytes_more_than_magic_0(
        self, tmp_path: Path, dump: Dump
    ) -> None:
        log = tmp_path / LOG
        log.write_bytes(enriched.encode_message(5, MessageType.NORMAL, b"a", b"1", Tags()))
        assert log.read_bytes()[22:26] == NULL
        (batch,) = of_kind(dump(log), "batch")
        assert batch["size"] == 12 + 14 + 2 + 8
        assert batch["tags"] == {
            "timestamp_ms": -1,
            "messages": -1,
            "honored": True,
            "unkeyed": False,
            "unknown_hex": "",
        }


class TestTypes:
    @pytest.mark.parametrize("codec", CODECS)
    def test_compressed(self, codec: str, play: Play, dump: Dump) -> None:
        done = play(*start(), produce("ab", codec), produce("ab", "none"))
        batches = of_kind(dump(done.log()), "batch")
        assert [batch["type"] for batch in batches] == [codec, "normal", "normal"]
        assert done.log().read_bytes()[17] & 0x0F == 1 + CODECS.index(codec)

    @pytest.mark.parametrize(
        ("control", "number"),
        [
            ("leader-epoch", 8),
            ("start-transaction", 9),
            ("commit-transaction", 10),
            ("abort-transaction", 11),
        ],
    )
    def test_control(self, control: str, number: int, play: Play, dump: Dump) -> None:
        done = play(*start(), produce("a", "none", control=control), produce(".", "none"))
        batches = of_kind(dump(done.log()), "batch")
        assert [(b["type"], b["control"], b["transactional"]) for b in batches] == [
            (control, True, control != "leader-epoch"),
            ("normal", False, False),
        ]
        assert done.log().read_bytes()[17] & 0x0F == number

    def test_control_messages_are_no_shipped_sets(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        script = tmp_path / "script"
        script.write_text(
            '{"do": "broker", "broker": "1", "kafka": "2.8.2"}\n'
            '{"do": "create", "broker": "1", "partition": "t-0"}\n'
            '{"do": "produce", "broker": "1", "partition": "t-0", "version": 3,'
            ' "control": "leader-epoch", "records": [{}]}\n'
        )
        code, _, err = run(capsys, "replay", script, "-o", tmp_path / "out", "--not-for-a-broker")
        assert code == 2
        assert "line 3: control: only the dialect enriched" in err


class TestTags:
    def test_a_broker_stamps_what_it_receives(self, play: Play, dump: Dump) -> None:
        """Tag 0 is the broker's time of receipt, an int64; a mirror's broker writes its own."""
        later = "2024-01-01T01:00:00Z"
        done = play(
            *start(),
            *other_cluster(),
            produce("..", at="2024-01-01T00:00:05.123Z"),
            mirror(at=later),
        )
        assert done.rows[4]["timestamp"] == BEGIN_MS + 5123
        mirrored = done.log("2", partition="m-0")
        for log, time in ((done.log(), BEGIN_MS + 5123), (mirrored, BEGIN_MS + 3_600_000)):
            rows = dump(log)
            assert of_kind(rows, "batch")[0]["tags"]["timestamp_ms"] == time
            assert [row["timestamp"] for row in of_kind(rows, "record")] == [time, time]
            assert of_kind(rows, "batch")[0]["timestamp_type"] == "LOG_APPEND_TIME"

    def test_a_wrapper_counts_its_messages(self, play: Play, dump: Dump) -> None:
        done = play(*start(), produce("abc"), produce("a", "none"))
        batches = of_kind(dump(done.log()), "batch")
        assert [(b["tags"]["messages"], b["count"]) for b in batches] == [(3, 3), (-1, 1)]
        data = done.log().read_bytes()
        assert data[26:40] == struct.pack(">bq", 0, BEGIN_MS) + struct.pack(">bi", 32, 3)

    def test_unknown_tags_are_ignored_and_kept(self, play: Play, dump: Dump) -> None:
        """A broker that does not know tag 7 takes the message, and so does a follower."""
        sent = enriched.encode_message(
            0, MessageType.NORMAL, b"a", b"1", Tags(unknown=b"\x07any bytes")
        )
        done = play(
            *start(),
            *start("2"),
            step("produce", version=1, set=sent.hex()),
            step("replicate", "2", leader="1"),
        )
        assert [row["outcome"] for row in done.rows[-2:]] == ["in place", "as it is"]
        for name in ("1", "2"):
            rows = dump(done.log(name))
            assert of_kind(rows, "batch")[0]["tags"]["unknown_hex"] == b"\x07any bytes".hex()
            assert [row["key"] for row in of_kind(rows, "record")] == ["a"]

    def test_the_tags_can_be_skipped_as_a_whole(self, play: Play, dump: Dump) -> None:
        """Key and value are found behind tags of any length, by tags_length alone."""
        sent = enriched.encode_message(
            0, MessageType.NORMAL, b"key", b"value", Tags(unknown=b"\x07" + bytes(500))
        )
        done = play(*start(), step("produce", version=1, set=sent.hex()))
        (row,) = of_kind(dump(done.log()), "record")
        assert (row["key"], row["value"]) == ("key", "value")

    def test_without_a_necessary_tag(self, play: Play, dump: Dump) -> None:
        """A leader needs tag 32, and rejects; a missing time has a default, and is written."""
        done = play(
            *start(),
            step("produce", version=1, set=wrapper(record(0), record(1), tags=Tags())),
            step("produce", version=1, set=wrapper(record(0), record(1), tags=Tags(messages=2))),
        )
        rejected, taken = done.rows[2:]
        assert rejected["outcome"] == "rejected"
        assert rejected["error"].startswith("INVALID_RECORD: a wrapper whose tag 32")
        assert (taken["outcome"], taken["first_offset"], taken["last_offset"]) == ("in place", 0, 1)

    @pytest.mark.parametrize(
        ("tags", "seconds", "timestamp"),
        [(Tags(), -1, -1), (Tags(), 7, 7000), (Tags(timestamp_ms=8), 7, 8)],
    )
    def test_a_missing_time_has_a_default(
        self, tags: Tags, seconds: int, timestamp: int, tmp_path: Path, dump: Dump
    ) -> None:
        log = tmp_path / LOG
        log.write_bytes(enriched.encode_message(0, MessageType.NORMAL, b"a", b"1", tags, seconds))
        assert [row["timestamp"] for row in of_kind(dump(log), "record")] == [timestamp]

    def test_a_producer_says_when_no_record_has_a_key(self, play: Play, dump: Dump) -> None:
        done = play(*start(), produce(".."), produce(".a"))
        tags = [batch["tags"] for batch in of_kind(dump(done.log()), "batch")]
        assert [tag["unkeyed"] for tag in tags] == [True, False]


class TestOffsets:
    def test_a_wrapper_lies_at_its_first_message(self, play: Play, dump: Dump) -> None:
        done = play(*start(), produce("ab"), produce("cde"))
        rows = dump(done.log())
        assert [(b["base_offset"], b["last_offset"]) for b in of_kind(rows, "batch")] == [
            (0, 1),
            (2, 4),
        ]
        assert offsets(rows) == [0, 1, 2, 3, 4]

    def test_a_leader_writes_the_offset_and_compresses_nothing(
        self, play: Play, dump: Dump
    ) -> None:
        """The value keeps its bytes; only offset, time and checksum are the broker's."""
        sent = wrapper(record(0), record(1), tags=Tags(messages=2), level=1)
        done = play(*start(), *[step("produce", version=1, set=sent)] * 2)
        assert [row["outcome"] for row in done.rows[2:]] == ["in place", "in place"]
        value = bytes.fromhex(sent)[-read_length(sent) :]
        tags = Tags(timestamp_ms=BEGIN_MS, messages=2)
        assert done.log().read_bytes() == b"".join(
            enriched.encode_message(offset, MessageType.GZIP, None, value, tags, BEGIN_MS // 1000)
            for offset in (0, 2)
        )

    def test_a_producer_leaves_the_outer_offset_blank(self, play: Play, dump: Dump) -> None:
        """Its messages count from 0; the leader adds where they begin."""
        sent = wrapper(record(0), record(1), tags=Tags(messages=2))
        assert sent[:16] == "0" * 16
        done = play(*start(), produce("abc"), step("produce", version=1, set=sent))
        assert offsets(dump(done.log())) == [0, 1, 2, 3, 4]

    def test_a_leader_appends_what_it_could_not_open(self, play: Play) -> None:
        """Its offsets come from tag 32: a value that is not gzip is found by its reader only."""
        junk = enriched.encode_message(0, MessageType.GZIP, None, b"junk", Tags(messages=4))
        done = play(
            *start(),
            step("produce", version=1, set=junk.hex()),
            step("produce", version=1, set=junk.hex()),
        )
        assert [(row["outcome"], row["first_offset"]) for row in done.rows[2:]] == [
            ("in place", 0),
            ("in place", 4),
        ]

    def test_only_its_readers_meet_a_wrapper_that_cannot_be_opened(self, play: Play) -> None:
        """Others go on: a follower, a consumer behind it, a start, a truncation, a search."""
        junk = enriched.encode_message(0, MessageType.GZIP, None, b"junk", Tags(messages=4))
        nested = enriched.encode_message(0, MessageType.GZIP, None, wrapped(junk), Tags(messages=1))
        done = play(
            *start(config={"index.interval.bytes": 1}),
            *start("2"),
            step("produce", version=1, set=junk.hex()),
            step("produce", version=1, set=nested.hex()),
            produce("a", at="2024-01-01T00:00:01Z"),
            step("replicate", "2", leader="1"),
            {"do": "restart", "broker": "1", "clean": False},
            step("fetch", version=1, offset=5),
            step("list-offsets", version=1, time=BEGIN_MS + 1),
            step("fetch", version=1, offset=1),
            step("fetch", version=1, offset=4),
            step("truncate", offset=5),
            step("truncate", offset=2),
        )
        good, found, junked, inside, cut, most = done.rows[-6:]
        assert (good["offsets"], found["first_offset"]) == ("5", 5)
        assert junked["error"].startswith("CORRUPT_MESSAGE: ")
        assert inside["error"].startswith("CORRUPT_MESSAGE: a compressed message in a wrapper")
        assert [row["log_end_offset"] for row in (cut, most)] == [5, 0]
        assert done.log("2").stat().st_size > 0

    @pytest.mark.parametrize("given", [(0, 3, 7), (1, 2, 3), (0, 0, 1), (1, 0)])
    def test_a_leader_rejects_holes_that_are_honored(
        self, given: tuple[int, ...], play: Play
    ) -> None:
        """Tag 32 counts the messages: offset 3 or 7 of such a set would be the next set's, too."""
        sets = [
            wrapper(*map(record, given), tags=Tags(messages=len(given), honored=honored))
            for honored in (True, False)
        ]
        done = play(
            *start(),
            *(step("produce", version=1, set=sent) for sent in sets),
            produce("a", "none"),
            step("fetch", version=1, offset=0),
        )
        rejected, counted, plain, fetched = done.rows[2:]
        assert rejected["outcome"] == "rejected" and rejected["log_end_offset"] == 0
        assert rejected["error"].startswith("INVALID_RECORD: the honored offsets in a wrapper")
        assert (counted["outcome"], plain["first_offset"]) == ("in place", len(given))
        assert fetched["offsets"] == " ".join(map(str, range(len(given) + 1)))

    def test_consumers_add_or_count(self, play: Play) -> None:
        """Start + relative offset with the flag, start + number of the message without it."""
        holes = (record(0), record(3), record(4))
        sent = wrapper(*holes, tags=Tags(messages=3, honored=False))
        unhonored = step("produce", "2", version=1, set=sent)
        done = play(
            *start(config={"cleanup.policy": "compact"}),
            *other_cluster(),
            produce("abc"),
            produce("bd"),
            step("compact"),
            step("fetch", version=1, offset=0),
            unhonored | {"partition": "m-0"},
            step("fetch", "2", version=1, offset=0) | {"partition": "m-0"},
        )
        assert [row["offsets"] for row in done.rows if row["do"] == "fetch"] == ["0 2 3 4", "0 1 2"]

    def test_a_fetch_begins_inside_a_wrapper(self, play: Play) -> None:
        done = play(*start(), produce("abcd"), step("fetch", version=1, offset=2))
        assert done.rows[-1]["offsets"] == "2 3"


class TestMirror:
    def test_it_opens_only_wrappers_with_keys(self, play: Play, dump: Dump) -> None:
        done = play(
            *start(),
            *other_cluster(),
            produce(".."),
            produce(".a"),
            produce("."),
            produce("..", "none"),
            mirror(),
        )
        row = done.rows[-1]
        assert (row["outcome"], row["opened"], row["unopened"]) == ("recompressed", 1, 2)
        assert all(("cpu_us" in row) == (row["do"] in {"produce", "mirror"}) for row in done.rows)
        assert row["cpu_us"] > 0
        assert [row["key"] for row in of_kind(dump(done.log("2", partition="m-0")), "record")] == [
            None, None, None, "a", None, None, None,
        ]  # fmt: skip

    def test_unopened_its_offsets_are_counted(self, play: Play, dump: Dump) -> None:
        """The flag is reset, and no byte of the value changes."""
        done = play(
            *start(),
            *other_cluster(),
            produce("x", "none", "2") | {"partition": "m-0"},
            produce("..."),
            mirror(),
            step("fetch", "2", version=1, offset=0) | {"partition": "m-0"},
        )
        assert (done.rows[-2]["opened"], done.rows[-2]["unopened"]) == (0, 1)
        assert done.rows[-1]["offsets"] == "0 1 2 3"
        rows = dump(done.log("2", partition="m-0"))
        assert [b["tags"]["honored"] for b in of_kind(rows, "batch")] == [True, False]
        assert done.log().read_bytes()[-80:] == done.log("2", partition="m-0").read_bytes()[-80:]

    def test_holes_of_the_source_close(self, play: Play) -> None:
        """A leader takes the set from the mirror, and would reject it from its producer."""
        holes = wrapper(record(0), record(3), record(4), tags=Tags(messages=3, unkeyed=True))
        sent = mirrored(bytes.fromhex(holes)).data.hex()
        done = play(
            *start(),
            produce("x", "none"),
            step("produce", version=1, set=sent),
            step("fetch", version=1, offset=0),
        )
        assert done.rows[-1]["offsets"] == "0 1 2 3"

    @pytest.mark.parametrize("key", [None, b"k"])
    def test_what_is_compressed_again_may_be_too_large(self, key: bytes | None, play: Play) -> None:
        """Unopened a set fits where it came from another broker; opened and compressed again it is lost."""
        records = [record(n, key) for n in range(100)]
        sent = wrapper(*records, tags=Tags(messages=100, unkeyed=key is None))
        target = other_cluster()
        target[1]["config"] = {"segment.bytes": len(sent) // 2 + 16}
        done = play(
            *start(),
            *target,
            step("produce", version=1, set=sent),
            produce("a", "none"),
            *(mirror(offset=offset, bytes=1) for offset in (0, 100)),
        )
        first, second = done.rows[-2:]
        assert second["outcome"] == "in place"
        if key is None:
            assert (first["unopened"], second["log_end_offset"]) == (1, 101)
        else:
            assert first["error"].startswith("RECORD_LIST_TOO_LARGE: ")
            assert second["log_end_offset"] == 1, "100 records are lost"

    def test_control_messages_stay_in_their_cluster(self, play: Play) -> None:
        done = play(
            *start(),
            *other_cluster(),
            produce("a", "none", control="leader-epoch"),
            mirror(),
        )
        assert done.rows[-1]["outcome"] == "nothing new"


class TestRefused:
    @pytest.mark.parametrize(
        ("sent", "why", "position"),
        [
            pytest.param("00" * 8, "CORRUPT_MESSAGE", 0, id="cut"),
            pytest.param(
                enriched.encode_message(0, MessageType.NORMAL, b"a", b"1", Tags())[:-1].hex()
                + "ff",
                "CORRUPT_MESSAGE: CRC-32",
                0,
                id="crc",
            ),
        ],
    )
    def test_a_set_that_is_not_whole(self, sent: str, why: str, position: int, play: Play) -> None:
        done = play(*start(), step("produce", version=1, set=sent))
        assert done.rows[-1]["outcome"] == "rejected"
        assert done.rows[-1]["error"].startswith(why)
        assert done.log().stat().st_size == position == 0

    @pytest.mark.parametrize(
        ("steps", "why"),
        [
            ([produce("a") | {"version": 2}], "produce version 2: the dialect enriched has 1"),
            ([step("fetch", version=0, offset=0)], "fetch version 0"),
            ([step("mirror", source="9", source_partition="t-0")], "no broker 9"),
            ([step("produce", version=1, set="zz")], "no hex"),
            ([produce("a", "gzip", control="leader-epoch")], "is not compressed"),
            ([{"do": "restart", "broker": "1", "kafka": "2.8.2"}], "would misread these logs"),
            (
                [{"do": "restart", "broker": "1", "config": {"cleanup.policy": "compact,delete"}}],
                "compacted or cleaned, not both",
            ),
            (
                [{"do": "restart", "broker": "1", "config": {"compression.type": "gzip"}}],
                "the dialect enriched does not play it",
            ),
        ],
    )
    def test_the_script_asks_for_too_much(
        self,
        steps: list[dict[str, object]],
        why: str,
        tmp_path: Path,
        capsys: pytest.CaptureFixture[str],
    ) -> None:
        script = tmp_path / "script"
        script.write_text("".join(json.dumps(one) + "\n" for one in [*start(), *steps]))
        code, _, err = run(capsys, "replay", script, "-o", tmp_path / "out", "--not-for-a-broker")
        assert code == 2
        assert "line 3: " in err
        assert why in err

    def test_brokers_that_shipped_do_not_replicate_it(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        shipped = [
            {"do": "broker", "broker": "2", "kafka": "2.8.2"},
            step("create", "2"),
            step("replicate", "2", leader="1"),
        ]
        script = tmp_path / "script"
        script.write_text("".join(json.dumps(one) + "\n" for one in [*start(), *shipped]))
        code, _, err = run(capsys, "replay", script, "-o", tmp_path / "out", "--not-for-a-broker")
        assert code == 2
        assert "line 5: broker 1 has logs of the dialect enriched" in err


class TestLog:
    def test_the_index_has_offset_time_and_position(self, play: Play, dump: Dump) -> None:
        done = play(
            *start(config={"index.interval.bytes": 100}),
            *(produce("ab", at=f"2024-01-01T00:00:0{n}Z") for n in range(4)),
        )
        entries = dump(done.log(file=INDEX))
        positions = [batch["position"] for batch in of_kind(dump(done.log()), "batch")]
        assert [(e["offset"], e["timestamp"], e["position"]) for e in entries] == [
            (3, BEGIN_MS + 1000, positions[1]),
            (5, BEGIN_MS + 2000, positions[2]),
            (7, BEGIN_MS + 3000, positions[3]),
        ]
        first = done.log(file=INDEX).read_bytes()[:16]
        assert first == struct.pack(">iqi", 3, BEGIN_MS + 1000, positions[1])

    def test_a_segment_rolls_before_an_offset_that_its_index_cannot_hold(
        self, play: Play, dump: Dump
    ) -> None:
        """Only tag 32 says how many offsets a wrapper takes, so a client can take 2^31-1."""
        most = 2**31 - 1
        sent = wrapper(record(0), tags=Tags(messages=most))
        done = play(
            *start(config={"index.interval.bytes": 0}),
            *[step("produce", version=1, set=sent)] * 3,
            produce("a", "none"),
            *start("2", config={"index.interval.bytes": 0}),
            *[step("replicate", "2", leader="1")] * 4,
            step("list-offsets", version=1, time=BEGIN_MS),
        )
        made = [row for row in done.rows if row["do"] == "produce"]
        assert [row["outcome"] for row in made] == ["in place"] * 4
        assert [row["first_offset"] for row in made] == [0, most, 2 * most, 3 * most]
        bases = [0, most, 2 * most]
        for name in ("1", "2"):
            logs = [done.log(name, f"{base:020}.log") for base in bases]
            assert sorted(done.log(name).parent.glob("*.log")) == logs
        entries = dump(done.log(file=f"{2 * most:020}.index"))
        assert [entry["offset"] for entry in entries] == [3 * most]

    def test_a_set_that_no_segment_can_index_is_rejected(self, play: Play) -> None:
        sent = wrapper(record(0), tags=Tags(messages=2**31 - 1))
        done = play(*start(), step("produce", version=1, set=sent * 3), produce("a"))
        assert done.rows[-2]["outcome"] == "rejected"
        assert done.rows[-2]["error"].startswith("INVALID_RECORD: a set with offsets 0 to ")
        assert done.rows[-1]["first_offset"] == 0

    @pytest.mark.parametrize("lie", [2**40, -(2**40)])
    def test_offsets_out_of_range_in_a_wrapper_do_not_move_the_log_end(
        self, lie: int, tmp_path: Path
    ) -> None:
        """A follower appends what a leader would have rejected."""
        rules = generation("enriched")
        log = create(tmp_path / "t-0", topic({"index.interval.bytes": 0}, rules), rules, 0)
        log.append_as_leader(enriched.encode_batch([record(0)]), now_ms=0)
        sent = bytes.fromhex(wrapper(record(lie), tags=Tags(messages=1)))
        (batch,) = enriched.batches(sent)
        log.append_as_follower(enriched.assign(sent, batch, 1), now_ms=0)
        assert log.log_end_offset == 2
        again = restarted(log, log.topic, 0)
        assert again.append_as_leader(enriched.encode_batch([record(0)]), now_ms=0).ends == (2,)

    def test_a_search_by_time(self, play: Play) -> None:
        done = play(
            *start(config={"index.interval.bytes": 100}),
            *(produce("ab", at=f"2024-01-01T00:00:0{n}Z") for n in range(4)),
            *(
                step("list-offsets", version=1, time=time)
                for time in (BEGIN_MS, BEGIN_MS + 1001, BEGIN_MS + 3000, BEGIN_MS + 3001, -1, -2)
            ),
        )
        assert [row["first_offset"] for row in done.rows[-6:]] == [0, 4, 6, -1, 8, 0]

    def test_followers_are_byte_equal(self, play: Play) -> None:
        sets = [produce("ab"), produce("c", "none"), produce("..", "lz4")]
        done = play(*start(), *start("2"), *sets, step("replicate", "2", leader="1"))
        assert done.rows[-1]["last_offset"] == 4
        assert done.log("1").read_bytes() == done.log("2").read_bytes()

    def test_a_follower_rejects_falling_offsets(self, tmp_path: Path) -> None:
        rules = generation("enriched")
        log = create(tmp_path / "t-0", topic({}, rules), rules, 0)
        first, second = (enriched.encode_batch([record(offset)]) for offset in (4, 5))
        with pytest.raises(Rejected, match="OffsetsOutOfOrder: offset 4 follows 5") as e:
            log.append_as_follower(second + first, now_ms=0)
        assert (e.value.position, log.log_end_offset) == (len(second), 0)
        log.append_as_follower(first + second, now_ms=0)
        assert log.log_end_offset == 6

    def test_restarts_and_truncations(self, play: Play, dump: Dump) -> None:
        """A killed broker cuts the message that is not whole; indexes are as before."""
        done = play(
            *start(config={"index.interval.bytes": 50}),
            *(produce("ab") for _ in range(3)),
            {"do": "restart", "broker": "1"},
            {"do": "restart", "broker": "1", "clean": False, "lose": 3},
            step("truncate", offset=3),
            produce("z", "none"),
            step("roll"),
            produce("y", "none"),
            step("fetch", version=1, offset=2),
            step("fetch", version=1, offset=3),
        )
        ends = [row["log_end_offset"] for row in done.rows if "log_end_offset" in row]
        assert ends == [0, 2, 4, 6, 2, 3, 3, 4, 4, 4]
        assert [row["offsets"] for row in done.rows[-2:]] == ["2", "3"]
        assert offsets(dump(done.log())) == [0, 1, 2]
        assert len(dump(done.log(file=INDEX))) == 1

    def test_same_script_same_bytes(self, play: Play, tmp_path: Path) -> None:
        steps = [*start(), produce("ab"), produce("c", "none"), step("retain")]
        first = play(*steps).output.rename(tmp_path / "first")
        second = play(*steps).output
        files = sorted(p.relative_to(first) for p in first.rglob("*") if p.is_file())
        assert files == sorted(p.relative_to(second) for p in second.rglob("*") if p.is_file())
        assert all((first / f).read_bytes() == (second / f).read_bytes() for f in files)
