"""Kafka's brokers as a model: what a broker of any release does with requests.

    broker/      a partition as a broker keeps it, on real files; replays of scripts of requests
    compaction/  a round of the log cleaner
    kernels/     appends and compaction at memory speed (numba)
    layouts      time indexes that were proposed, compared with Kafka's own
    cli/         the commands `kafkats replay` and `kafkats layouts`

It imports kafkats, which never imports it: kafkats finds commands by entry points, where this
distribution is installed (pyproject.toml).
"""

__version__ = "0.2.0"
