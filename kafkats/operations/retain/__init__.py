"""Retain: delete whole segments, as the broker of a generation would, from facts alone, and never more than was allowed.

    facts       what decides, read from the table of facts
    deciding    what Kafka itself would delete now, and why not the others: retention.decide in columns
    vetoes      what we do not delete though Kafka would: a column of its own, with its own reasons
    planning    the plan, and every segment's verdict
    prefix      whether a plan takes the beginning of a log and nothing else, and the directory is as it was planned for
    staging     the families of files go into the undo area; checkpoints follow
    heads       expired heads of segments that stay, decided on as if they were segments
    proof       whether it is as planned, afterwards
    board       per partition what goes, when, and what keeps the rest
    suspects    into the segments that pin by a timestamp that cannot be right

Facts of depth tail are enough. Where an index does not hold up a segment's age is not believed, and nothing behind it goes by
time. Nothing is deleted for a topic whose cleanup.policy and limit nobody has named.
"""

from kafkats.operations.retain.board import board, by_topic
from kafkats.operations.retain.planning import OPERATION, RETENTION, RetainOptions, plan_retain
from kafkats.operations.retain.staging import check_item, stage_partition

__all__ = [
    "OPERATION",
    "RETENTION",
    "RetainOptions",
    "board",
    "by_topic",
    "check_item",
    "plan_retain",
    "stage_partition",
]
