"""zstd frames that ZSTD_decompressDCtx may decompress, as kafkats.compression.zstd would.

That function decompresses frames of any window. Streaming readers, also the Java client's, refuse a
window above 128 MiB.
"""

from __future__ import annotations

from typing import Final

from kafkats.kernels.jit import entry
from kafkats.kernels.memory import u8, u32

_MAGIC: Final = 0x28B52FFD
"""The first four bytes of a frame, read in big-endian order."""
_SINGLE_SEGMENT: Final = 0x20
_LARGEST_WINDOW: Final = 17 << 3
"""The window descriptor of 128 MiB: 17 is log2 of that size in KiB."""


@entry
def is_window_allowed(at: int, size: int) -> bool:
    """Return whether a frame begins at address `at` whose window streaming readers accept.

    A frame of a single segment has no window of its own: its content size bounds it, and so does
    the room for the output.
    """
    if size < 6 or u32(at) != _MAGIC:
        return False
    return bool((u8(at + 4) & _SINGLE_SEGMENT) != 0 or u8(at + 5) <= _LARGEST_WINDOW)
