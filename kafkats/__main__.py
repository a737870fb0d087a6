"""The program `kafkats`, and `python -m kafkats`: one command in a process of its own."""

import gc
from typing import Final

_GARBAGE: Final = (50_000, 20, 20)
"""After how many new objects garbage is collected, in generations 0, 1 and 2 (Python: 700, 10, 10).
Imports make few cycles, and a listing of 100 000 segments none.
"""


def main() -> None:
    """Run the command line. Exits with its code."""
    gc.set_threshold(*_GARBAGE)
    from kafkats import cli
    from kafkats.cli.startup import end_fast, start_fast

    start_fast()
    cli.main(end=end_fast)


if __name__ == "__main__":
    main()
