"""HTML from templates, and the words in which pages give sizes, times and counts."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Final, NamedTuple
from urllib.parse import quote, urlencode

from jinja2 import Environment, FileSystemLoader, StrictUndefined, pass_context
from jinja2.runtime import Context
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response

from kafkats import clock
from kafkats.text import of_row
from kafkats_airflow.forms.wording import in_form
from kafkats_airflow.ui import words
from kafkats_airflow.ui.reading import beginning

HERE: Final = Path(__file__).parent
FILES: Final = HERE / "static"


class Page(NamedTuple):
    """A page in the row of links: its path, its name, the section that lights it up."""

    path: str
    name: str


PAGES: Final = (
    Page("volumes", "Volumes"),
    Page("runs", "Runs"),
    Page("index-health", "Index health"),
    Page("retention", "Retention"),
    Page("rolling", "Rolling"),
    Page("offsets", "Offsets by time"),
    Page("migration", "Migration"),
    Page("restart", "Restart"),
    Page("audit", "Audit"),
)
"""The row of links on top of every page."""
_SECTIONS: Final = {"run": "runs", "plan": "runs", "dag": "runs"}
"""The page that lights up for those that are not in the row."""


def _version() -> str:
    """Return a digest of the static files: a new version has new addresses."""
    found = hashlib.sha256()
    for path in sorted(FILES.rglob("*")):
        if path.is_file():
            found.update(path.relative_to(FILES).as_posix().encode() + path.read_bytes())
    return found.hexdigest()[:12]


STATIC: Final = f"static/{_version()}"
_TEMPLATES: Final = Environment(
    loader=FileSystemLoader(HERE / "templates"),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)


PLOTLY: Final = f"static/plotly-{version('plotly')}/plotly.min.js"
"""The script of the plots. Its version is in its name: browsers keep it for ever."""


def link(path: str, **query: object) -> str:
    """Return a relative link. Values that are None or empty are left out."""
    given = {name: str(value) for name, value in query.items() if value not in {None, ""}}
    return f"{path}?{urlencode(given, quote_via=quote, errors='replace')}" if given else path


@pass_context
def _link(context: Context, path: str, **query: object) -> str:
    """Return a relative link as `link` does. Pages about a whole set lead to such of the same."""
    of_set = {"set": context.get("of_set")} if path in _OF_SETS else {}
    return link(path, **(of_set | query))


_OF_SETS: Final = {one.path for one in PAGES}
_TEMPLATES.globals.update(
    link=_link,
    static=STATIC,
    pages=PAGES,
    plotly=PLOTLY,
    run_name=beginning.run_name,
    starter=beginning.starter,
)
_TEMPLATES.filters.update(
    bytes=words.of_bytes,
    of_row=lambda reason: in_form(of_row(reason)),
    count=words.of_count,
    lasting=words.of_duration,
    moment=words.of_moment,
    plural=words.plural,
    share=words.of_share,
)


def page(request: Request, template: str, *, status: int = 200, **values: object) -> Response:
    """Render a template. It has `now_ms`, the request's path and the names of the sets that the
    person may choose (kafkats_airflow.ui.deployed) besides `values`.
    """
    path = request.url.path.rsplit("/", 1)[-1]
    here = _SECTIONS.get(path, path)
    given = {"now_ms": clock.now_ms(), "here": here, "query": request.query_params} | values
    given |= {name: getattr(request.state, name, "") for name in ("sets", "of_set", "elsewhere")}
    text = _TEMPLATES.get_template(template).render(given)
    # names on a disk may be any bytes, also such as UTF-8 cannot write
    return HTMLResponse(text.encode("utf-8", "backslashreplace"), status)


def error(request: Request, status: int, said: str) -> Response:
    """Return the page of an error; JSON for a request of data."""
    if "/data/" in request.url.path:
        return JSONResponse({"detail": said}, status)
    title = _TITLES.get(status, "This page cannot be shown")
    return page(request, "error.html", status=status, title=title, said=said)


_TITLES: Final[Mapping[int, str]] = {
    401: "You are not signed in",
    403: "You may not see this",
    404: "There is nothing to show here",
}
