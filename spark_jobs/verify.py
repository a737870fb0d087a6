"""kafkats verify as a Spark job: spark-submit spark_jobs/verify.py LOG_DIR... [--deep]

With --of-plan PLAN or --of-run RUN it is the proof after an apply.
"""

import fanout

if __name__ == "__main__":
    fanout.main(__file__)
