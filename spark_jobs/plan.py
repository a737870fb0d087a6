"""kafkats plan as a Spark job: spark-submit spark_jobs/plan.py rebuild|migrate|retain|roll|split
LOG_DIR... -o PLAN

The workers look at every segment, the driver decides and writes the plan's folder. The plan has the
same digest as the command's. --reserve HOLDER reserves the log directories for HOLDER, as the
command's --holder. The result has `holder`, `reserved_until_ms`, `reserves` (log directories) and
`reserved` (what others hold and was left out, as {log_dir, holder, until_ms}).
"""

import fanout

if __name__ == "__main__":
    fanout.main(__file__)
