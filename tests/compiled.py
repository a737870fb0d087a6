"""`python -m tests.compiled`: compiles the kernels that most tests need, before many processes would each do it.

That takes 20 s of processor time in a fresh clone, and two where it was done before.
"""

from __future__ import annotations

from contextlib import redirect_stdout, suppress
from io import StringIO
from pathlib import Path
from tempfile import TemporaryDirectory

from kafkats.cli import main
from tests.builders.directories import unpacked


def compile_kernels(folder: Path) -> None:
    """Run commands on a log directory with all codecs, unpacked in `folder`. What they say is for the tests to judge."""
    root, plan = unpacked("matrix-0.10.2.2-v1", folder), folder / "plan"
    for words in (
        ("verify", "--deep", root),
        ("plan", "migrate", root, "--to-magic", 2, "-o", plan),
        ("apply", plan, "--digest", "any", "--jobs", 1),
        ("verify", "--deep", root),
        ("lookup", root, "--at", "2020-09-15T00:00:00Z"),
        ("dump", next(root.glob("gzip-*/*.log"))),
    ):
        with suppress(SystemExit), redirect_stdout(StringIO()):
            main([str(word) for word in words])


if __name__ == "__main__":
    with TemporaryDirectory() as made:
        compile_kernels(Path(made))
