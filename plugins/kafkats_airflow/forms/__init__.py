"""The forms of the DAGs: options that only a run has, their fields, and the values of a run."""
