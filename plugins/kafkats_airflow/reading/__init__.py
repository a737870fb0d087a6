"""Reads the files of runs again, for pages and metrics."""
