"""The messages of brokers that do not start, or that set files aside, by generation."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from kafkats.recovery.rules import StartRule

UNMARKED: Final = (
    "the whole stop is unclean for the controller, which (with ELR: from 4.0, new clusters from"
    " 4.1) takes the broker out of ISR and ELR"
)
"""What the removal of a clean-shutdown marker costs."""
BELOW: Final = (
    "records that consumers may have read are gone here. Let a replica that has them lead, and do"
    " not force an unclean leader election"
)
"""What it means that a log will end below its high watermark."""


def bad_directory(path: str, name: str) -> str:
    return (
        f"Found directory {path}, '{name}' is not in the form of topic-partition or"
        " topic-partition.uniqueId-delete (if marked for deletion)."
    )


def bad_number(text: str) -> str:
    return f'java.lang.NumberFormatException: For input string: "{text}"'


def bad_size(rule: StartRule, path: str, size: int) -> str:
    if rule.name in ("0.10.0", "0.10", "0.11", "1.0"):
        return "Record size is smaller than minimum record overhead (14)."
    return f"Found record size {size} smaller than minimum record overhead (14) in file {path}."


def held_lock(path: str) -> str:
    return (
        f"Failed to acquire lock on file .lock in {path}. A Kafka instance in another process or"
        " thread is using this directory."
    )


def duplicate(rule: StartRule, first: str, second: str, partition: str) -> str:
    if rule.name in ("0.8", "0.9", "0.10.0", "0.10", "0.11"):
        return f"Duplicate log directories found: {first}, {second}!"
    return f"Duplicate log directories for {partition} are found in both {first} and {second}."


def not_renamed(partition: str, log_dir: str) -> str:
    return f"Error while renaming dir for {partition} in log dir {log_dir}"


def corrupt_index(path: str, last: int, base: int) -> str:
    return (
        f"Corrupt index found, index file ({path}) has non-zero size but the last offset is {last}"
        f" and the base offset is {base}"
    )
