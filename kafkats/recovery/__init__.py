"""The start of a broker after an unclean stop: predicted, and made cheap.

Predicted, per generation of brokers; nothing in a log directory changes:

    rules            the start of each generation as a table, chosen by the release
    facts            the result: per log directory and per partition
    checkpoints      checkpoints that a broker does not read
    meta_properties  meta.properties and metadata logs that stop a broker
    words            the messages of brokers that do not start
    root             lock, marker, meta.properties, checkpoints, names of directories
    loading          the files of a partition after the loader's deletions and swaps
    reading          logs as the loader reads them: the log end, a recovery
    load             the state of one load
    snapshots        the producer snapshots that a start deletes, loads and writes
    kept             the ends of segments that a start does not read
    judging          what a start loses, as findings
    partition_start  one partition, in the order of Kafka's LogLoader
    ahead            the segments of large partitions, read side by side; those that a plan has read
    rates            the time of a broker's recovery, as measured
    strays           directories that the cluster does not know, or knows elsewhere
    start            all log directories of a broker
    sentences, rows  the prediction for an operator, and as a table

Done offline, as a plan (`plan recover`):

    seeing           the segments, read; what each partition needs
    plan             which partitions, the plan and its totals
    look             one partition: its facts, its decision, its items
    stopping         files for which no broker loads the partition
    decide           which logs are cut, dropped, kept or left alone
    readable         good batches behind a bad one
    copying          copies of these, to a folder of the user
    mending          batches of an unknown magic, made magic 2
    marker           the clean-shutdown marker beside a torn tail
    small_files      producers, aborted transactions and epochs from batch headers, as files
    swaps            replacements of segments that a broker had begun
    items            the rows of the plan
    stage, proof     the new files; whether they are as planned

Done before each start, in slices (`kafkats recover`):

    server_properties  the broker's directories, numbers and release
    before, holding    what its log directories show, and which of it holds the start
    noted              records of what the directories had at an earlier start
    loads, outage      what is recovered here sooner than by the broker
    ends               the records that logs lack, by their ends
    cutting            torn tails, where there is no room for a copy
    kept_runs          the folders of plans, runs and copies, and when they are purged

Source: LogManager, LogLoader (before 3.0 Log), LogSegment and ProducerStateManager of Kafka 0.8.2
to 4.3.
"""
