"""Count the bytes of logs that this process still reads in plain Python, without the kernels.

Loading them takes up to half a second; a log of 100 KB takes a few milliseconds without them. So
a process of the command line sets a budget, and reads its first logs by `plain_walk` until they
add up to it.
The library sets none: every log is then read by the kernel. This module imports nothing.
"""

from __future__ import annotations

_left = 0


def set_budget(size: int) -> None:
    """Read the next logs of this process in plain Python, up to `size` bytes of them together."""
    global _left
    _left = size


def take_from_budget(size: int) -> bool:
    """Return whether a log of `size` bytes is to be read in plain Python.

    From the first log that is not, none is: the kernel is loaded by then.
    """
    global _left
    _left = _left - size if size <= _left else 0
    return _left > 0


def expect(size: int) -> None:
    """Read no log in plain Python if `size` bytes will be read, more than the budget: the kernel
    is loaded for them anyway.
    """
    global _left
    _left = _left if size <= _left else 0
