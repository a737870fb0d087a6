"""Read the records of log directories: plan which parts of which segments to read, and read them.

    from kafkats.records.plan import ReadOptions, plan_read
    from kafkats.records.settled import read_settled

    pieces = plan_read(["/var/lib/kafka/data"], ReadOptions(topics=("orders",)))
    for piece in pieces:
        for batch in read_settled(piece, COLUMNS):   # pyarrow.RecordBatch

A piece is small and can be pickled. Any process that sees the files can read it.
"""
