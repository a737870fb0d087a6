"""Figures with goals: kafkats beside its peers and the machine's limits. `scripts/bench [names...]` runs it; see README.md."""
