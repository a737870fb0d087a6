"""Templates in everything that a person can write, and the search for what they would have given."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from tests.browser.standalone import Standalone

PASSWORD: Final = "pw-of-the-planted-connection"
VARIABLE: Final = "value-of-the-planted-variable"
PLANTED: Final = {
    "AIRFLOW_CONN_PLANTED": f'{{"conn_type": "generic", "host": "h", "password": "{PASSWORD}"}}',
    "AIRFLOW_VAR_PLANTED": VARIABLE,
    # Airflow refuses such run ids by itself; a deployment may allow them.
    "AIRFLOW__SCHEDULER__ALLOWED_RUN_ID_PATTERN": ".+",
}
ASKS: Final = "x{{ 7*7 }}y {{ conn.planted.password }} {{ var.value.planted }}"
GIVEN: Final = (PASSWORD, VARIABLE, "x49y")
"""What a template that was rendered would have left somewhere. No hexadecimal digits around 49: ids are made of those."""
PLAIN_WORDS: Final = ("topics", "attested_by", "group")
"""Params whose text a job takes as it is; the others of type string name a file, or are read as an amount."""
PLACES: Final = ("folder", "tables", "ledger")


def strings(params: Mapping[str, Any]) -> Iterator[str]:
    """The params of a DAG, as the API tells them, that take any text, or a list of texts; also dates, which Airflow does not check."""
    for name, one in params.items():
        schema = one["schema"]
        types = [schema["type"]] if isinstance(schema["type"], str) else schema["type"]
        if {"string", "array"} & set(types) and not {"enum", "pattern"} & schema.keys():
            yield name


def value(params: Mapping[str, Any], name: str, place: Path) -> Any:
    """The template as a value of this param. Folders are named by one inside of `place`."""
    if name in PLACES:
        return f"{place}/{name} {ASKS}"
    return [ASKS] if "array" in params[name]["schema"]["type"] else ASKS


def leaks(airflow: Standalone, *folders: Path) -> list[str]:
    """Where something of GIVEN is: in a log, a plan, a report, a file's name, a submit's arguments, any column of any table."""
    found = []
    for folder in (airflow.home / "logs", *folders):
        for path in folder.rglob("*"):
            found += [f"the name {path}" for word in GIVEN if word in path.name]
            found += _in_file(path) if path.is_file() else []
    found += _in_file(airflow.submitted) + _in_file(airflow.log)
    return found + [
        where for where, text in rows(airflow.home / "airflow.db") for word in GIVEN if word in text
    ]


def _in_file(path: Path) -> list[str]:
    data = path.read_bytes()
    return [f"{word} in {path}" for word in GIVEN if word.encode() in data]


def rows(database: Path) -> Iterator[tuple[str, str]]:
    """Every text, JSON or bytes of every table, with the table and the column that it is in."""
    with sqlite3.connect(f"file:{database}?mode=ro", uri=True) as connection:
        tables = [
            name
            for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
        ]
        for table in tables:
            cursor = connection.execute(f'SELECT * FROM "{table}"')
            columns = [column for column, *_ in cursor.description]
            for row in cursor:
                for column, cell in zip(columns, row, strict=True):
                    if isinstance(cell, bytes):
                        yield f"{table}.{column}", cell.decode(errors="replace")
                    elif isinstance(cell, str):
                        yield f"{table}.{column}", cell
