"""Loops at memory speed (numba). Nothing is imported here: numba costs 0.4 s, and not every command needs it.

walk      one pass over a segment: batch headers, checksums, facts, what both indexes need, truth of existing entries
entries   index points to the bytes of both indexes
records   the records inside batches: the deep check
convert   a segment in another magic or codec
offsets   offsets that no log can hold
crc       checksums for the kernels, by address
jit       how kernels are compiled and cached
"""
