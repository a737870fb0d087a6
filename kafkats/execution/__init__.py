"""Executors: where the units of an operation are worked on.

An operation cuts its work into units (a segment, a partition directory) and a function that does
one. An executor calls the function for each unit and returns the rows of all of them as one table,
in the order of the units:

    LocalExecutor                     in threads of this process, or in worker processes
    pyspark_kafkats.SparkExecutor     in the tasks of a Spark application

Workers are spawned, not forked: a forked child would inherit the locks and threads of Arrow and
numba. A worker that ends before its unit is done raises WorkerLost, which names the unit. Workers
never outlive this process.
"""
