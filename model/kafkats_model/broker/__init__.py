"""A partition as a broker sees it, on real files of a directory of its own.

    generation     the rules of one release together: leader, rolling, indexes, start, API versions
    settings       the topic configuration that a broker judges by, with that release's defaults
    validate       a leader's judgement of a message set: the bytes to append, or an error (pure)
    active         a segment: its files and what a broker knows of it
    places         find an offset in a segment's log, header by header
    epochs         the leader epochs, as appends, truncations and deletions change them
    first_indexes  the time indexes that a broker of KIP-33's text creates at a start
    partition_log  one partition: append as leader or follower, roll, truncate, close, start, delete
    producers      sequences, epochs and transactions of producers, and their snapshots
    markers        the markers that end transactions
    requests       produce, fetch and list offsets, by the version of the request
    script         the steps of a replay, read from a file
    replay         plays a script
    dialect_search searches by time of brokers of the dialect `kip228`
    enriched_*     brokers of the dialect `enriched`: log, cleaning, and the steps of a script

The rules are tables in `kafkats/generations.py`, and the decisions are those of the rooms below:
`rolling`, `retention`, `search`, `recovery`. Source: LogValidator, Log (from 3.0 UnifiedLog),
LogSegment, ReplicaManager of Kafka 0.8 to 4.3; KIP-31, KIP-32 and KIP-33 for their texts.
"""
