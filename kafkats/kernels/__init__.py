"""Compiled loops (numba). No module here imports numba before it compiles something.

What kernels do:

walk      one pass over a segment: batch headers, checksums, facts, index points, and the check
          of existing index entries; `walk_state` names the slots
headers   batch headers as rows of numbers
columns   all records of batches as Arrow column buffers; `strings` appends to a buffer, `ahead`
          decompresses the next batches
records   the records inside batches: the deep check
convert   convert a segment to another magic or codec; `convert_bodies` rewrites the records of a
          batch, `convert_state` names the slots
search    search a segment by timestamp
cells     read the cells of a lookup table

What they share:

layout    where the fields of a batch are
batch     read frames, batch headers, messages and records
lz4       LZ4 frames as Kafka writes them
snappy    snappy in the framing of snappy-java
varints   decode and encode varints
memory    load, store and copy by address; call C functions
crc       addresses of checksum functions
jit       declare kernels, and compile them with numba
machine   machine code of the kernels that Python calls; `emit` compiles, `digest` names it
numbers   types of the arguments

A kernel is one loop that keeps its state in registers. So kernels may have more lines than other
functions.
"""
