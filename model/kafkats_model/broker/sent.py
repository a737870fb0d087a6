"""The batches of a stored log as message sets of producers, to send them again."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from kafkats.errors import BadInput, CorruptBatch, UsageError, storage
from kafkats.findings import KINDS
from kafkats.formats import v2
from kafkats.formats.framing import frames
from kafkats.formats.message_set import ATTRIBUTES_AT
from kafkats.formats.model import Codec, codec_of
from kafkats.primitives import INT64


def sets_of_log(path: Path, set_bytes: int) -> tuple[NDArray[np.uint8], list[int]]:
    """Return the content of a .log as message sets, and the ends of the sets in bytes.

    A compressed batch and one of magic 2 is a set, with offset 0. Other messages of one magic form
    sets of up to `set_bytes`, at least one message. Nothing else is changed. Raises UsageError
    for a file that does not exist, CorruptBatch with the position for a size or a magic that no log
    has, and for an incomplete batch at the end; StorageFailed.
    """
    with storage(path, "reading"):
        if not path.exists():
            raise UsageError("there is no such .log file", path=path)
        if not path.is_file():
            raise BadInput("it is no regular file", path=path)
        data = np.fromfile(path, np.uint8)
    content, ends = data.data, list[int]()
    begin, magic, end = 0, -1, 0
    try:
        for frame in frames(content):
            codec = codec_of(content[frame.position + ATTRIBUTES_AT])
            alone = frame.magic == v2.MAGIC or codec != Codec.NONE
            end = frame.position + frame.size
            other = alone or frame.magic != magic or end - begin > set_bytes
            if other and frame.position > begin:
                ends.append(frame.position)
                begin = frame.position
            magic = -1 if alone else frame.magic
            if alone:
                INT64.pack_into(content, frame.position, 0)
    except CorruptBatch as e:
        raise CorruptBatch(e.reason, path=path, position=e.position) from e
    if end < len(data):
        raise CorruptBatch(KINDS["torn-tail"][1], path=path, position=end)
    return data, [*ends, end] if end > begin else ends
