"""kafkats inventory as a Spark job: spark-submit spark_jobs/inventory.py LOG_DIR... [--by topic]
--report FOLDER
"""

import fanout

if __name__ == "__main__":
    fanout.main(__file__)
