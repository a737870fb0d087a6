"""kafkats keeps Kafka log directories right by time.

The data's own path is the folder order; nothing imports upwards:

    errors generations paths            words that every room uses
    primitives checksums compression    bytes, CRCs, codecs
    formats/                            bytes <-> batches, the readable reference
    kernels/                            the same work on whole files at memory speed
    segment/  index/                    one .log file; its .index and .timeindex
    logdir/                             a partition directory, a log.dirs root, and every change to them
    config plan run report              what operations exchange
    operations/                         one file per verb
    cli                                 the command line

Importing this package imports nothing else, so that an Airflow DAG file stays cheap to parse.
"""

__version__ = "0.1.0"
