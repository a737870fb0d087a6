"""The table of a pipe is that of a terminal without its attributes and its width."""

from __future__ import annotations

import subprocess
import sys

from hypothesis import given
from hypothesis import strategies as st

from kafkats.cli.tables import _rich_text, table_text

CELLS = st.text(st.characters(min_codepoint=32, max_codepoint=126), max_size=12).map(str.rstrip)


@st.composite
def tables(draw: st.DrawFn) -> tuple[dict[str, bool], list[list[str]]]:
    names = draw(st.lists(st.sampled_from("abcdef"), min_size=1, max_size=4, unique=True))
    head = {f"{name} {name * 3}": draw(st.booleans()) for name in names}
    rows = draw(st.lists(st.lists(CELLS, min_size=len(head), max_size=len(head)), min_size=1))
    return head, rows


@given(tables())
def test_both_writers_agree(table: tuple[dict[str, bool], list[list[str]]]) -> None:
    head, rows = table
    assert table_text(head, rows, tty=False) == _rich_text(head, rows, tty=False)


def test_no_cell_and_no_line_ends_with_spaces() -> None:
    for word in ("word", "wörd"):  # the second needs the library
        text = table_text(
            {"name": False, "nn": True, "w": False}, [[f"{word} ", "0 ", " "]], tty=False
        )
        assert text.splitlines() == ["name  nn  w", f"{word}   0"]


def test_wide_letters_are_aligned() -> None:
    text = table_text({"name": False, "n": True}, [["データ", "1"], ["topic", "12"]], tty=False)
    assert text.splitlines() == ["name     n", "データ   1", "topic   12"]


def test_a_pipe_needs_no_library() -> None:
    program = (
        "import sys; from kafkats.cli.tables import table_text;"
        "print(table_text({'a': False}, [['b']], tty=False)); assert 'rich' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
