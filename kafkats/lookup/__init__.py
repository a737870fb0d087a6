"""Answer which offset it was at a time, for every partition.

options          what can be chosen
partitions       answers from log directories
marks            answers for one time, from log directories or tables
exports          marks in the formats of consumers: Spark options, group resets, JSON
consumer_groups  committed offsets of consumer groups
lag              the lag of consumer groups in time
latency          the delay between a record's timestamp and its append
cluster_diff     offsets of one cluster translated to another
record_scatter   sampled records for pictures
plot             the pictures
"""
