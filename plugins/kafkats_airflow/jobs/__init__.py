"""Spark jobs: from the params of a run to the jobs that it submits."""
