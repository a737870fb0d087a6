"""kafkats certify as a Spark job: spark-submit spark_jobs/certify.py LOG_DIR... --min-magic N -o
CERT
"""

from __future__ import annotations

import sys

from fanout import run_job

if __name__ == "__main__":
    sys.exit(run_job("certify"))
