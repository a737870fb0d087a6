"""The script of the plots, from the package plotly that is installed beside Airflow."""

from __future__ import annotations

from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from fastapi import APIRouter, HTTPException
from starlette.responses import FileResponse

from kafkats_airflow.ui.rendering import PLOTLY

router = APIRouter()

STYLES: Final = (
    "'sha256-47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU='",
    "'sha256-ji27qzEtxXZW+7dun6UwjHXJ18e6WAin1VvNtkzIE/o='",
)
"""Hashes of the two <style> elements that the script makes: an empty one, and that of its maps."""


@cache
def _file() -> Path | None:
    """Return the script's file. The package is found, not imported: that would take a second."""
    found = find_spec("plotly")
    for folder in (found.submodule_search_locations or ()) if found else ():
        path = Path(folder, "package_data", "plotly.min.js")
        if path.is_file():
            return path
    return None


@router.get(f"/{PLOTLY}")
def script() -> FileResponse:
    """Return the script."""
    path = _file()
    if path is None:
        raise HTTPException(404, "The package plotly is not installed beside Airflow.")
    return FileResponse(path, media_type="text/javascript")
