"""Compress and decompress with Kafka's codecs, and Kafka's checksums.

codec        compress and decompress by the codec of a batch
gzip snappy lz4 zstd    the framing of each codec, as Kafka writes and accepts it
checksums    CRC-32 (magic 0 and 1) and CRC-32C (magic 2)
"""

from kafkats.compression.codec import Codec, compress, decompress
from kafkats.compression.limit import MAX_OUTPUT_BYTES

__all__ = ["MAX_OUTPUT_BYTES", "Codec", "compress", "decompress"]
