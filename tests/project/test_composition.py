"""Commands and jobs call the same composition: what both still put together by themselves may only become less."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
SHARED_NAMES: Final = 57
"""Names of the library that both front ends import. The goal is 0; whoever lowers the count lowers this."""
COMPOSITION: Final = ("kafkats.execution", "kafkats.flow")
"""Modules that both are to import: executors, and the operations put together."""


def imported(folder: Path) -> Iterator[tuple[str, str]]:
    """(module, name) of the library that the modules in `folder` import."""
    for path in folder.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if (
                isinstance(node, ast.ImportFrom)
                and (node.module or "").partition(".")[0] == "kafkats"
            ):
                yield from ((node.module or "", alias.name) for alias in node.names)


def is_composition(module: str) -> bool:
    return module.startswith(COMPOSITION)


def test_names_that_commands_and_jobs_both_import() -> None:
    commands = {
        one for one in imported(ROOT / "kafkats" / "cli") if not one[0].startswith("kafkats.cli")
    }
    jobs = set(imported(ROOT / "spark_jobs"))
    both = sorted(
        f"{module}.{name}"
        for module, name in commands & jobs
        if not is_composition(module) and not is_composition(f"{module}.{name}")
    )
    assert len(both) == SHARED_NAMES, "\n".join(both)
