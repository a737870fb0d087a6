"""The documents' estimates, computed and measured, and their options, played. See scripts/seeds.

estimates   sizes and counts: the document's number, the computed and the measured one
patterns    messages whose latency follows one of the document's patterns
partitions  a partition of the broker room, or one of a rejected option, for a play
rejected    the options that the documents reject: a model in memory, compared and never shipped
play        every option under every pattern: retention, rolling, search, mirroring
walks       single scenarios, step by step
page        the tables on a terminal and in model/docs/seeds-estimates.md
"""
