"""Reading of the folder of all runs, without Airflow and without a request."""
