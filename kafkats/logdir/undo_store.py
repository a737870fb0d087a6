"""The old files of a run, kept until the undo window closes: hard links on the log dir's mount.

Of a log that was cut in place only the tail is kept (`tails`).
"""

from __future__ import annotations

from collections.abc import Sequence

from kafkats.errors import Changed
from kafkats.logdir.disk import Disk
from kafkats.logdir.journal import Journal, Step
from kafkats.logdir.swap import Source, stands
from kafkats.logdir.tails import is_cut
from kafkats.logdir.workarea import Site, make_folder


def keep_old(place: Site, steps: Sequence[Step], disk: Disk) -> None:
    """Keep every live file that still is the old one.

    Files kept before are skipped. The result is synced. A run that only adds files, or cuts logs,
    gets no undo folder. Raises Changed when an old file is neither live nor kept.
    """
    old = [step for step in steps if step.before is not None and not is_cut(step)]
    if not old:
        return
    folder = place.undo if place.area.linked else place.directory
    if place.area.linked:
        make_folder(place.undo, place.area, disk)
    saved = set(disk.names(folder))
    wanted = [step for step in old if place.kept(step.name).name not in saved]
    identities = disk.identities(place.directory, [step.name for step in wanted])
    for step in wanted:
        kept = place.kept(step.name)
        if not stands(step, identities[step.name], "old"):
            raise Changed("the old file was swapped out, but was not kept", path=kept)
        disk.link(place.directory / step.name, kept)
    disk.sync_dir(folder)


def kept_old(place: Site, journal: Journal, disk: Disk) -> dict[str, Source]:
    """Return, by name, the sources of the old files that are no longer live.

    Of a log that was cut in place this is its tail.
    """
    sources = {}
    for step in journal.steps:
        if step.before is None or stands(step, disk.identify(place.directory / step.name), "old"):
            continue
        if is_cut(step):
            tail = place.tails(journal.epoch) / step.name
            sources[step.name] = Source(tail, tail)
        else:
            sources[step.name] = Source(place.kept(step.name), place.kept_again(step.name))
    return sources
