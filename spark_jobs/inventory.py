"""kafkats inventory as a Spark job: spark-submit spark_jobs/inventory.py LOG_DIR... [--by topic]
--report FOLDER
"""

from __future__ import annotations

import sys

from fanout import run_job

if __name__ == "__main__":
    sys.exit(run_job("inventory"))
