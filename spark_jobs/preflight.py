"""kafkats preflight as a Spark job: spark-submit spark_jobs/preflight.py LOG_DIR... --kafka 4.3

The LOG_DIRs are those of one broker. With --go-on the job succeeds whatever that broker would do.
"""

import fanout

if __name__ == "__main__":
    fanout.main(__file__)
