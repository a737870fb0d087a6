"""Retain: delete whole segments as a broker of one generation would, within the allowed limits.

    facts       columns of facts from the table of segments
    deciding    what Kafka would delete now, and why not the others: retention.decide in columns
    vetoes      what kafkats keeps although Kafka would delete it, with reasons in their own column
    planning    the plan, and every segment's verdict
    prefix      checks that a plan removes only the beginning of a log, and that the directory is as
                planned
    staging     removes the files of segments, and updates checkpoints
    heads       expired heads of kept segments, decided as if they were segments
    proof       checks the result
    board       per partition what is deleted, when, and what keeps the rest
    suspects    looks into segments that pin others by an implausible timestamp

Facts of depth tail are enough. A segment with a wrong time index has no trusted age, and no segment
after it is deleted by time. Segments are deleted only for topics with an explicit cleanup.policy
and limit.
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
