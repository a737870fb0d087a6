"""The FastAPI app of the pages: routes, headers, static files, pages of errors."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, Final, TypeAlias

from fastapi import APIRouter, FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException as StarletteException
from starlette.responses import Response
from starlette.staticfiles import StaticFiles

from kafkats_airflow.ui import rendering, rights
from kafkats_airflow.ui.routes import (
    audit,
    dag,
    health,
    migration,
    offsets,
    plan,
    plotting,
    restart,
    retention,
    rolling,
    run,
    runs,
    volumes,
)

Message: TypeAlias = MutableMapping[str, Any]  # ASGI's
Send: TypeAlias = Callable[[Message], Awaitable[None]]
Receive: TypeAlias = Callable[[], Awaitable[Message]]

_MODULES: Final = (
    *(volumes, runs, run, plan, dag, health, plotting),
    *(retention, rolling, offsets, migration, restart, audit),
)
ROUTERS: Final[tuple[APIRouter, ...]] = tuple(module.router for module in _MODULES)
"""Every router of the app."""
POLICY: Final = "; ".join([
    "default-src 'none'",
    "script-src 'self'",
    f"style-src 'self' {' '.join(plotting.STYLES)}",
    "img-src 'self' data: blob:",
    "font-src 'self'",
    "connect-src 'self'",
    "frame-ancestors 'self'",
    "base-uri 'none'",
    "form-action 'self'",
])
HEADERS: Final = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "same-origin",
}
"""Every answer has them. What a name or a path contains is never run."""
FRESH: Final = "no-store"
FOR_EVER: Final = "public, max-age=31536000, immutable"


class Headed:
    """Adds HEADERS to every answer, and says how long it may be kept."""

    def __init__(self, app: Callable[..., Awaitable[None]]) -> None:
        self.app = app

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        path = str(scope.get("path", ""))
        static = f"/{rendering.STATIC}/" in path or path.endswith(f"/{rendering.PLOTLY}")
        kept = FOR_EVER if static else FRESH

        async def headed(message: Message) -> None:
            if message["type"] == "http.response.start":
                more = HEADERS | {"cache-control": kept if message["status"] < 400 else FRESH}
                message["headers"] = [
                    *(one for one in message.get("headers", ()) if one[0].decode() not in more),
                    *((name.encode(), text.encode()) for name, text in more.items()),
                ]
            await send(message)

        await self.app(scope, receive, headed)


def create_app() -> FastAPI:
    """Return the app. Every route of ROUTERS asks for the rights of the person."""
    app = FastAPI(title="kafkats", docs_url=None, redoc_url=None, openapi_url=None)
    for router in ROUTERS:
        app.include_router(router, dependencies=rights.EVERYWHERE)
    app.mount(f"/{rendering.STATIC}", StaticFiles(directory=rendering.FILES), name="static")
    app.add_middleware(Headed)
    app.add_exception_handler(StarletteException, _refused)
    app.add_exception_handler(RequestValidationError, _misasked)
    app.add_exception_handler(Exception, _broken)
    return app


def _refused(request: Request, error: Exception) -> Response:
    assert isinstance(error, StarletteException)
    return rendering.error(request, error.status_code, str(error.detail))


def _misasked(request: Request, error: Exception) -> Response:
    return rendering.error(request, 422, "A value in the address of this page cannot be read.")


def _broken(request: Request, error: Exception) -> Response:
    said = "This page has failed. The log of the api-server says why."
    response = rendering.error(request, 500, said)
    # Starlette answers this outside of every middleware, so Headed does not see it.
    response.headers.update(HEADERS | {"cache-control": FRESH})
    return response
