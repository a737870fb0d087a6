"""spark.read.format("kafkats"): the records of segment files as a DataFrame, without a broker.

    spark.read.format("kafkats").load("/var/lib/kafka/data")

Spark finds this package by its name (pyspark_*) on the driver's Python path and registers it.
Workers import it and kafkats, and must see the files at the same path. Options and columns:
docs/spark-source.md.
"""

from pyspark_kafkats.source import DefaultSource

__all__ = ["DefaultSource"]
