"""The DAGs of kafkats: this line is all that a folder of DAGs needs."""

from kafkats_airflow.dags import kafkats_dags

kafkats_dags()
