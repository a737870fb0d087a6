"""`python -m kafkats` runs the kafkats command."""

from kafkats.cli import main

main()
