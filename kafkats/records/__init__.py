"""Read the records of log directories: plan which parts of which segments to read, and read them.

    pieces = plan_read(["/var/lib/kafka/data"], ReadOptions(topics=("orders",)))
    for piece in pieces:
        for batch in read_settled(piece, COLUMNS):   # pyarrow.RecordBatch

A piece is small and can be pickled. Any process that sees the files can read it.
"""

from kafkats.records.piece import Aborted, Piece, Skipped, read_piece
from kafkats.records.plan import EARLIEST, LATEST, ReadOptions, plan_read
from kafkats.records.settled import read_settled

__all__ = [
    "EARLIEST",
    "LATEST",
    "Aborted",
    "Piece",
    "ReadOptions",
    "Skipped",
    "plan_read",
    "read_piece",
    "read_settled",
]
