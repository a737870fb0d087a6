"""How rarely Python collects garbage in the processes that list, look and decide."""

import gc
from typing import Final

_THRESHOLDS: Final = (200_000, 20, 20)
"""After how many new objects garbage is collected, in generations 0, 1 and 2 (Python: 700, 10, 10).
Imports make few cycles, and a listing of 100 000 segments none.
"""


def collect_rarely() -> None:
    """Collect garbage rarely from now on in this process, which does nothing but our work."""
    gc.set_threshold(*_THRESHOLDS)
