"""kafkats release as a Spark job: spark-submit spark_jobs/release.py LOG_DIR... [--holder HOLDER]

`released` and `kept` (of another holder) in the result are lists of {log_dir, holder, until_ms};
`free` and `failed` are lists of log directories.
"""

import fanout

if __name__ == "__main__":
    fanout.main(__file__)
