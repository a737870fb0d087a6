"""What messages of the enriched format take beside magic 0: computed, and measured on a real log."""

from __future__ import annotations

import tarfile
from pathlib import Path
from typing import Final, NamedTuple

from bench.seeds.estimates import Estimate
from kafkats.formats import dispatch, v0
from kafkats.formats.build import Target
from kafkats.formats.model import Codec, Record, TimestampType
from kafkats.paths import LOG
from kafkats_model.formats import enriched
from kafkats_model.formats.enriched import MessageType, Tags
from kafkats_model.formats.enriched_convert import convert_batch

REAL: Final = Path(__file__).parents[2] / "tests/real-logs/matrix-0.8.2.2-v0/data.tar.xz"
_ITEM: Final = "ENR-21"
_NOW_MS: Final = 1_600_000_000_000
_TO: Final = Target(enriched.MAGIC, dialect="enriched")


class Sizes(NamedTuple):
    """Messages, and their bytes in magic 0 and in the enriched format."""

    messages: int
    before: int
    after: int

    @property
    def each(self) -> float:
        """Bytes more per message."""
        return (self.after - self.before) / self.messages


def converted(path: Path = REAL) -> dict[str, Sizes]:
    """Return the uncompressed messages and the wrappers of a real broker's logs, converted."""
    found = dict.fromkeys(("messages", "wrappers"), Sizes(0, 0, 0))
    with tarfile.open(path) as tar:
        for member in tar:
            file = tar.extractfile(member) if member.name.endswith(LOG) else None
            data = file.read() if file else b""
            for batch in dispatch.batches(data):
                kind = "messages" if batch.codec == Codec.NONE else "wrappers"
                made = convert_batch(data, batch, _TO)
                more = Sizes(made.records, batch.size, len(made.data))
                found[kind] = Sizes(*map(sum, zip(found[kind], more, strict=True)))
    return found


def enriched_sizes() -> list[Estimate]:
    """Return the proposal's claim, and what the claim leaves out."""
    plain = Record(0, -1, TimestampType.NONE, b"k", b"v")
    old = len(v0.encode_batch([plain]))
    stamped = enriched.encode_message(
        0, MessageType.NORMAL, b"k", b"v", Tags(timestamp_ms=_NOW_MS), _NOW_MS // 1000
    )
    real = converted()
    name = REAL.parent.name
    return [
        Estimate(
            _ITEM,
            "bytes of an enriched message more than in magic 0, at best",
            "8 bytes",
            "timestamp int32 + length of the tags int32 = 8 bytes",
            f"{real['messages'].each:.0f} bytes each in {real['messages'].messages} messages of"
            f" {name}",
            "equal: what was written before has no time, so there are no tags",
        ),
        Estimate(
            _ITEM,
            "the same, as a broker writes it",
            "not stated",
            "8 + tag 0: id int8 and time int64 = 17 bytes",
            f"{len(stamped) - old} bytes",
            "the best case lacks the time that the proposal is for; KIP-32's magic 1 takes 8 bytes",
        ),
        Estimate(
            _ITEM,
            "the same, in wrappers",
            "not stated",
            "8 bytes before compression, and 8 + 5 of tag 32 per wrapper",
            f"about {real['wrappers'].each:.0f} byte each in {real['wrappers'].messages} messages of"
            f" {name}",
            "equal headers compress well",
        ),
    ]
