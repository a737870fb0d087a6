"""The product's code in figures, for any commit. See scripts/shape.

statements          ast.stmt nodes in kafkats, pyspark_kafkats, spark_jobs, plugins and dags
Any                 names `Any`, imports of it not counted
lines over 100      columns, of any line
modules over 400    lines
functions over 60   lines from `def` to the end, docstring included; kernels apart, whose loops are one function each
flat modules        files in kafkats/ itself, without __init__.py and __main__.py
clones              percentage of duplicated lines, by jscpd with 25 tokens and 4 lines
"""

from __future__ import annotations

import ast
import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[1]
PRODUCT: Final = ("kafkats", "pyspark_kafkats", "spark_jobs", "plugins", "dags")
COLUMNS: Final = 100
MODULE_LINES: Final = 400
FUNCTION_LINES: Final = 60
JSCPD: Final = "jscpd@4"


def sources(tree: Path) -> Iterator[Path]:
    """The product's Python files, sorted."""
    for folder in PRODUCT:
        yield from sorted((tree / folder).rglob("*.py"))


def shape(tree: Path) -> dict[str, str]:
    """The figures of the product's folders in `tree`."""
    statements = names = long_lines = lines = modules = 0
    large: list[str] = []
    functions: dict[bool, list[str]] = {False: [], True: []}
    for path in sources(tree):
        text = path.read_text(encoding="utf-8")
        rows = text.splitlines()
        where = path.relative_to(tree)
        lines, modules = lines + len(rows), modules + 1
        long_lines += sum(len(row) > COLUMNS for row in rows)
        if len(rows) > MODULE_LINES:
            large.append(str(where))
        for node in ast.walk(ast.parse(text, str(path))):
            statements += isinstance(node, ast.stmt)
            names += isinstance(node, ast.Name) and node.id == "Any"
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                length = (node.end_lineno or node.lineno) - node.lineno + 1
                if length > FUNCTION_LINES:
                    functions["kernels" in where.parts].append(f"{where}:{node.name}")
    flat = [path for path in (tree / "kafkats").glob("*.py") if not path.name.startswith("__")]
    return {
        "modules": str(modules),
        "lines": str(lines),
        "statements": str(statements),
        "Any": str(names),
        f"lines over {COLUMNS}": str(long_lines),
        f"modules over {MODULE_LINES}": _count(large),
        f"functions over {FUNCTION_LINES}": _count(functions[False]),
        f"functions over {FUNCTION_LINES}, kernels": _count(functions[True]),
        "flat modules of kafkats": str(len(flat)),
        "clones": clones(tree),
    }


def _count(names: list[str]) -> str:
    return f"{len(names)} " + " ".join(name.rsplit("/", 1)[-1] for name in names) if names else "0"


def clones(tree: Path) -> str:
    """Return the result of jscpd, or the reason why there is none."""
    if shutil.which("npx") is None:
        return "no npx"
    with tempfile.TemporaryDirectory() as into:
        words = [
            "--min-tokens",
            "25",
            "--min-lines",
            "4",
            "--reporters",
            "json",
            "--output",
            into,
            "--silent",
        ]
        folders = [str(tree / folder) for folder in PRODUCT]
        command = ["npx", "--yes", JSCPD, *words, "--format", "python", *folders]
        try:
            subprocess.run(command, check=True, capture_output=True, timeout=300)
            total = json.loads(Path(into, "jscpd-report.json").read_text())["statistics"]["total"]
        except (OSError, subprocess.SubprocessError, ValueError, KeyError) as e:
            return f"no {JSCPD} ({type(e).__name__})"
    return f"{total['percentage']} % of lines, {total['clones']} places"


def checkout(commit: str, into: Path) -> Path:
    """The product's folders at `commit`, below `into`."""
    tree = into / commit.replace("/", "-")
    tree.mkdir()
    archive = subprocess.run(
        ["git", "archive", commit, *PRODUCT], cwd=ROOT, check=True, capture_output=True
    )
    subprocess.run(["tar", "-x", "-C", str(tree)], input=archive.stdout, check=True)
    return tree


def main() -> None:
    commits = sys.argv[1:]
    with tempfile.TemporaryDirectory() as into:
        trees = {commit: checkout(commit, Path(into)) for commit in commits} or {"work tree": ROOT}
        found = {name: shape(tree) for name, tree in trees.items()}
    print(f"{'':30}" + "".join(f"{name[:18]:>20}" for name in found))
    for figure in next(iter(found.values())):
        values = [one[figure] for one in found.values()]
        print(f"{figure:30}" + "".join(f"{value.split()[0]:>20}" for value in values))
    for name, one in found.items():
        for figure, value in one.items():
            if " " in value:
                print(f"{name}: {figure}: {value}")


if __name__ == "__main__":
    main()
