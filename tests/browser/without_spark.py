"""A job in this process, with the same words, result and markers: what starting Spark adds is eight seconds of processor time.

`python -m tests.browser.without_spark ... JOB.py WORD ...` takes the words of a spark-submit.
"""

from __future__ import annotations

import runpy
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from kafkats.execution.local import LocalExecutor

JOBS: Final = Path(__file__).parents[2] / "spark_jobs"
PLACE: Final = "KAFKATS_WITHOUT_SPARK"
"""The variable that names a folder: jobs with a word that begins with it are done without Spark."""
PLANS: Final = "KAFKATS_PLANS_WITHOUT_SPARK"
"""The variable that names a folder in the same way, for plans alone."""


@contextmanager
def started(*_: object) -> Generator[LocalExecutor]:
    """In place of a Spark application."""
    with LocalExecutor(1) as executor:
        yield executor


def main(words: list[str]) -> None:
    import fanout

    fanout.started = started  # type: ignore[assignment]
    job = next(n for n, word in enumerate(words) if Path(word).parent == JOBS)
    sys.argv = words[job:]
    runpy.run_path(words[job], run_name="__main__")


if __name__ == "__main__":
    sys.path.insert(0, str(JOBS))
    main(sys.argv[1:])
