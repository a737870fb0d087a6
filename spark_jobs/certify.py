"""kafkats certify as a Spark job: spark-submit spark_jobs/certify.py LOG_DIR... --min-magic N -o
CERT
"""

import fanout

if __name__ == "__main__":
    fanout.main(__file__)
