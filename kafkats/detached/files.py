"""The files of requests on a host, each at its place in the folder of all runs.

Several requests may name a file: the ledger of a migration, or a RUN that one undoes and another
proves. A file stays as long as another request names it. Under work that runs nobody replaces one;
a ledger gets the entries that it lacks.
"""

from __future__ import annotations

import tempfile
from collections.abc import Generator, Iterable
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Final, NamedTuple

from kafkats import clock
from kafkats.detached import parcels
from kafkats.detached.jobs import JOBS, Job, Sent, locked
from kafkats.detached.messages import Ask, Files
from kafkats.errors import CorruptFile, KafkatsError, Locked, storage
from kafkats.plans.files import make_folder

KEPT_MS: Final = 7 * clock.DAY_MS
"""How long the folder of a request is kept that nobody collects."""
_MOST_BYTES: Final = 2 * parcels.MOST_BYTES
_PIECE: Final = 1 << 20


class _Other(NamedTuple):
    """Another request of this host."""

    job: Job
    paths: tuple[Path, ...]

    def names(self, path: Path) -> bool:
        return any(path.is_relative_to(one) for one in self.paths)


@contextmanager
def held(runs: Path) -> Generator[None]:
    """Keep other requests from placing and removing files meanwhile. Raises StorageFailed."""
    with locked(_jobs(runs) / "lock-files"):
        yield


@contextmanager
def received(runs: Path, parcel: IO[bytes]) -> Generator[IO[bytes]]:
    """Yield a copy of a parcel, once all of it is here: nobody waits for a slow sender in a lock.

    Raises CorruptFile for one that is too large, StorageFailed.
    """
    place, left = _jobs(runs), _MOST_BYTES
    with storage(place, "receiving files"):
        copy = tempfile.TemporaryFile(dir=place)  # noqa: SIM115  # closed below
    with copy:
        with storage(place, "receiving files"):
            while piece := parcel.read(_PIECE):
                if (left := left - len(piece)) < 0:
                    raise CorruptFile("a parcel that is too large", path=runs)
                copy.write(piece)
            copy.seek(0)
        yield copy


def missing(runs: Path, job: Job, ask: Ask) -> Files:
    """Return the files of a request that are not here, or other ones than the worker's.

    Raises Locked for one that the running work of another request uses.
    """
    here = parcels.listed(runs, [runs / name for name in ask.files])
    found = {name: digest for name, digest in ask.files.items() if here.get(name) != digest}
    under_way = [one for one in _others(runs, job) if one.job.state() == "running"]
    for path in (runs / name for name in found if name in here):
        if path not in ask.ledgers and any(one.names(path) for one in under_way):
            raise Locked("other work on this host uses it, and the worker's differs", path=path)
    return found


def take(runs: Path, job: Job, ask: Ask, files: Files, parcel: IO[bytes]) -> None:
    """Place these files of a request. Raises as `parcels.unpack` and `merge`."""
    paths = {name: runs / name for name in files}
    # What was lost is done again, and its entries are written again.
    others = [one for one in _others(runs, job) if one.job.state() in {"running", "ended"}]
    kept = [
        name
        for name, path in paths.items()
        if path in ask.ledgers and path.exists() and any(one.names(path) for one in others)
    ]
    with tempfile.TemporaryDirectory(dir=_jobs(runs)) as place:
        apart = {name: Path(place, str(number)) for number, name in enumerate(kept)}
        parcels.unpack(parcel, runs, ask.paths, files, apart)
        for name, came in apart.items():
            _merge(came, paths[name])


def remove(runs: Path, job: Job, sent: Sent) -> None:
    """Remove the files of a request that no other one names. Raises StorageFailed."""
    _remove(runs, job, sent, parcels.names(runs, sent.paths))


def remove_old(runs: Path, now_ms: int) -> None:
    """Remove the folders of requests that ended long ago and that nobody has collected, and the
    files that came with them. What the work has written stays: nobody else has it.
    """
    old = []
    with suppress(OSError):
        for folder in _jobs(runs).iterdir():
            if folder.is_dir() and folder.stat().st_mtime * 1000 < now_ms - KEPT_MS:
                old.append(Job(folder))
    for job in old:
        with suppress(KafkatsError), held(runs):
            if job.state() != "running":
                _remove_unchanged(runs, job)
                job.forget()


def _remove_unchanged(runs: Path, job: Job) -> None:
    with suppress(KafkatsError):
        if (sent := job.sent()) is not None:
            here = parcels.listed(runs, [runs / name for name in sent.files])
            same = [name for name, digest in sent.files.items() if here.get(name) == digest]
            _remove(runs, job, sent, same)


def _remove(runs: Path, job: Job, sent: Sent, names: Iterable[str]) -> None:
    others = _others(runs, job)
    own = [name for name in names if not any(one.names(runs / name) for one in others)]
    parcels.remove(runs, sent.paths, own)


def _others(runs: Path, job: Job) -> list[_Other]:
    """Return the other requests of which this host has a folder."""
    found, place = [], _jobs(runs)
    with storage(place, "looking for other requests"):
        folders = list(place.iterdir())
    for folder in folders:
        if folder != job.folder:
            with suppress(KafkatsError):  # gone by now, or never read by anybody
                if (sent := Job(folder).sent()) is not None:
                    found.append(_Other(Job(folder), sent.paths))
    return found


def _jobs(runs: Path) -> Path:
    make_folder(runs / JOBS, "requests of other machines")
    return runs / JOBS


def _merge(came: Path, ledger: Path) -> None:
    from kafkats.migration.merging import merge

    merge(came, ledger)
