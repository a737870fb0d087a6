"""Dockerfile, .dockerignore and docker-compose.yml without Docker: which files reach the image, and the commands they name.

Only what our own two files use is understood; anything else is an error, so that they cannot outgrow their tests.
"""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path, PurePosixPath
from typing import Any, Final, NamedTuple

INSTRUCTIONS: Final = {
    "FROM",
    "ARG",
    "USER",
    "RUN",
    "WORKDIR",
    "COPY",
    "ADD",
    "ENV",
    "ENTRYPOINT",
    "CMD",
}


class Instruction(NamedTuple):
    name: str
    words: str
    """Everything after the name, on one line."""


def instructions(dockerfile: str) -> list[Instruction]:
    """The instructions in order. Raises AssertionError for one that is not understood here."""
    lines = [line for line in dockerfile.splitlines() if line.strip() and not line.startswith("#")]
    joined = re.sub(r"\\\n\s*", "", "\n".join(lines))
    found = [Instruction(*line.split(maxsplit=1)) for line in joined.splitlines()]
    assert {one.name for one in found} <= INSTRUCTIONS, found
    return found


def stages(all_of: list[Instruction]) -> dict[str, list[Instruction]]:
    """The instructions of each image of the file, by its name; before the first there are only ARGs."""
    found: dict[str, list[Instruction]] = {}
    name = ""
    for one in all_of:
        if one.name == "FROM":
            _base, _as, name = one.words.split()
        found.setdefault(name, []).append(one)
    assert {one.name for one in found.pop("", ())} <= {"ARG"}
    return found


@cache
def _pattern(glob: str) -> re.Pattern[str]:
    """A pattern of .dockerignore: it matches a path and everything below; only a leading `**/` crosses folders."""
    anywhere = glob.startswith("**/")
    rest = re.escape(glob.removeprefix("**/")).replace(r"\*", "[^/]*")
    assert "**" not in glob.removeprefix("**/") and not set("?[") & set(glob), glob
    return re.compile(("(.*/)?" if anywhere else "") + rest + "(/.*)?")


def sent(dockerignore: str, path: str) -> bool:
    """Whether the file `path` (relative to the folder of the Dockerfile) is in the build's context: the last match decides."""
    kept = True
    for line in dockerignore.splitlines():
        glob = line.strip()
        if glob and not glob.startswith("#") and _pattern(glob.removeprefix("!")).fullmatch(path):
            kept = glob.startswith("!")
    return kept


def copied(all_of: list[Instruction], context: Path, image: Path) -> Iterator[Path]:
    """Replays every COPY of files from the folder `context` into the folder `image`; yields the copies.

    As Docker does: a folder's contents, not the folder, are copied; an absent source fails (FileNotFoundError).
    """
    here = PurePosixPath("/")
    ignored = (context / ".dockerignore").read_text()
    for name, words in all_of:
        if name == "WORKDIR":
            here /= words
        if name != "COPY":
            continue
        *sources, to = [word for word in shlex.split(words) if not word.startswith("--")]
        assert len(sources) == 1 or to.endswith("/"), words
        target = image / str(here / to).lstrip("/")
        for source in sources:
            files = [
                path
                for path in _files(context / source)
                if sent(ignored, str(path.relative_to(context)))
            ]
            if not files:
                raise FileNotFoundError(f"COPY {words}: no {source} in the build context")
            for path in files:
                inside = (
                    path.relative_to(context / source)
                    if (context / source).is_dir()
                    else Path(path.name)
                )
                copy = (
                    target / inside if (context / source).is_dir() or to.endswith("/") else target
                )
                copy.parent.mkdir(parents=True, exist_ok=True)
                yield Path(shutil.copy(path, copy))


def _files(source: Path) -> list[Path]:
    return (
        sorted(path for path in source.rglob("*") if path.is_file())
        if source.is_dir()
        else [source]
    )


def environment(all_of: list[Instruction], image: Path, before: dict[str, str]) -> dict[str, str]:
    """`before` with what ENV sets, the image's folders as they lie below `image`."""
    found = dict(before)
    for name, words in all_of:
        if name == "ENV":
            for key, _, value in (word.partition("=") for word in shlex.split(words)):
                value = re.sub(r"\$(\w+)", lambda match: found.get(match[1], ""), value)
                found[key] = re.sub(r"(?<![\w/])/opt/", f"{image}/opt/", value)
    return found


def health_check(
    service: dict[str, Any], ports: Mapping[str, int], environment: Mapping[str, str]
) -> tuple[int, str]:
    """Runs a service's health check of docker-compose.yml here, with `ports` for the ports it names.

    Returns its exit code and what it printed.
    """
    kind, *words = service["healthcheck"]["test"]
    assert kind in {"CMD", "CMD-SHELL"}, kind
    for port, ours in ports.items():
        words = [re.sub(rf"(?<=localhost:){port}\b", str(ours), word) for word in words]
    command = words if kind == "CMD" else ["sh", "-c", *words]
    ran = subprocess.run(
        command, env=dict(environment), capture_output=True, text=True, check=False
    )
    return ran.returncode, ran.stdout + ran.stderr
