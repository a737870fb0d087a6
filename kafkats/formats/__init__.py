"""Decode and encode batches and records: the readable reference for the kernels.

Tests compare the kernels (kafkats/kernels) with this package.

    framing       split a file or a message set into frames
    v0 v1 v2      one per magic: decode_batch, check_crc, decode_records, first_offset, encode_batch
    message_set   the code that v0 and v1 share
    control       control records, such as transaction markers
    dispatch      batches, records and first_offset for every magic
    model         Batch, Record, Header, Codec, TimestampType
    convert       convert a log to another magic or codec, with build and losses
    versions      the formats that versions of requests carry
"""
