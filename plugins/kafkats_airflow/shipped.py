"""The folders with files that Airflow and Spark run by path: in this package when it is installed
from a wheel, at the top of a clone otherwise.
"""

from __future__ import annotations

import os
from pathlib import Path
from pkgutil import iter_modules
from typing import Final


def _folder(name: str) -> Path:
    packaged = Path(__file__).with_name("files") / name
    return packaged if packaged.is_dir() else Path(__file__).parents[2] / name


NAMES: Final = tuple(
    sorted(one.name for one in iter_modules([str(Path(__file__).with_name("dags"))]))
)
"""The names of the DAGs: each is the id of one, after the prefix of its set."""
DAGS: Final = _folder("dags")
"""A folder of DAGs with one file, which has all DAGs."""
JOBS: Final = Path(os.environ.get("KAFKATS_SPARK_JOBS") or _folder("spark_jobs"))
"""The scripts that are submitted to Spark."""
KUBERNETES: Final = _folder("deploy/kubernetes")
"""The template of Jobs."""
