"""What our own JSON readers refuse that Python's takes."""

from __future__ import annotations

import pytest

from kafkats.logdir.strict_json import int64, loads


@pytest.mark.parametrize(
    "text",
    [
        "{", "NaN", '{"a": Infinity}', "[-Infinity]", "1e999", "[-1e999]", '"\\u0000"', '{"a": ["b", {"c\\u0000": 1}]}',
        str(2**64), str(-(2**63) - 1), "1" * 5000, "[" * 100_000, '"\\ud800"', b"\xff",
        '{"a": 1, "a": 1}', '[{"a": {"b": 1, "c": 2, "b": 1}}]',
    ],
)  # fmt: skip
def test_refused(text: str | bytes) -> None:
    with pytest.raises(ValueError):
        loads(text)


def test_taken() -> None:
    content = {"a": [1, -1.5, None, True, "ü\udcff", {"b": 2**64 - 1, "c": -(2**63)}]}
    text = '{"a": [1, -1.5, null, true, "ü\\udcff", {"b": 18446744073709551615, "c": -9223372036854775808}]}'
    assert loads(text) == loads(text.encode()) == content


@pytest.mark.parametrize("value", [1.0, True, "1", None, 2**63, -(2**63) - 1])
def test_no_number_of_64_bits(value: object) -> None:
    with pytest.raises(ValueError, match="not a whole number of 64 bits"):
        int64(value)
    assert int64(2**63 - 1) == 2**63 - 1
