"""Limits of Airflow's on the clock, for a machine at work: a DAG's file that takes longer is an import error."""

from __future__ import annotations

from typing import Final

AIRFLOW: Final = {
    "AIRFLOW__CORE__DAGBAG_IMPORT_TIMEOUT": "600",
    "AIRFLOW__DAG_PROCESSOR__DAG_FILE_PROCESSOR_TIMEOUT": "900",
}
