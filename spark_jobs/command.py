"""Any command of kafkats as a Spark job: spark-submit spark_jobs/command.py plan split LOG_DIR...
--where rolled -o PLAN

Commands that have no stages (lag, latency, diff, failover, show) run in the driver. The result line
is the summary that the command prints with --json.
"""

import fanout

if __name__ == "__main__":
    fanout.main(__file__)
