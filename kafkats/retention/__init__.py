"""Retain: delete whole segments as a broker of one generation would, within the allowed limits.

    options                 what can be chosen
    rules                   what a broker deletes, for one partition: the readable rule
    reasons                 why a segment is deleted or kept: codes, and their sentences
    columns                 the same for all partitions at once, in columns
    evidence                columns of facts from the table of segments
    implausible_timestamps  timestamps that pin a segment, and what to use instead
    vetoes                  what kafkats keeps although Kafka would delete it, with the reasons
    plan                    the plan, and every segment's verdict
    preconditions           a plan removes only the beginning of a log; the directory is as planned
    stage                   removes the files of segments, and updates checkpoints
    expired_heads           expired heads of kept segments, decided as if they were segments
    proof                   checks the result
    summary                 per partition: what is deleted, when, and what keeps the rest
    plot                    the pictures

Facts of depth tail are enough. A segment with a wrong time index has no trusted age, and no segment
after it is deleted by time. Segments of a topic without a given cleanup.policy, or without a given
retention limit (policy or export; --before replaces the limit), are kept.
"""
