"""kafkats purge as a Spark job: spark-submit spark_jobs/purge.py RUN... [--older-than 7d]"""

import fanout

fanout.main(__file__)
