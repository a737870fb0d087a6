"""Makes docs/DAGs.md from the docstrings of dags/: each is its DAG's runbook. With --check only compares.

python docs/dags_page.py [--check]
"""

from __future__ import annotations

import ast
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "DAGs.md"
HEAD = """\
# The DAGs

Made from the docstrings of `dags/` by `docs/dags_page.py`; change those, then run `scripts/lint --fix`.
"""


def page() -> str:
    """The whole page."""
    return "\n".join([HEAD, *(section(path) for path in sorted((ROOT / "dags").glob("*.py")))])


def section(path: Path) -> str:
    """One DAG: its docstring, then what can be set when it is triggered."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    prose = (ast.get_docstring(tree) or "").replace("### ", "## ", 1)
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)]
    dag = next(call for call in calls if call.func.id == "DAG")
    given = {keyword.arg: keyword.value for keyword in dag.keywords}
    facts = f"DAG `{ast.literal_eval(dag.args[0])}`, schedule `{ast.unparse(given['schedule'])}`, `dags/{path.name}`"
    rows = [row(key.value, value) for key, value in zip(given["params"].keys, given["params"].values, strict=True)]
    return "\n".join([prose, "", facts, "", "| param | default | meaning |", "|---|---|---|", *rows, ""])


def row(name: str, param: ast.Call) -> str:
    given = {keyword.arg: ast.literal_eval(keyword.value) for keyword in param.keywords}
    if not param.args:
        default = "to be given"
    else:
        default = "" if isinstance(param.args[0], ast.Name) else f"`{ast.unparse(param.args[0])}`"
    meaning = given.get("description", "")
    if choices := given.get("enum"):
        meaning += f" ({', '.join(map(str, choices))})"
    return f"| `{name}` | {default} | {meaning} |"


def main() -> int:
    made = page()
    if "--check" not in sys.argv[1:]:
        PAGE.write_text(made, encoding="utf-8")
    elif not PAGE.exists() or PAGE.read_text(encoding="utf-8") != made:
        print("docs/DAGs.md is not what the docstrings say: run scripts/lint --fix", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
