"""The reports of runs."""
