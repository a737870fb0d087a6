"""kafkats purge as a Spark job: spark-submit spark_jobs/purge.py RUN... [--older-than 7d]"""

from __future__ import annotations

import sys

from fanout import run_job

if __name__ == "__main__":
    sys.exit(run_job("purge"))
