"""All evidence of a log directory held against its logs: what must have been there, and is not.

    claims      what the names and the root's checkpoints say of a partition
    borders     does the log begin and end where files say; are there holes between segments
    root        partitions that checkpoints name and whose directory is gone
    replay      batch headers against epochs, aborted transactions and producer snapshots (`verify --deep`)

Pure functions over small inputs, but for `replay`, which makes one pass over the batch headers of a partition. Rules and sources:
docs/decisions/evidence.md.
"""
