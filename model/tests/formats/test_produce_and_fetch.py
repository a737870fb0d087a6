"""The rules that are only compared with: a leader's (produce) and an old consumer's (fetch)."""

from __future__ import annotations

import pytest

from kafkats.compression import compress
from kafkats.errors import CorruptBatch, NotConvertible
from kafkats.formats import dispatch, v0, v1, v2
from kafkats.formats.build import Target
from kafkats.formats.control import ControlType, encode_end_marker
from kafkats.formats.model import Batch, Codec, Header, Record, TimestampType
from kafkats_model.formats.fetch import fetch
from kafkats_model.formats.produce import produce
from tests.formats.logs import NULL, nullable, raw_message

T = 1700000000000
NONE, CREATE, APPEND = TimestampType.NONE, TimestampType.CREATE_TIME, TimestampType.LOG_APPEND_TIME
RECORDS = [Record(100, T + 5, CREATE, b"k0", b"v0"), Record(101, T, CREATE, b"k1", b"v1")]
SENT = [r._replace(offset=i) for i, r in enumerate(RECORDS)]
"""As a producer numbers them."""

# What Kafka 4.1.1's own classes wrote.
A1_V0 = "0000000000000064000000128697724c0000000000026b3000000002763000000000000000650000001257e7496e0000000000026b31000000027631"
A1_V1 = "00000000000000640000001a6985e25301000000018bcfe56805000000026b3000000002763000000000000000650000001aa5da6a6201000000018bcfe56800000000026b31000000027631"
A1_V1_TIMELESS = "00000000000000640000001a0b430e730100ffffffffffffffff000000026b3000000002763000000000000000650000001ada3335510100ffffffffffffffff000000026b31000000027631"
A2 = "0000000000000064000000470000000702170f2c710000000000010000018bcfe568050000018bcfe56805ffffffffffffffffffffffffffff0000000214000000046b300476300014000902046b3104763100"
A2_TIMELESS = "000000000000006400000047000000070279f4ae59000000000001ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff0000000214000000046b300476300014000002046b3104763100"
A3_V0 = "000000000000006500000051715c72310003ffffffff0000004304224d1860401a34000000120001009164000000128697724c0f0080026b300000000276060000020010651e004057e7496e0d00a000026b3100000002763100000000"
A3_V1 = "0000000000000065000000640f48e67f01030000018bcfe56805ffffffff0000004e04224d186040823f00000016000100f0061a6985e25301000000018bcfe56805000000026b30060010760600000200001d00501aa5da6a62090001260000160090026b3100000002763100000000"
A3_V2 = "00000000000000640000005600000007029df087030003000000010000018bcfe568050000018bcfe56805ffffffffffffffffffffffffffff0000000204224d186040821600008014000000046b300476300014000902046b310476310000000000"
A4 = "0000000000000033000000539f3c807201090000018bcfe56800ffffffff0000003d1f8b08000000000000ff63608003a9c0880833460e0606c6eef34f3340224cd90620b2cc00aa8211a4aa412359044d952158952100d6b4271e4c000000"

PLAIN_V0, PLAIN_V1, PLAIN_V2 = v0.encode_batch(SENT), v1.encode_batch(SENT), v2.encode_batch(SENT)


def appended(
    log: bytes,
    target: Target,
    offset: int = 100,
    kind: TimestampType = CREATE,
    now_ms: int = T,
    epoch: int = 7,
) -> bytes:
    return produce(
        log, target, timestamp_type=kind, now_ms=now_ms, offset=offset, leader_epoch=epoch
    )


def only(log: bytes) -> Batch:
    (batch,) = dispatch.batches(log)
    return batch


def only_magic(log: bytes) -> int:
    (magic,) = {batch.magic for batch in dispatch.batches(log)}
    return magic


