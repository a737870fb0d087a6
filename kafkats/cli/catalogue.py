"""The program's commands, each with its module and its sentence in the list of commands.

The list is shown without loading them, and a command loads no other: each imports what declares its
options.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, MutableMapping
from importlib import import_module
from typing import Final, NamedTuple

import click


class Entry(NamedTuple):
    """A command of `kafkats/cli/<module>.py`, and the first sentence of its help."""

    module: str
    sentence: str
    name: str = ""
    """Of the function, if it is not the command's."""


CATALOGUE: Final[Mapping[str, Entry]] = {
    "apply": Entry("running", "Carry out an approved plan, and prove the result."),
    "census": Entry("reading", "List bytes, batches and records by message format."),
    "certify": Entry("reading", "Certify that no batch has an older or newer message format."),
    "diff": Entry("groups", "Compare the offsets of two clusters at the same times."),
    "dump": Entry("reading", "Print a file of a log directory: one JSON object per entry."),
    "export": Entry("lookup", "Write the offsets at a time, for Spark or a consumer group."),
    "failover": Entry("groups", "Compute where a consumer group continues in another cluster."),
    "help": Entry(
        "pages", "Show a page of the documentation, or the help of a command.", "show_page"
    ),
    "inventory": Entry("reading", "List what is on the disks: bytes, offsets, times, formats."),
    "lag": Entry("groups", "Show how far consumer groups are behind."),
    "latency": Entry("groups", "Show how late records reached the broker."),
    "ledger": Entry("ledger", "Record the phases of a format migration, broker by broker."),
    "lookup": Entry("lookup", "Show the offset of every partition at a time."),
    "plan": Entry("planning", "Decide what to do, and write it down for approval."),
    "preflight": Entry("reading", "Predict the start of a broker on its log directories."),
    "purge": Entry("running", "Delete the old files of a run: only this frees their space."),
    "recover": Entry("recovering", "Recover logs before a broker's start, or hold it back."),
    "release": Entry("running", "Break the reservation of log directories."),
    "show": Entry("planning", "List the changes of a plan, with bytes and reasons."),
    "simulate": Entry("retention", "Forecast what a broker with these settings will do, and when."),
    "undo": Entry("running", "Put back every file of a run."),
    "verify": Entry("reading", "List the defects of logs and indexes, by kind and severity."),
}


class LoadedCommands(MutableMapping[str, click.Command]):
    """The commands of a catalogue by name: each is loaded at its first use, and then `finish`ed."""

    def __init__(
        self, catalogue: Mapping[str, Entry], finish: Callable[[str, click.Command], None]
    ) -> None:
        self._catalogue, self._finish = catalogue, finish
        self._loaded: dict[str, click.Command] = {}

    def __getitem__(self, name: str) -> click.Command:
        if name not in self._loaded:
            entry = self._catalogue[name]
            module = import_module(f"kafkats.cli.{entry.module}")
            command: click.Command = getattr(module, entry.name or name)
            self._finish(name, command)
            self._loaded[name] = command
        return self._loaded[name]

    def __setitem__(self, name: str, command: click.Command) -> None:
        self._loaded[name] = command

    def __delitem__(self, name: str) -> None:
        del self._loaded[name]

    def __iter__(self) -> Iterator[str]:
        yield from {**self._catalogue, **self._loaded}

    def __len__(self) -> int:
        return len({*self._catalogue, *self._loaded})
