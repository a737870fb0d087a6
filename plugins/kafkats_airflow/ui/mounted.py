"""The app as the plugin registers it. All components of Airflow load plugins, and only the
api-server needs the pages: they are imported at the first request.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, MutableMapping
from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fastapi import FastAPI


class Pages:
    """An ASGI app that becomes `kafkats_airflow.ui.app` at its first request."""

    async def __call__(
        self,
        scope: MutableMapping[str, Any],
        receive: Callable[[], Awaitable[MutableMapping[str, Any]]],
        send: Callable[[MutableMapping[str, Any]], Awaitable[None]],
    ) -> None:
        await _app()(scope, receive, send)


@cache
def _app() -> FastAPI:
    from kafkats_airflow.ui.app import create_app

    return create_app()
