"""Benchmarks with goals: kafkats beside its peers and the machine's limits. See README.md.

`scripts/bench [names...]` runs them.
"""
