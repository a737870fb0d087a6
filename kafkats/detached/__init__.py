"""Requests on the host of their log directories: detached from the connection over which they came.

An Airflow worker that reaches a host by a shell only (SSH) runs one command there, `kafkats-host`,
and talks to it by standard input and output: one message each (`messages`), with files behind it
(`parcels`). `serving` answers. A request then runs in a process of its own session (`working`),
which outlives the connection. Its folder (`jobs`) has all that is known of it.

Nothing of a request is on a command line.
"""
