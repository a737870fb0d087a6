"""Predict the start of a broker on its log directories, per generation of brokers.

    rules            the start of each generation as a table, chosen by the release
    facts            the result: per log directory and per partition
    words            the messages of brokers that do not start
    root             lock, marker, meta.properties, checkpoints, names of directories
    loading          the files of a partition after the loader's deletions and swaps
    reading          logs as the loader reads them: the log end, a recovery
    snapshots        the producer snapshots that a start deletes, loads and writes
    partition_start  one partition, in the order of Kafka's LogLoader
    start            all log directories of a broker

Only reading: nothing in a log directory changes. Source: LogManager, LogLoader (before 3.0 Log),
LogSegment and ProducerStateManager of Kafka 0.8.2 to 4.3.
"""
