"""Compact a partition by key, as the log cleaner of each release does.

    cleaner          one round: the map, the groups, the passes, the swaps
    section          the section of a log that a round compacts, and its groups of segments
    offset_map       the last offset of each key
    batch_filter     the records of a batch that stay
    sieve            the pass over the segments of a group
    splice           wrappers from messages that stay as they are
    transactions     the transactions that a round passes
    cleaned_segment  the file that replaces a group

The differences between releases are in broker/compaction_rules.py.
"""
