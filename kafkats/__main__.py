"""The program `kafkats`, and `python -m kafkats`: one command in a process of its own."""

import os
import signal
import sys
from types import FrameType
from typing import NoReturn

from kafkats.execution.garbage import collect_rarely


def main() -> None:
    """Run the command line. Exits with its code."""
    collect_rarely()
    if sys.argv[1:2] == ["recover"]:
        _recover()
    ctrl_c = signal.getsignal(signal.SIGINT)
    if ctrl_c is signal.default_int_handler:  # else it is ignored, as behind nohup
        signal.signal(signal.SIGINT, _stop)
    from kafkats.cli.startup import end_fast, start_fast

    start_fast()
    from kafkats import cli

    signal.signal(signal.SIGINT, ctrl_c)
    cli.main(end=end_fast)


def _recover() -> NoReturn:
    """Run `kafkats recover`: no other error may hold a broker's start.

    From its beginning on a signal ends it, also as the first process of a container: the kernel
    drops signals there that have no handler, and the broker would start in spite of them.
    """
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:  # else it is ignored, as behind nohup
            signal.signal(number, lambda number, _frame: os._exit(128 + number))
    from kafkats.cli.startup import end_fast, start_fast

    start_fast()
    from kafkats.cli import recovering

    end_fast(recovering.main(sys.argv[2:]))


def _stop(_signal: int, _frame: FrameType | None) -> NoReturn:
    """End a process that has imported only: nothing is open, and nothing has to be undone."""
    os.write(2, b"\nkafkats: interrupted\n")
    os._exit(130)


if __name__ == "__main__":
    main()
