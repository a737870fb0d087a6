"""Tables in a pipe have whole lines; tables of a terminal fit into it, and no cell is cut."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkats.cli.tables import table_text

CELLS = st.text(st.characters(min_codepoint=32, max_codepoint=126), max_size=12).map(str.rstrip)
WORDS = ["expires in 73 years", "largest timestamp", "future", ""]
BOLD = re.compile(r"\x1b\[[0-9]*m")


@st.composite
def tables(draw: st.DrawFn) -> tuple[dict[str, bool], list[list[str]]]:
    names = draw(st.lists(st.sampled_from("abcdef"), min_size=1, max_size=4, unique=True))
    head = {f"{name} {name * 3}": draw(st.booleans()) for name in names}
    rows = draw(st.lists(st.lists(CELLS, min_size=len(head), max_size=len(head)), min_size=1))
    return head, rows


@given(tables())
def test_a_terminal_that_is_wide_enough_shows_the_lines_of_a_pipe(
    table: tuple[dict[str, bool], list[list[str]]],
) -> None:
    head, rows = table
    assert BOLD.sub("", table_text(head, rows, columns=80)) == table_text(head, rows, columns=None)


@given(st.integers(12, 120), st.lists(st.integers(0, 9999), min_size=1), st.sampled_from(WORDS))
def test_no_line_is_wider_than_the_terminal_and_no_cell_is_cut(
    columns: int, numbers: list[int], why: str
) -> None:
    head = {"partition dir": False, "after bytes": True, "reason why": False}
    rows = [["topic-a-0", str(number), why] for number in numbers]
    text = BOLD.sub("", table_text(head, rows, columns=columns))
    words = text.split()
    assert words.count("topic-a-0") == len(rows)
    assert all(str(number) in words for number in numbers)
    assert all(words.count(word) >= len(rows) for word in why.split())
    if columns >= 30:  # the names and values of a row have one line each at the narrowest
        assert max(map(len, text.splitlines())) <= columns


def test_names_of_columns_take_several_lines_first() -> None:
    text = table_text({"partition dir": False, "day bytes": True}, [["a-0", "1"]], columns=17)
    assert BOLD.sub("", text).splitlines() == [
        "partition    day",
        "dir        bytes",
        "a-0            1",
    ]


def test_sentences_are_wrapped_beside_the_row_or_below_it() -> None:
    head, rows = {"dir": False, "reason": False}, [["orders-0", "the file of its index is empty"]]
    wide = table_text(head, [[rows[0][0], f"{rows[0][1]} and old"]], columns=42)
    assert BOLD.sub("", wide).splitlines() == [
        "dir       reason",
        "orders-0  the file of its index is empty",
        "          and old",
    ]
    narrow = table_text(head, rows, columns=30)
    assert BOLD.sub("", narrow).splitlines() == [
        "dir",
        "orders-0",
        "    reason: the file of its",
        "    index is empty",
    ]


@pytest.mark.parametrize("columns", [46, 60, 70])
def test_no_path_is_cut(columns: int) -> None:
    path = "/data/orders-0/00000000000000000042.timeindex"
    text = table_text(
        {"dir": False, "why": False},
        [["orders-0", f"it is not {path}, and too large to be shown"], ["a-0", "gone"]],
        columns=columns,
    )
    assert f"{path}," in text.split()


def test_a_row_that_does_not_fit_becomes_names_and_values() -> None:
    head = {"dir": False, "first ms": True, "last ms": True, "none": False}
    rows = [["orders-0", "1600000000000", "1600000000009", ""]]
    assert table_text(head, rows, columns=34).splitlines() == [
        "orders-0  first ms: 1600000000000",
        "    last ms: 1600000000009",
    ]


def test_columns_come_closer_before_a_row_becomes_names_and_values() -> None:
    head, rows = {"dir": False, "first": True, "last": True}, [["orders-0", "16000", "16009"]]
    assert BOLD.sub("", table_text(head, rows, columns=20)).splitlines() == [
        "dir      first  last",
        "orders-0 16000 16009",
    ]


def test_names_and_values_begin_with_the_first_that_there_is_and_wrap_sentences() -> None:
    head = {"dir": False, "first ms": True, "reason": False}
    rows = [["", "1600000000000", "no file has it"], ["a" * 30, "1", ""]]
    assert table_text(head, rows, columns=24).splitlines() == [
        "first ms: 1600000000000",
        "    reason: no file has",
        "    it",
        "a" * 30,
        "    first ms: 1",
    ]


def test_no_cell_and_no_line_ends_with_spaces() -> None:
    for word in ("word", "wörd"):  # the second needs the library
        text = table_text(
            {"name": False, "nn": True, "w": False}, [[f"{word} ", "0 ", " "]], columns=None
        )
        assert text.splitlines() == ["name  nn  w", f"{word}   0"]


def test_a_very_long_cell_does_not_widen_its_column() -> None:
    text = table_text({"name": False, "n": True}, [["x" * 1001, "1"], ["a", "2"]], columns=None)
    assert text.splitlines()[2] == "a     2"


def test_wide_letters_are_aligned() -> None:
    text = table_text({"name": False, "n": True}, [["データ", "1"], ["topic", "12"]], columns=None)
    assert text.splitlines() == ["name     n", "データ   1", "topic   12"]


def test_a_pipe_needs_no_library() -> None:
    program = (
        "import sys; from kafkats.cli.tables import table_text;"
        "print(table_text({'a': False}, [['b']], columns=None)); assert 'rich' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