class TestProduce:
    @pytest.mark.parametrize(
        ("sent", "target", "log"),
        [
            pytest.param(PLAIN_V0, Target(0), A1_V0, id="v0"),
            pytest.param(PLAIN_V1, Target(1), A1_V1, id="v1"),
            pytest.param(PLAIN_V2, Target(2), A2, id="v2"),
            pytest.param(PLAIN_V0, Target(1), A1_V1_TIMELESS, id="v0-v1"),
            pytest.param(PLAIN_V0, Target(2), A2_TIMELESS, id="v0-v2 merges"),
            pytest.param(PLAIN_V1, Target(0), A1_V0, id="v1-v0"),
            pytest.param(PLAIN_V1, Target(2), A2, id="v1-v2 merges"),
            pytest.param(PLAIN_V2, Target(0), A1_V0, id="v2-v0 splits"),
            pytest.param(PLAIN_V2, Target(1), A1_V1, id="v2-v1 splits"),
            pytest.param(PLAIN_V0, Target(0, Codec.LZ4), A3_V0, id="v0-v0 lz4"),
            pytest.param(PLAIN_V1, Target(1, Codec.LZ4), A3_V1, id="v1-v1 lz4"),
            pytest.param(PLAIN_V1, Target(2, Codec.LZ4), A3_V2, id="v1-v2 lz4"),
            pytest.param(
                v0.encode_batch(SENT, codec=Codec.LZ4), Target(0), A3_V0, id="v0 lz4 is built anew"
            ),
            pytest.param(
                v1.encode_batch(SENT, codec=Codec.LZ4), Target(1), A3_V1, id="v1 lz4 in place"
            ),
            pytest.param(
                v2.encode_batch(SENT, codec=Codec.LZ4), Target(2), A3_V2, id="v2 lz4 in place"
            ),
            pytest.param(
                v1.encode_batch(SENT, codec=Codec.GZIP),
                Target(2, Codec.NONE),
                A2,
                id="v1 gzip-v2 none",
            ),
            pytest.param(v1.encode_batch(SENT, codec=Codec.LZ4), Target(2), A3_V2, id="v1 lz4-v2"),
            pytest.param(b"", Target(2), "", id="nothing"),
        ],
    )
    def test_the_bytes_of_kafka(self, sent: bytes, target: Target, log: str) -> None:
        assert appended(sent, target).hex() == log

    def test_log_append_time_of_a_rebuilt_wrapper_is_in_its_messages(self) -> None:
        assert appended(v1.encode_batch(SENT), Target(1, Codec.GZIP), 50, APPEND).hex() == A4

    def test_log_append_time_in_place_leaves_the_messages(self) -> None:
        stamped = v1.encode_batch(
            RECORDS, codec=Codec.LZ4, log_append_time=T + 99, stamp_inner=False
        )
        sent = v1.encode_batch(SENT, codec=Codec.LZ4)
        assert appended(sent, Target(1), kind=APPEND, now_ms=T + 99) == stamped

    def test_log_append_time_of_magic_2_keeps_the_producers_times(self) -> None:
        stamped = v2.encode_batch(RECORDS, log_append_time=T + 99, leader_epoch=7)
        assert appended(PLAIN_V2, Target(2), kind=APPEND, now_ms=T + 99) == stamped
        assert appended(PLAIN_V1, Target(2), kind=APPEND, now_ms=T + 99) == stamped

    def test_holes_are_closed(self) -> None:
        holes = [SENT[0], SENT[1]._replace(offset=5)]
        for layout in (v1, v2):
            assert appended(
                layout.encode_batch(holes, codec=Codec.LZ4), Target(layout.MAGIC)
            ) == appended(layout.encode_batch(SENT, codec=Codec.LZ4), Target(layout.MAGIC))

    def test_a_lying_maximum_is_corrected(self) -> None:
        assert appended(v2.encode_batch(SENT, max_timestamp=5), Target(2)).hex() == A2

    def test_negative_timestamps_of_plain_v1_become_none(self) -> None:
        # Every broker since 0.11 did so: the maximum of a message starts at -1 and is written into it.
        odd = v1.encode_batch([SENT[0]._replace(timestamp=-5000)])
        assert appended(odd, Target(1)) == v1.encode_batch([RECORDS[0]._replace(timestamp=-1)])
        assert dispatch.records(odd, only(odd))[0].timestamp == -5000

    def test_the_producer_is_kept(self) -> None:
        sent = v2.encode_batch(
            SENT, producer_id=7, producer_epoch=2, base_sequence=11, transactional=True
        )
        kept = v2.encode_batch(
            RECORDS,
            codec=Codec.GZIP,
            leader_epoch=7,
            producer_id=7,
            producer_epoch=2,
            base_sequence=11,
            transactional=True,
        )
        assert appended(sent, Target(2, Codec.GZIP)) == kept

    def test_a_marker_is_not_compressed(self) -> None:
        record = Record(0, T, CREATE, *encode_end_marker(ControlType.COMMIT, 9))
        fields = {"transactional": True, "control": True, "producer_id": 7, "producer_epoch": 2}
        sent = v2.encode_batch([record], **fields)
        kept = v2.encode_batch([record._replace(offset=100)], leader_epoch=7, **fields)
        assert appended(sent, Target(2, Codec.LZ4)) == kept

    @pytest.mark.parametrize(
        ("sent", "target", "why"),
        [
            pytest.param(PLAIN_V2 * 2, Target(2), "2 batches", id="two batches"),
            pytest.param(v1.encode_batch(SENT, codec=Codec.LZ4) * 2, Target(1), "2 batches", id="two wrappers"),
            pytest.param(PLAIN_V0 + PLAIN_V1, Target(2), "different magic", id="two magics"),
            pytest.param(v2.encode_batch(SENT, codec=Codec.ZSTD), Target(1), "zstd", id="zstd down"),
            pytest.param(PLAIN_V1, Target(1, Codec.ZSTD), "zstd", id="zstd wanted"),
            pytest.param(v2.encode_batch(SENT, producer_id=0), Target(1), "producer id", id="producer"),
            pytest.param(v2.encode_batch(SENT, transactional=True), Target(0), "transaction", id="transaction"),
            pytest.param(
                v2.encode_batch([SENT[0]._replace(headers=(Header("h", None),))]), Target(1), "headers", id="headers"
            ),
            pytest.param(v2.encode_batch([], base_offset=0, last_offset=0), Target(2), "empty", id="empty"),
            pytest.param(
                raw_message(1, 1, attributes=1, value=nullable(compress(Codec.GZIP, PLAIN_V0))),
                Target(2), "another magic", id="magic 0 in magic 1",
            ),
        ],
    )  # fmt: skip
    def test_refused(self, sent: bytes, target: Target, why: str) -> None:
        with pytest.raises(NotConvertible, match=why):
            appended(sent, target)

    @pytest.mark.parametrize("sent", [PLAIN_V0, PLAIN_V1, PLAIN_V2], ids=["v0", "v1", "v2"])
    def test_an_offset_that_does_not_fit(self, sent: bytes) -> None:
        for target in (Target(only_magic(sent)), Target(only_magic(sent), Codec.GZIP)):
            with pytest.raises(NotConvertible):
                appended(sent, target, 2**63)

    def test_corrupt(self) -> None:
        with pytest.raises(CorruptBatch):
            appended(raw_message(1, 1, attributes=1, value=NULL), Target(2))


