"""Formats that were proposed and never shipped, and conversions of requests.

enriched          a magic 1 with tags; enriched_tags: its tags; enriched_convert: to and from it
kip228            magic 2 with negative timestamps
readers           the functions that read a log of a dialect, by its name
produce           a producer's message set as its leader converts it
fetch             a log as brokers convert it for old consumers
versions          what brokers take from each version of a produce
"""
