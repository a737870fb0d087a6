"""Exchange between operations: units of work, facts of segments, plans, runs, approvals.

options       what can be chosen
units         the partition directories and segments that an operation looks at
files         folders and small files, written whole or not at all
facts         the table of segments that a look returns, and reports made from it
plan          a plan: options, totals, items, and the digest over them
run           the folder of an applied plan
approval      the digests that somebody approved
missing       partitions with missing records: blocked until somebody accepts the loss
settling      repeated looks beside a running broker
"""
