"""How pieces are spread over tasks."""

from hypothesis import given
from hypothesis import strategies as st

from kafkats.records.piece import Piece
from pyspark_kafkats.source import _OPENING_BYTES, _tasks

MIB = 1024 * 1024


def pieces(sizes: list[int]) -> list[Piece]:
    return [Piece(f"{n}.log", "t", 0, n, 0, size, False) for n, size in enumerate(sizes)]


def test_four_pieces_of_a_quarter_more_than_fits_are_two_and_two() -> None:
    tasks = _tasks(pieces([32 * MIB] * 4), 128 * MIB)
    assert [len(task) for task in tasks] == [2, 2]


def test_nothing_is_no_task() -> None:
    assert _tasks([], MIB) == []


@given(st.lists(st.integers(1, MIB), max_size=60), st.integers(1, 4 * MIB))
def test_all_pieces_in_order_and_no_task_much_larger_than_the_mean(
    sizes: list[int], most: int
) -> None:
    found = pieces(sizes)
    tasks = _tasks(found, most)
    assert [piece for task in tasks for piece in task] == found
    assert all(tasks)
    costs = [size + _OPENING_BYTES for size in sizes]
    for task in tasks:
        middle = sum(piece.end + _OPENING_BYTES for piece in task[1:-1])
        assert middle <= most + _OPENING_BYTES  # but for halves of those at its ends
    assert len(tasks) <= -(-sum(costs) // (most + _OPENING_BYTES))