class TestFetch:
    def test_of_an_uncompressed_batch_only_what_was_asked_for(self) -> None:
        assert fetch(bytes.fromhex(A2), 1).hex() == A1_V1
        assert fetch(bytes.fromhex(A2), 0, first_offset=101) == v0.encode_batch(RECORDS[1:])
        assert fetch(bytes.fromhex(A2), 1, first_offset=102) == b""
        assert fetch(bytes.fromhex(A1_V1), 0, first_offset=101) == v0.encode_batch(RECORDS[1:])

    def test_a_compressed_one_whole(self) -> None:
        assert fetch(bytes.fromhex(A3_V2), 1, first_offset=101).hex() == A3_V1
        assert fetch(bytes.fromhex(A3_V2), 0, first_offset=101).hex() == A3_V0

    def test_an_older_magic_as_it_lies(self) -> None:
        for log in (A1_V0, A3_V0):
            assert fetch(bytes.fromhex(log), 1, first_offset=101).hex() == log

    def test_control_batches_and_empty_ones_vanish_headers_too(self) -> None:
        record = Record(42, T, CREATE, *encode_end_marker(ControlType.ABORT, 9))
        log = v2.encode_batch([record], control=True) + v2.encode_batch(
            [], base_offset=43, last_offset=44
        )
        assert fetch(log, 1) == b""
        assert fetch(log, 2) == log
        headed = [r._replace(headers=(Header("h", b"x"),)) for r in RECORDS]
        assert fetch(v2.encode_batch(headed), 1).hex() == A1_V1

    @pytest.mark.parametrize("magic", [0, 1])
    def test_zstd_is_refused(self, magic: int) -> None:
        inner = nullable(compress(Codec.ZSTD, PLAIN_V1))
        for bad in (
            v2.encode_batch(RECORDS, codec=Codec.ZSTD),
            raw_message(101, 1, attributes=4, value=inner),
        ):
            with pytest.raises(NotConvertible, match="zstd") as caught:
                fetch(bytes.fromhex(A1_V0) + bad, magic)
            assert caught.value.position == len(A1_V0) // 2
