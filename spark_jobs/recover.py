"""kafkats recover as a Spark job: spark-submit spark_jobs/recover.py LOG_DIR... [--kafka RELEASE]

Its driver must be on the broker's host: a start waits for it, and nothing outside is asked.
"""

import fanout

if __name__ == "__main__":
    fanout.main(__file__)
