"""The program `kafkats`, and `python -m kafkats`: one command in a process of its own."""

import sys

from kafkats import cli
from kafkats.cli.startup import end_fast, start_fast


def main() -> None:
    """Run the command line. Exits with its code."""
    start_fast()
    end_fast(cli.run(sys.argv[1:], cli.Session()))


if __name__ == "__main__":
    main()
