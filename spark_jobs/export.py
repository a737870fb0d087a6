"""kafkats export as a Spark job: spark-submit spark_jobs/export.py LOG_DIR...|TABLE --at TIME --to
FORMAT -o FILE

Partitions are searched on the workers; a table is read by the driver.
"""

import fanout

if __name__ == "__main__":
    fanout.main(__file__)
