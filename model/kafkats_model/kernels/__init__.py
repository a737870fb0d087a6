"""Compiled loops of the model (numba), as in kafkats/kernels. This module imports nothing.

appends        appends of a broker: judge message sets and rewrite them, check fetches, note entries
append_checks  checks of one message set, inlined into `appends`
append_builds  build the batch that a leader appends
compaction     the offset map of a cleaning, and the pass over its segments
"""
