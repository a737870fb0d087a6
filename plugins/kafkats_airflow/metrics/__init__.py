"""Metrics of all volumes and runs, made from the reports when they are asked for.

reading.py      the folder of all runs -> a snapshot
families.py     the snapshot -> metrics: their names, types and labels
endpoint.py     the metrics over HTTP, for Prometheus, with a token of their own
text_file.py    the same as a file, for a collector on the host
"""
