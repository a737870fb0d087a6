"""`python -m kafkats` is the kafkats command."""

from kafkats.cli import main

main()
