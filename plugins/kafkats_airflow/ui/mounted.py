"""The app as the plugin registers it. All components of Airflow load plugins, and only the
api-server needs the pages: they are imported at the first request.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fastapi import FastAPI
    from starlette.types import Receive, Scope, Send


class Pages:
    """An ASGI app that becomes `kafkats_airflow.ui.app` at its first request."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await _app()(scope, receive, send)


def folders() -> Mapping[str, Path]:
    """Return the folder of all runs of each set of DAGs, by its name."""
    from kafkats_airflow.ui import deployed

    return deployed.folders()


@cache
def _app() -> FastAPI:
    from kafkats_airflow.ui.app import create_app

    return create_app()
