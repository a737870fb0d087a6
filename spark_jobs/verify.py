"""kafkats verify as a Spark job: spark-submit spark_jobs/verify.py LOG_DIR... [--deep]

With --of-plan PLAN or --of-run RUN it is the proof after an apply.
"""

from __future__ import annotations

import sys

from fanout import run_job

if __name__ == "__main__":
    sys.exit(run_job("verify"))
