"""Find offsets that no log can hold.

The rule and its reason: `formats.framing.check_offsets`.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from kafkats.kernels.jit import kernel
from kafkats.kernels.memory import i32, i64, u8

_MOST: Final = 2**63 - 2
_LEAST: Final = -(2**63)


@kernel
def impossible_offsets(at: Any, magic: Any) -> bool:
    """Return whether the batch at address `at` ends above offset 2^63-2 or below -2^63.

    The last offset is computed without overflow.
    """
    if u8(at) < 0x7F:  # highest byte of the offset: too far below 2^63
        return False
    first = i64(at)
    delta = i32(at + 23) if magic == 2 else np.int64(0)
    if first >= 0:
        return bool(delta > _MOST - first)
    return bool(delta < _LEAST - first)
