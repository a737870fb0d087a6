"""Suggestions for forms: the volumes and topic globs that the deployment's policy names.

They are read when a DAG is imported, so nothing here may fail, or take long: at most LARGEST_BYTES
are read, for at most SECONDS, and one line at a time is looked at, in block or flow style. A YAML
parser needs minutes for some texts. A policy that cannot be read, or is written otherwise, gives no
suggestions: the tasks of a run say what is wrong with it.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple

LARGEST_BYTES: Final = 256 * 1024
SECONDS: Final = 1.0
MOST: Final = 20
"""Suggestions of a kind: more are no help in a form."""
LONGEST: Final = 120
_TOP: Final = re.compile(r"^([a-z]+):(?:\s+([\[{].*)|\s*(?:#.*)?)$")
_WORD: Final = r"\"[^\"\\]+\"|'[^']+'|[^\s\"'#:,{}\[\]&!|>%@`][^\s:,{}\[\]]*"
_FLOW: Final = re.compile(rf"[{{,]\s*[\"']?(?:path|broker)[\"']?:\s+({_WORD})")
_KEY: Final = re.compile(rf"({_WORD}):\s|([{{\[])|([}}\]])")
_TOPIC: Final = re.compile(r"^( +)(\"[^\"\\]+\"|'[^']+'|[^\s\"'#:{}&!|>%@`][^\s:]*):(\s|$)")
_VOLUME: Final = re.compile(
    r"^\s*(?:- +)?(path|broker):\s+(\"[^\"\\]+\"|'[^']+'|[^\s\"'#{}\[\]&!|>%@`]\S*)\s*(#.*)?$"
)


class Suggestions(NamedTuple):
    """The suggestions for the params `volumes` and `topics`; empty if nothing is known."""

    volumes: tuple[str, ...] = ()
    topics: tuple[str, ...] = ()


@cache
def suggestions(path: str) -> Suggestions:
    """Return the suggestions of a policy file. Never raises."""
    found: list[Suggestions] = []

    def read() -> None:
        try:
            with Path(path).open("rb") as file:
                data = file.read(LARGEST_BYTES + 1)
            if len(data) <= LARGEST_BYTES:
                found.append(suggested(data.decode()))
        except (OSError, ValueError):
            return

    # A file system that hangs keeps the thread, and not the import.
    reader = threading.Thread(target=read, name="suggestions of the policy", daemon=True)
    reader.start()
    reader.join(SECONDS)
    return found[0] if found else Suggestions()


def suggested(text: str) -> Suggestions:
    """Return the suggestions in the text of a policy."""
    volumes, topics, section, indent = list[str](), list[str](), "", ""
    for line in text.splitlines():
        if line[:1].strip() and line[0] not in "#-":
            top = _TOP.match(line)
            section, indent = top[1] if top else "", ""
            flow = (top[2] if top else "") or ""
            if section == "topics":
                topics += _keys(flow)
        else:
            flow = line
        if section == "volumes" and (words := _FLOW.findall(flow)):
            volumes += map(_plain, words)
        elif section == "volumes" and (volume := _VOLUME.match(line)):
            volumes.append(_plain(volume[2]))
        elif section == "topics" and (topic := _TOPIC.match(line)):
            indent = indent or topic[1]
            if topic[1] == indent:
                topics.append(_plain(topic[2]))
    return Suggestions(tuple(_few(volumes)), tuple(_few(topics)))


def _keys(flow: str) -> Iterator[str]:
    """Yield the keys of a mapping in flow style, without those of mappings in it."""
    depth = 0
    for found in _KEY.finditer(flow):
        depth += bool(found[2]) - bool(found[3])
        if found[1] and depth == 1:
            yield _plain(found[1])


def _plain(word: str) -> str:
    return word[1:-1] if word[0] in "\"'" else word


def _few(words: list[str]) -> Iterator[str]:
    """Yield the first MOST different words that a form can show."""
    known: dict[str, None] = dict.fromkeys(
        word for word in words if word.isprintable() and len(word) <= LONGEST
    )
    yield from list(known)[:MOST]
