"""kafkats undo as a Spark job: spark-submit spark_jobs/undo.py RUN... [--certify LOG_DIR...
--max-magic N]
"""

import fanout

fanout.main(__file__)
