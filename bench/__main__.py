"""`python -m bench [names...]`: measure, and print every figure with its goal and PASS or FAIL.

See README.md.
"""

from __future__ import annotations

import argparse
import importlib
import os
import sys
import time

from bench.harness import Figure, Table, tell
from bench.page import write_section

FAMILIES = (
    "rebuild",
    "convert",
    "migrate",
    "workers",
    "columns",
    "lookup",
    "broker",
    "appends",
    "guard",
    "restart",
    "recovery",
    "dumplog",
    "memory",
    "many",
    "parts",
    "retain",
    "compaction",
    "tables",
    "spark",
    "source",
)


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="scripts/bench", description="Measure kafkats against its goals."
    )
    parser.add_argument(
        "names",
        nargs="*",
        metavar="name",
        help=f"families of figures, all if none is given: {', '.join(FAMILIES)}",
    )
    parser.add_argument(
        "--small",
        action="store_true",
        help="small inputs: tries the programs, says nothing about speed",
    )
    args = parser.parse_args()
    if unknown := set(args.names) - set(FAMILIES):
        parser.error(f"no such family: {', '.join(sorted(unknown))}")
    began = time.monotonic()
    figures = [
        figure for name in args.names or FAMILIES for figure in _family(name, small=args.small)
    ]
    failed = [figure for figure in figures if figure.verdict == "FAIL"]
    seconds = time.monotonic() - began
    print(
        f"\n{sum(f.verdict == 'PASS' for f in figures)} passed, {len(failed)} failed, {seconds:.0f} s"
    )
    for figure in failed:
        print(f"FAIL {figure.name}: {figure.value_text}, goal {figure.goal_text}")
    return int(bool(failed))


def _family(name: str, *, small: bool) -> list[Figure]:
    family = importlib.import_module(f"bench.{name}")
    about = family.__doc__ or ""
    print(f"\n{name}", flush=True)
    began, load, shown = time.monotonic(), os.getloadavg()[0], []
    for one in family.figures(small=small):
        shown.append(one)
        print(one.text if isinstance(one, Table) else _line(one), flush=True)
    tell(f"{name} took {time.monotonic() - began:.0f} s")
    if not small:
        write_section(name, about, shown, load, (*FAMILIES, "kernels"))
    return [one for one in shown if isinstance(one, Figure)]


def _line(figure: Figure) -> str:
    detail = f"  ({figure.detail})" if figure.detail else ""
    return f"{figure.verdict or '-':5}{figure.value_text:>10}  {figure.goal_text:>10}  {figure.name}{detail}"


if __name__ == "__main__":
    sys.exit(main())
