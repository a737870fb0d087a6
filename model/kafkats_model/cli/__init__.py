"""The commands that kafkats-model adds to kafkats."""
