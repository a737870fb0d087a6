"""Repair and maintain the log directories of Kafka brokers.

The layers, from the lowest; nothing imports upwards:

    errors paths generations findings   used by every module
    primitives  compression/            bytes, CRCs, codecs
    execution                           work in this process, in workers, or on Spark
    formats/                            bytes <-> batches, the readable reference
    kernels/                            the same work on whole files at memory speed
    segment/  index/                    one .log file; its .index and .timeindex
    logdir/                             a partition directory, a log.dirs root, and their changes
    search/  evidence/  config/         searches by time; comparison of files; the policy
    plans/                              what operations exchange
    tables/  records/  reserving/       lookup tables; records as rows; reservations
    split/  retention/  rebuild/  migration/  rolling/  lookup/  inspect/
                                        one room per operation
    flow/                               operations put together
    cli/                                the command line

Importing this package imports nothing else, so that an Airflow DAG file stays cheap to parse.
"""

__version__ = "0.2.0"
