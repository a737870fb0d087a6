"""Compare the files of a log directory with its logs, to find missing records and partitions.

    claims      the offsets that file names and the root's checkpoints state for a partition
    borders     whether the log begins and ends where these files say, and gaps between segments
    root        partitions that checkpoints name and whose directory is missing
    replay      batch headers against epochs, aborted transactions and producer snapshots
                (`verify --deep`)

These are pure functions over small inputs, except `replay`, which makes one pass over the batch
headers of a partition. Rules and sources: docs/decisions/evidence.md.
"""
