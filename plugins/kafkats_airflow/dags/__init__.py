"""The DAGs of kafkats. A file in a folder of DAGs needs two lines to have them:

    from kafkats_airflow.dags import kafkats_dags
    kafkats_dags()

Each module here builds the DAG of its name (kafkats_airflow.dag_set).
"""

from kafkats_airflow.dag_set import kafkats_dags

__all__ = ["kafkats_dags"]
