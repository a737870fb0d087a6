"""kafkats purge as a Spark job: spark-submit spark_jobs/purge.py RUN... [--older-than 7d]"""

import fanout

if __name__ == "__main__":
    fanout.main(__file__)
