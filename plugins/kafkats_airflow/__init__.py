"""The Airflow side of kafkats: operators for its Spark jobs, approvals, volumes, reports."""
