"""kafkats lookup as a Spark job: spark-submit spark_jobs/lookup.py LOG_DIR... --at TIME [--report
FOLDER]

With --every 1m --from TIME --until TIME -o TABLE it adds an interval to a lookup table: partitions
are searched on the workers, the driver writes the table under its lock. The report's folder has
lookup.parquet (the rows), report.json, and for pictures clouds.parquet and cells.parquet.
"""

import fanout

if __name__ == "__main__":
    fanout.main(__file__)
