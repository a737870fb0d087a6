"""kafkats keeps Kafka log directories correct by time.

The layers, from the lowest; nothing imports upwards:

    errors generations paths            used by every module
    primitives checksums compression    bytes, CRCs, codecs
    formats/                            bytes <-> batches, the readable reference
    kernels/                            the same work on whole files at memory speed
    segment/  index/                    one .log file; its .index and .timeindex
    logdir/                             a partition directory, a log.dirs root, and their changes
    config plan run report              what operations exchange
    operations/                         one module or package per verb
    cli                                 the command line

Importing this package imports nothing else, so that an Airflow DAG file stays cheap to parse.
"""

__version__ = "0.1.0"
