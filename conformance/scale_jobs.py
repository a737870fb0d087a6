"""Commands as jobs of one Spark application, which starts once: python -m conformance.scale_jobs MASTER [SEGMENTS] <<< '[[WORD, ...], ...]'

Prints a line of JSON for each: its result, and its exit code. With SEGMENTS plans are written in parts of so many.
"""

from __future__ import annotations

import io
import json
import sys
from contextlib import redirect_stdout

from kafkats.cli import JOB, Session, run
from kafkats.flow import parting
from pyspark_kafkats.session import open_executor


def main() -> None:
    if len(sys.argv) > 2:
        parting.LARGE = parting.TABLE_ROWS = parting.PART_SEGMENTS = int(sys.argv[2])  # type: ignore[misc]
    with open_executor("conformance", master=sys.argv[1]) as executor:
        for words in json.load(sys.stdin):
            session = Session(executor, JOB)
            with redirect_stdout(io.StringIO()):
                code = run(words, session)
            print(json.dumps({**session.result(), "exit_code": code}), flush=True)


if __name__ == "__main__":
    main()
