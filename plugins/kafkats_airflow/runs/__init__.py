"""The folder of a run: its tries and steps, its start, its progress."""
