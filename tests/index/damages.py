"""Ways to change the bytes of an index file, for Hypothesis."""

from __future__ import annotations

from collections.abc import Callable

from hypothesis import strategies as st


@st.composite
def damages(draw: st.DrawFn) -> Callable[[bytes], bytes | None]:
    """A way to change the bytes of an index; None: the file is removed."""
    way = draw(st.sampled_from(["cut", "pad", "remove", "shift", "byte", "noise", "drop"]))
    n, value = draw(st.integers(0, 2000)), draw(st.integers(0, 255))

    def change(data: bytes) -> bytes | None:
        at = n % max(len(data), 1)
        return {
            "cut": data[:at],
            "pad": data + bytes(1 + n),
            "remove": None,
            "shift": data[at:],
            "byte": data[:at] + bytes([value]) + data[at + 1 :],
            "noise": data[:at] + bytes([value]) * (len(data) - at),
            "drop": data[:at] + data[at + 1 + value :],
        }[way]

    return change
