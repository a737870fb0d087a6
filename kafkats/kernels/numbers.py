"""Types of the kernels' arguments, and the conversion to a number of 64 bits.

Every `int` of a kernel is a signed number of 64 bits: an address, a position, a size or a field.
The names of arrays are those of `machine.ARRAYS`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, SupportsInt, TypeAlias

import numpy as np
import numpy.typing as npt

from kafkats.kernels.jit import Later

Int64s: TypeAlias = npt.NDArray[np.int64]
Int64Rows: TypeAlias = npt.NDArray[np.int64]
"""Two dimensions."""
Int32s: TypeAlias = npt.NDArray[np.int32]
Int8s: TypeAlias = npt.NDArray[np.int8]
Bytes: TypeAlias = npt.NDArray[np.uint8]

if TYPE_CHECKING:

    def int64(value: SupportsInt) -> int:
        """Make a number of 64 bits. Without it, numba compiles a literal as a constant of its own
        type, and two branches of a kernel could return different types.
        """

else:
    int64 = Later("numba", "int64")
