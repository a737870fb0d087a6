"""All that Airflow needs to know of kafkats: an operator for its Spark jobs, an approval, volumes, reports."""
