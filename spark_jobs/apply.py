"""kafkats apply as a Spark job: spark-submit spark_jobs/apply.py PLAN --digest D [--run RUN]

One unit of work is one partition directory, changed under its own lease and journal. A task that
Spark runs again finishes what the lost one began; one that still runs elsewhere is fenced. The log
directories are reserved while it writes. Exit code 3 names the holder if somebody other than
--holder has reserved a log directory.
"""

import fanout

if __name__ == "__main__":
    fanout.main(__file__)
