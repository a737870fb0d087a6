"""The options of the command line itself, before the command. No model has them: no operation reads
them, and the program's help is shown without pydantic.
"""

from __future__ import annotations

from typing import Final

from kafkats.config.declaration import Declared, Kind, Option

_FLAG: Final = Kind(bool)
PROGRAM: Final = (
    Declared(
        "as_json", Option("As the same option of a command", "--json", hidden=True), False, _FLAG
    ),
    Declared(
        "verbose",
        Option("With --version: the C libraries of checksums and codecs", "-v"),
        False,
        _FLAG,
    ),
    Declared("version", Option("Show the version and exit", "--version"), False, _FLAG),
    Declared(
        "master",
        Option(
            "Run on this Spark, such as local[4] or spark://HOST:7077, instead of in processes of"
            " this machine",
            "--spark",
            "MASTER",
        ),
        None,
        Kind(str, optional=True),
    ),
)
