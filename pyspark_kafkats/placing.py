"""Places the tasks of a Spark application on the hosts that see the log directories.

Workers may see different volumes at one path. Spark places tasks anywhere, and Python has no way to
name a host; the JVM's `makeRDD` has. `spark.locality.wait` keeps a task there
(pyspark_kafkats.session). A host that is gone counts no more, and its tasks run anywhere.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple, TypeAlias

from pyspark import RDD, SparkContext
from pyspark.serializers import NoOpSerializer

from kafkats.errors import OtherVolume

Place: TypeAlias = tuple[str, ...]
"""The log directories of a unit."""
Seen: TypeAlias = dict[Place, set[str]]
"""The hosts that see each place."""
ANYWHERE: Final = ""


class Offer(NamedTuple):
    """Units of one task, as indexes, and its host: ANYWHERE, or one that may see their place."""

    units: Sequence[int]
    host: str = ANYWHERE


class Rounds:
    """The rounds of one stage, whose units have these `places`. A task that met another volume
    returns its units undone.

    The next round offers them to the hosts that have not refused their place in this stage, and
    once more to all of them. So each round does units or excludes hosts. `seen` is the memory of an
    application, and is kept up to date: the hosts that see a place.
    """

    def __init__(self, places: Sequence[Place], seen: Seen) -> None:
        self._places, self._seen = places, seen
        self._left = {place: sorted(hosts) for place, hosts in seen.items()}
        self._again = set[Place]()
        self._reasons: dict[Place, dict[str, OtherVolume]] = {}

    def groups(self, units: Iterable[int]) -> Iterable[tuple[Sequence[int], Sequence[str]]]:
        """Yield the units in groups, each with the hosts on which its tasks may run, () for any."""
        found: dict[Place | None, list[int]] = {}
        for unit in units:
            place = self._places[unit]
            found.setdefault(place if place in self._left else None, []).append(unit)
        for among, chosen in found.items():
            yield chosen, () if among is None else self._left[among]

    def done(self, offer: Offer, units: Iterable[int]) -> None:
        """Remember where units were done."""
        if offer.host != ANYWHERE:
            for place in {self._places[unit] for unit in units}:
                self._seen.setdefault(place, set()).add(offer.host)

    def refused(self, offer: Offer, refusals: dict[Place, OtherVolume]) -> None:
        """Remember where units were returned, and why."""
        for place, refusal in refusals.items():
            self._reasons.setdefault(place, {})[str(refusal)] = refusal
            self._seen.get(place, set()).discard(offer.host)
            if offer.host in self._left.get(place, ()):
                self._left[place].remove(offer.host)

    def next(self, units: Iterable[int], hosts: Sequence[str]) -> None:
        """Prepare the next round for units that were returned. `hosts` has the application's.

        Raises OtherVolume for a place that all of them have refused twice: the tasks of a host that
        lost its executor run on another one, which refuses in its name.
        """
        for place in dict.fromkeys(self._places[unit] for unit in units):
            if place not in self._left:
                self._left[place] = list(hosts)
            elif not self._left[place] and place not in self._again:
                self._again.add(place)
                self._left[place] = list(hosts)
            if not self._left[place]:
                raise _together(list(self._reasons[place].values()))


def _together(refusals: Sequence[OtherVolume]) -> OtherVolume:
    """Return one error of what the hosts said."""
    reasons = "; ".join(sorted(str(one.reason) for one in refusals))
    return OtherVolume(reasons, path=refusals[0].path)


def executor_hosts(sc: SparkContext) -> list[str]:
    """Return the hosts of an application's executors by Spark's names, none if it is local."""
    infos = sc._jsc.sc().statusTracker().getExecutorInfos()
    found = Counter(str(info.host()) for info in infos)
    found[sc.getConf().get("spark.driver.host") or ""] -= 1  # the driver is one of them
    return sorted(+found)


def placed(sc: SparkContext, elements: Sequence[tuple[bytes, str]]) -> RDD[bytes]:
    """Return an RDD of one task per element, each on the host that is named beside it."""
    jvm = sc._jvm
    assert jvm is not None
    sequence = jvm.org.apache.spark.api.python.PythonUtils.toSeq
    pairs = [
        jvm.scala.Tuple2(data, sequence([host] if host != ANYWHERE else []))
        for data, host in elements
    ]
    kind = jvm.scala.reflect.ClassTag.apply(jvm.java.lang.Class.forName("[B"))
    made = sc._jsc.sc().makeRDD(sequence(pairs), kind)
    return RDD(made.toJavaRDD(), sc, NoOpSerializer())
