"""Compiled loops (numba). This module imports nothing: importing numba takes 0.4 s.

walk      one pass over a segment: batch headers, checksums, facts, index points, and the check
          of existing index entries
headers   batch headers as rows of numbers
columns   all records of batches as Arrow column buffers
records   the records inside batches: the deep check
convert   convert a segment to another magic or codec
search    search a segment by timestamp
cells     read the cells of a lookup table
entries   encode index points as the bytes of both indexes
offsets   find offsets that no log can hold
varints   decode and encode varints
memory    load, store and copy by address; call C functions
crc       addresses of checksum functions
jit       compile and cache kernels
"""
