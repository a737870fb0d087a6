"""What a deployment's notifier was told, in a file. Airflow finds the module in its config folder."""

from __future__ import annotations

from pathlib import Path
from typing import Final

NOTIFIER: Final = """\
def tell(context):
    with open({path!r}, "a") as file:
        file.write(context["kafkats"] + "\\n")
"""
LATE: Final = "recover_log_dirs"
"""The DAG whose runs are late after a second."""


class Told:
    """`environment` are the settings of the deployment; `home` is that of its Airflow."""

    def __init__(self, home: Path) -> None:
        self._path = home / "told.txt"
        config = home / "config"
        config.mkdir(parents=True)
        (config / "our_alerts.py").write_text(NOTIFIER.format(path=str(self._path)))
        self.environment = {
            "KAFKATS_NOTIFIER": "our_alerts.tell",
            "KAFKATS_DEADLINES": f"{LATE}=1s",
        }

    def of(self, run: str) -> list[str]:
        """Return the sentences on a run."""
        lines = self._path.read_text().splitlines() if self._path.exists() else []
        return [line for line in lines if f": run {run} " in line]
