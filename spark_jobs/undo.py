"""kafkats undo as a Spark job: spark-submit spark_jobs/undo.py RUN... [--certify LOG_DIR...
--max-magic N]
"""

import fanout

if __name__ == "__main__":
    fanout.main(__file__)
