"""kafkats census as a Spark job: spark-submit spark_jobs/census.py LOG_DIR... [--by topic] -o
FOLDER
"""

import fanout

if __name__ == "__main__":
    fanout.main(__file__)
