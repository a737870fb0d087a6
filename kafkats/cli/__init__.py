"""kafkats COMMAND: every operation, on this machine or with --spark.

Tables for people on standard output, or with --json one JSON object per line; progress on standard
error. Exit codes: 0 fine, 1 findings (defects, blocked rows of a plan), 2 bad usage or bad input, 3
refused for safety, 130 interrupted, 141 the reader of the output has gone.
"""

from kafkats.cli.command import cli, main, run
from kafkats.cli.session import JOB, LazyExecutor, Session

__all__ = ["JOB", "LazyExecutor", "Session", "cli", "main", "run"]
