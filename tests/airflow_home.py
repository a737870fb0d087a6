"""The home of the Airflow that is imported into this process: its own folder and SQLite, gone at the end.

conftest.py imports this before any test: Airflow reads these variables once, when something imports it first. The tests of DAGs
would else use the database of the clone.
"""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from pathlib import Path
from typing import Final

from tests import patience

ROOT: Final = Path(__file__).parents[1]
HOME: Final = Path(tempfile.mkdtemp(prefix="kafkats-airflow-"))
atexit.register(shutil.rmtree, HOME, ignore_errors=True)
os.environ |= {
    "AIRFLOW_HOME": str(HOME),
    "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{HOME}/airflow.db",
    "AIRFLOW__CORE__DAGS_FOLDER": str(ROOT / "dags"),
    "AIRFLOW__CORE__PLUGINS_FOLDER": str(ROOT / "plugins"),
    "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
    "AIRFLOW__CORE__UNIT_TEST_MODE": "False",
    "AIRFLOW_CONN_SPARK_DEFAULT": '{"conn_type": "spark", "host": "local[2,4]"}',
    **patience.AIRFLOW,
}
