"""The modules of a Spark worker in its memory."""

from __future__ import annotations

import gc


def keep_modules() -> None:
    """Exclude the loaded modules from garbage collection.

    Spark's worker collects garbage after each task. That takes 75 ms for the objects of numba and
    pyarrow, which live as long as the process.
    """
    if not gc.get_freeze_count():
        gc.freeze()
