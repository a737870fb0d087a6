"""kafkats export as a Spark job: spark-submit spark_jobs/export.py LOG_DIR...|TABLE --at TIME --to
FORMAT -o FILE

Partitions are searched on the workers; a table is read by the driver.
"""

from __future__ import annotations

import sys

from fanout import run_job

if __name__ == "__main__":
    sys.exit(run_job("export"))
