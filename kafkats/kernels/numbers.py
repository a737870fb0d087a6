"""Types of the kernels' arguments, and the conversion to a number of 64 bits.

Every `int` of a kernel is a signed number of 64 bits: an address, a position, a size or a field.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, SupportsInt, TypeAlias

import numba
import numpy as np
import numpy.typing as npt

Int64s: TypeAlias = npt.NDArray[np.int64]
Int32s: TypeAlias = npt.NDArray[np.int32]
Int8s: TypeAlias = npt.NDArray[np.int8]
Bytes: TypeAlias = npt.NDArray[np.uint8]

int64: Final[Callable[[SupportsInt], int]] = numba.int64
"""Make a number of 64 bits. Without it, numba compiles a literal as a constant of its own type,
and two branches of a kernel could return different types."""
