"""The metrics over HTTP: GET /kafkats-metrics/metrics with a bearer token of their own.

The token is KAFKATS_METRICS_TOKEN, or the content of the file KAFKATS_METRICS_TOKEN_FILE, which is
read at each request. Without a token everything here is 404. Airflow's own tokens are not accepted:
they expire, and stand for a person.
"""

from __future__ import annotations

import hmac
import logging
import stat
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

from kafkats_airflow import settings

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.types import Receive, Scope, Send

    from kafkats_airflow.metrics.families import Folders

PREFIX: Final = "/kafkats-metrics"
PATH: Final = "/metrics"
LARGEST_TOKEN_BYTES: Final = 4096
_LOG: Final = logging.getLogger(__name__)


class Metrics:
    """An ASGI app. It imports what it needs at the first request: all components of Airflow load
    plugins, and only the api-server answers.
    """

    def __init__(self, folders: Folders) -> None:
        self.folders = folders

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        from starlette.concurrency import run_in_threadpool
        from starlette.requests import Request

        response = await run_in_threadpool(answer, Request(scope), self.folders)
        await response(scope, receive, send)


def answer(request: Request, folders: Folders) -> Response:
    """Return the response to one request."""
    from starlette.responses import PlainTextResponse

    wanted, path = token(), request.url.path.rstrip("/")
    if not wanted or not path.endswith(PREFIX + PATH):
        return PlainTextResponse("Not Found", 404)
    given = request.headers.get("authorization", "").encode("latin-1", "replace")
    scheme, _, secret = given.partition(b" ")
    # Both comparisons take the same time for every wrong token.
    if not hmac.compare_digest(secret.strip(), wanted) or scheme.lower() != b"bearer":
        return PlainTextResponse(
            "Unauthorized", 401, headers={"WWW-Authenticate": 'Bearer realm="kafkats metrics"'}
        )
    if request.method not in {"GET", "HEAD"}:
        return PlainTextResponse("Method Not Allowed", 405, headers={"Allow": "GET, HEAD"})
    return _metrics(request.headers.get("accept", ""), folders)


def _metrics(accept: str, folders: Folders) -> Response:
    from prometheus_client import exposition
    from starlette.responses import Response

    encode, content_type = exposition.choose_encoder(accept)
    return Response(
        encode(_registry(folders, settings.METRICS_PARTITIONS)),
        headers={"Content-Type": content_type, "Cache-Control": "no-store"},
    )


@cache
def _registry(folders: Folders, by_partition: bool) -> CollectorRegistry:
    from kafkats_airflow.metrics.families import registry

    return registry(folders, by_partition=by_partition)


def token() -> bytes:
    """Return the token, empty if there is none or its file cannot be read."""
    if not settings.METRICS_TOKEN_FILE:
        return settings.METRICS_TOKEN.strip().encode()
    path = Path(settings.METRICS_TOKEN_FILE)
    try:
        if not stat.S_ISREG(path.stat().st_mode):  # who opens a pipe waits for its other end
            raise OSError("no plain file")
        with path.open("rb") as file:
            found = file.read(LARGEST_TOKEN_BYTES + 1).strip()
    except (OSError, ValueError) as e:  # a NUL in the path
        _LOG.error("KAFKATS_METRICS_TOKEN_FILE cannot be read, so there are no metrics: %s", e)
        return b""
    return found if len(found) <= LARGEST_TOKEN_BYTES else b""
