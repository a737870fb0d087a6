"""kafkats certify as a Spark job: spark-submit spark_jobs/certify.py LOG_DIR... --min-magic N -o
CERT
"""

import fanout

fanout.main(__file__)
