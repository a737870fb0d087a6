"""The program `kafkats`, and `python -m kafkats`: one command in a process of its own."""

from kafkats import cli
from kafkats.cli.startup import start_fast


def main() -> None:
    """Run the command line. Exits with its code."""
    start_fast()
    cli.main()


if __name__ == "__main__":
    main()
