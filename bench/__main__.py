"""python -m bench [names...]: measure, print every figure with its goal and PASS or FAIL. See README.md."""

from __future__ import annotations

import argparse
import importlib
import sys
import time

from bench.harness import Figure, tell

FAMILIES = ("rebuild", "broker", "dumplog", "memory", "many", "spark")


def main() -> int:
    parser = argparse.ArgumentParser(prog="scripts/bench", description=__doc__)
    parser.add_argument(
        "names", nargs="*", choices=[*FAMILIES, []], help="which families of figures; all when none is given"
    )
    parser.add_argument(
        "--small", action="store_true", help="small inputs: tries the programs, says nothing about speed"
    )
    args = parser.parse_args()
    done: list[Figure] = []
    for name in args.names or FAMILIES:
        family = importlib.import_module(f"bench.{name}")
        print(f"\n{name}: {(family.__doc__ or '').partition('.')[0].strip()}")
        began = time.monotonic()
        for figure in family.figures(small=args.small):
            done.append(figure)
            print(
                f"{figure.verdict or '-':5}{figure.value_text:>12}  {figure.goal_text:>10}  {figure.name}  ({figure.detail})",
                flush=True,
            )
        tell(f"{name} took {time.monotonic() - began:.0f} s")
    return int(any(figure.verdict == "FAIL" for figure in done))


if __name__ == "__main__":
    sys.exit(main())
