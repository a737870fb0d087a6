"""Which functions, classes and methods of the product's code does nothing in it refer to?

References are resolved through imports, also re-exports: `offset_index.lookup` is another function than the command `lookup`.
A re-export alone is no reference. Where a module is used as a value (a table of formats, an import by name), any attribute of
that name counts.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

ROOT: Final = Path(__file__).parents[2]
PRODUCT: Final = {
    "kafkats": "",
    "pyspark_kafkats": "",
    "spark_jobs": "spark_jobs",
    "plugins": "plugins",
    "dags": "dags",
}
"""Folder -> the part of its path that is no package: `plugins/kafkats_airflow/x.py` is `kafkats_airflow.x`."""

_REGISTER: Final = (".command", ".group", "router.get", "_validator", "_serializer")

Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


class Module(NamedTuple):
    name: str
    path: Path
    tree: ast.Module
    imports: dict[str, set[str]]
    """alias -> `module` or `module.name`; functions may import different ones under one alias"""


def modules(root: Path = ROOT) -> dict[str, Module]:
    found = {}
    for folder, prefix in PRODUCT.items():
        for path in sorted((root / folder).rglob("*.py")):
            parts = path.relative_to(root / prefix if prefix else root).with_suffix("").parts
            name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
            tree = ast.parse(path.read_text(encoding="utf-8"), str(path))
            found[name] = Module(name, path, tree, _imports(tree))
    return found


def _imports(tree: ast.Module) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                name = alias.name if alias.asname else alias.name.split(".")[0]
                found.setdefault(alias.asname or name, set()).add(name)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            for alias in node.names:
                found.setdefault(alias.asname or alias.name, set()).add(
                    f"{node.module}.{alias.name}"
                )
    return found


def unreferenced(root: Path = ROOT) -> list[str]:
    """`module.name` and `module.Class.method`, sorted."""
    every = modules(root)
    search = _Search(every)
    return sorted(
        name
        for module in every.values()
        for name, top_level in _definitions(module)
        if not (search.has(name) if top_level else name.rsplit(".", 1)[-1] in search.attributes)
    )


def _definitions(module: Module) -> Iterator[tuple[str, bool]]:
    for node in module.tree.body:
        called_by_python = isinstance(node, Definition) and node.name.startswith("__")
        if isinstance(node, Definition) and not called_by_python and not _registered(node):
            yield f"{module.name}.{node.name}", True
        if isinstance(node, ast.ClassDef):
            for inner in node.body:
                if (
                    isinstance(inner, Definition)
                    and not inner.name.startswith("__")
                    and not _registered(inner)
                ):
                    yield f"{module.name}.{node.name}.{inner.name}", False


def _registered(node: Definition) -> bool:
    """Whether a decorator hands it to a library that calls it: a command of click, a check of pydantic, a route."""
    return any(
        isinstance(one, ast.Call) and ast.unparse(one.func).endswith(_REGISTER)
        for one in node.decorator_list
    )


def _variables(statement: ast.stmt) -> set[str]:
    """Names of parameters, fields and local variables: they hide imports of the same name."""
    if not isinstance(statement, Definition):
        return set()
    stored = {
        node.id
        for node in ast.walk(statement)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
    }
    return stored | {node.arg for node in ast.walk(statement) if isinstance(node, ast.arg)}


class _Search:
    """`names` are resolved references, `attributes` what is asked of any value, or named in a string."""

    def __init__(self, every: dict[str, Module]) -> None:
        self.every = every
        self.names: set[str] = set()
        self.attributes: set[str] = set()
        self.values: set[str] = set()
        for module in every.values():
            for statement in module.tree.body:
                self._statement(module, statement)

    def has(self, name: str) -> bool:
        module, _, word = name.rpartition(".")
        return name in self.names or (module in self.values and word in self.attributes)

    def resolve(self, name: str) -> str:
        """Where it is defined, through re-exports."""
        for _ in range(8):
            module, _, word = name.rpartition(".")
            if (
                name in self.every
                or module not in self.every
                or word not in self.every[module].imports
            ):
                break
            (name, *_) = sorted(self.every[module].imports[word])
        return name

    def _statement(self, module: Module, statement: ast.stmt) -> None:
        """What a definition says of itself is no reference to it."""
        own = f"{module.name}.{statement.name}" if isinstance(statement, Definition) else ""
        bases: set[int] = set()
        variables = _variables(statement)
        for node in ast.walk(statement):
            if isinstance(node, ast.Attribute):
                self._attribute(module, node, own, bases, variables)
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                self._string(node.value)
        for node in ast.walk(statement):
            if isinstance(node, ast.Name) and id(node) not in bases and node.id not in variables:
                for name in self._targets(module, node.id):
                    (self.values if name in self.every else self.names).add(
                        name if name != own else ""
                    )

    def _attribute(
        self, module: Module, node: ast.Attribute, own: str, bases: set[int], variables: set[str]
    ) -> None:
        """`alias.name` where alias is a module of ours; any other attribute is one of some value."""
        dotted = ast.unparse(node.value) if isinstance(node.value, ast.Name | ast.Attribute) else ""
        head, _, rest = dotted.partition(".")
        targets = set() if head in variables else self._targets(module, head)
        whole = {
            f"{base}.{rest}.{node.attr}" if rest else f"{base}.{node.attr}" for base in targets
        }
        ours = {name for name in whole if name.rpartition(".")[0] in self.every}
        if not ours:
            self.attributes.add(node.attr)
            return
        self.names |= {self.resolve(name) for name in ours} - {own}
        bases |= {id(inner) for inner in ast.walk(node.value) if isinstance(inner, ast.Name)}

    def _targets(self, module: Module, alias: str) -> set[str]:
        return {
            self.resolve(name) for name in module.imports.get(alias, {f"{module.name}.{alias}"})
        }

    def _string(self, text: str) -> None:
        """A module that is imported by name, or a name that is looked up."""
        if text in self.every and "." in text:
            self.values.add(text)
        elif text.isidentifier():
            self.attributes.add(text)
        elif text.startswith(("kafkats.", "kafkats_airflow.")) and text.endswith("."):
            self.values |= {name for name in self.every if name.startswith(text)}
