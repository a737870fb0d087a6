"""Which logs prove the dialect `enriched`."""

from __future__ import annotations

from hypothesis import assume, given
from hypothesis import strategies as st

from kafkats.formats import v0, v1, v2
from kafkats.formats.model import Codec, Record, TimestampType
from kafkats.plans.dialects import are_enriched
from kafkats_model.formats import enriched
from kafkats_model.formats.enriched import MessageType, Tags

CODECS = st.sampled_from([Codec.NONE, Codec.GZIP, Codec.LZ4])
CONTENT = st.none() | st.binary(max_size=40)
TAGS = st.builds(
    Tags,
    timestamp_ms=st.integers(0, 2**41),
    messages=st.integers(-1, 5),
    honored=st.booleans(),
    unkeyed=st.booleans(),
    unknown=st.sampled_from([b"", b"\x07x"]),
)


@st.composite
def records(draw: st.DrawFn) -> list[Record]:
    return [
        Record(
            number,
            draw(st.integers(-1, 2**63 - 1)),
            TimestampType.CREATE_TIME,
            draw(CONTENT),
            draw(CONTENT),
        )
        for number in range(draw(st.integers(1, 4)))
    ]


@given(records(), CODECS)
def test_what_shipped_proves_nothing(sent: list[Record], codec: Codec) -> None:
    for layout in (v0, v1):
        assert not are_enriched(layout.encode_batch(sent, codec=codec))
    timed = [one._replace(timestamp=abs(one.timestamp) >> 20) for one in sent]
    assert not are_enriched(v2.encode_batch(timed, codec=codec))


def fits_what_shipped(message: bytes) -> bool:
    """By chance, key and value of the layout that shipped fill the message too."""
    at = 26
    for _ in range(2):
        at += 4 + max(int.from_bytes(message[at : at + 4], "big", signed=True), 0)
    return at == len(message)


@given(TAGS, CONTENT, CONTENT, st.integers(0, 3))
def test_a_message_with_tags_does(
    tags: Tags, key: bytes | None, value: bytes | None, before: int
) -> None:
    """Behind messages without tags, which fit both."""
    plain = enriched.encode_message(0, MessageType.NORMAL, key, value, Tags()) * before
    assert not are_enriched(plain)
    message = enriched.encode_message(1, MessageType.NORMAL, key, value, tags)
    assume(not fits_what_shipped(message))
    log = plain + message
    assert are_enriched(log)
    damaged = bytearray(log)
    damaged[len(plain) + 12] ^= 1  # its checksum
    assert not are_enriched(damaged)
    assert not are_enriched(log[:-1])


def test_other_bytes_do_not() -> None:
    for data in (b"", b"\0" * 100, b"\xff" * 100):
        assert not are_enriched(data)
