"""Bytes <-> batches <-> records, written to be read: the reference that the kernels are held to.

framing       where one frame ends and the next begins
v0 v1 v2      siblings: decode_batch, check_crc, decode_records, first_offset, encode_batch
message_set   what v0 and v1 share
control       the records of transaction markers
dispatch      all magics: batches, records, first_offset
model         Batch, Record, Header, Codec, TimestampType
enriched      a magic 1 that never shipped, for who names it
convert       a log in another magic or codec; with build, losses, and the rules only compared with: produce, fetch, kip31
"""
