"""Makes docs/{request,result,progress}.schema.json from kafkats/{request,result,progress}.py. With --check only compares.

python tools/requests_page.py [--check]
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any, Final

from pages import write_or_compare
from pydantic import BaseModel

from kafkats.config.option import Options
from kafkats.operations import OPERATIONS
from kafkats.progress import Progress
from kafkats.request import VERBS, Request, models_of
from kafkats.result import Result

DOCS: Final = Path(__file__).parents[1] / "docs"
DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"


def request_schema() -> str:
    """The JSON Schema of a request, with the options of every verb and operation."""
    made = _schema(Request)
    every = [model for name in OPERATIONS for model in models_of("plan", name)]
    every += [model for verb in VERBS.values() for model in verb.models]
    models = {model.__name__: _options(model) for model in every}
    made["properties"]["options"] = {
        "type": "object",
        "properties": dict(sorted(models.items())),
        "additionalProperties": False,
    }
    return json.dumps(made, indent=1) + "\n"


def result_schema() -> str:
    """The JSON Schema of a result. Other properties are those of newer versions."""
    return json.dumps(_schema(Result, "serialization"), indent=1) + "\n"


def progress_schema() -> str:
    """The JSON Schema of a progress. Other properties are those of newer versions."""
    return json.dumps(_schema(Progress, "serialization"), indent=1) + "\n"


def _schema(model: type[BaseModel], mode: Any = "validation") -> dict[str, Any]:
    made = model.model_json_schema(mode=mode)
    kinds = {"": made, **made.pop("$defs", {})}
    return {
        "$schema": DIALECT,
        **_plain(kinds.pop("")),
        "$defs": {k: _plain(v) for k, v in kinds.items()},
    }


def _options(model: type[Options]) -> dict[str, Any]:
    """The options of a model. None is required: those that are left out have their defaults."""
    made = _plain(model.model_json_schema())
    return {"type": "object", "properties": made["properties"], "additionalProperties": False}


def _plain(kind: dict[str, Any]) -> dict[str, Any]:
    """Without the titles that pydantic makes of names, and without defaults, which the code has."""
    fields = {
        name: {key: value for key, value in field.items() if key not in {"title", "default"}}
        for name, field in kind.get("properties", {}).items()
    }
    return {key: value for key, value in kind.items() if key != "title"} | (
        {"properties": fields} if fields else {}
    )


def main() -> int:
    return write_or_compare(
        {
            DOCS / "request.schema.json": request_schema(),
            DOCS / "result.schema.json": result_schema(),
            DOCS / "progress.schema.json": progress_schema(),
        },
        "docs/{stale} are not what kafkats/request.py, result.py and progress.py say: run tools/requests_page.py",
    )


if __name__ == "__main__":
    sys.exit(main())
