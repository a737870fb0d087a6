"""kafkats undo as a Spark job: spark-submit spark_jobs/undo.py RUN... [--certify LOG_DIR...
--max-magic N]
"""

from __future__ import annotations

import sys

from fanout import run_job

if __name__ == "__main__":
    sys.exit(run_job("undo"))
