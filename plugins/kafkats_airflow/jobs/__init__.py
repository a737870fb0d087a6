"""Jobs: from the params of a run to the requests that Spark, a host or a pod carries out."""
