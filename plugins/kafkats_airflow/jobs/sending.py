"""The files that a host gets with a request and sends back: in the folder of all runs on both."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import IO, TYPE_CHECKING, Final, NamedTuple

from kafkats.detached import parcels
from kafkats.detached.messages import Answer, Files
from kafkats.errors import KafkatsError, Refused, UsageError, storage
from kafkats.plans.files import read_json
from kafkats.request import Request
from kafkats_airflow import shared_folder

if TYPE_CHECKING:
    from kafkats.logdir.strict_json import Json

_OF_THE_HOST: Final = frozenset({"certified", "logs", "place"})
"""Options whose paths are of the host: log directories, and the work area."""
_RUNS: Final = frozenset({"of_run", "runs"})
"""Options that name RUNs."""


class Parcel(NamedTuple):
    """The files of a request. `ledgers` are those of migrations: other hosts write them, too.

    `mark` is the name of a token in the folder: a host that sees it shares the folder, and neither
    gets nor removes files. `fixed` are files that no host changes: the record of an approval.
    """

    folder: Path
    mark: str
    paths: tuple[Path, ...]
    ledgers: tuple[Path, ...]
    fixed: tuple[Path, ...] = ()

    @property
    def files(self) -> Files:
        """Read the files as they are now. Raises as `parcels.listed`."""
        return parcels.listed(self.folder, self.paths)

    def unpack(self, stream: IO[bytes], answer: Answer) -> None:
        """Take the files that came back. Raises as parcels.unpack, and as `merge`."""
        from kafkats.migration.merging import merge

        self._refuse_fixed(answer.files)
        with tempfile.TemporaryDirectory() as place:
            apart = {
                str(one.relative_to(self.folder)): Path(place, str(number))
                for number, one in enumerate(self.ledgers)
            }
            parcels.unpack(stream, self.folder, self.paths, answer.files, apart)
            for one, came in zip(self.ledgers, apart.values(), strict=True):
                if came.exists():
                    merge(came, one)

    def removed(self, answer: Answer) -> None:
        """Remove the files that the work has removed: a ledger is none, whatever the host says.

        Raises Refused, StorageFailed.
        """
        self._refuse_fixed(answer.gone)
        gone = [name for name in answer.gone if self.folder / name not in self.ledgers]
        parcels.remove(self.folder, self.paths, gone)

    def _refuse_fixed(self, names: Iterable[str]) -> None:
        for name in names:
            if (path := self.folder / name) in self.fixed:
                raise Refused("a host may not change the record of an approval", path=path)


def parcel_of(request: Request, folder: Path) -> Parcel:
    """Return the files of a request.

    Raises UsageError for a path that a host cannot get, StorageFailed.
    """
    folder = Path(os.path.abspath(folder))  # noqa: PTH100  # links are followed by neither side
    log_dirs = {one.path for one in request.log_dirs}
    named = [path for path in _paths(request) if path not in log_dirs]
    ledgers = tuple(dict.fromkeys(_ledgers(request)))
    for path in (*named, *ledgers):
        if not path.is_relative_to(folder):
            raise UsageError(
                f"is not in {folder}: a host by SSH and a pod get files of the folder of all"
                " runs only",
                path=path,
            )
    paths = tuple(dict.fromkeys([*named, *ledgers]))
    with storage(folder, "looking for its token"):
        mark = f"{shared_folder.PREFIX}{shared_folder.look(str(folder)).mark}"
    fixed = () if request.approval is None else (request.approval.record,)
    return Parcel(folder, mark, paths, ledgers, fixed)


def _paths(request: Request) -> Iterator[Path]:
    if request.plan is not None:
        yield request.plan.folder
    for run in request.runs:
        yield from _run_and_plan(run.folder)
    if request.approval is not None:
        yield request.approval.record
    for one, path in request.option_paths():
        if one.name in _RUNS:
            yield from _run_and_plan(path)
        elif one.name not in _OF_THE_HOST:
            yield path


def _run_and_plan(run: Path) -> Iterator[Path]:
    """Yield the folder of a RUN, and that of its plan, which lies beside it."""
    yield run
    digest = _content_of(run / "run.json").get("digest")
    for plan in sorted(run.parent.glob("*/plan.json")):
        if _content_of(plan).get("digest") == digest:
            yield plan.parent


def _content_of(path: Path) -> Mapping[str, Json]:
    """Return a document, nothing for one that is not there or cannot be read: the host says so."""
    with suppress(KafkatsError):
        return read_json(path)
    return {}


def _ledgers(request: Request) -> Iterator[Path]:
    """Yield the ledgers in which the work is recorded: an option of a plan, kept in it and in its
    runs.
    """
    for one, path in request.option_paths():
        if one.name == "ledger":
            yield path
    if request.plan is not None:
        options = _content_of(request.plan.folder / "plan.json").get("options")
        if isinstance(options, dict) and options.get("ledger"):
            yield Path(str(options["ledger"]))
    for run in request.runs:
        if ledger := _content_of(run.folder / "run.json").get("ledger"):
            yield Path(str(ledger))
