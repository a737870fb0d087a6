"""Operations put together: what is looked at, decided, written and proved, over any executor.

`run(request, executor)` does what a request says (kafkats.request), and returns its result
(kafkats.result). The command line and the Spark jobs make requests and show results. Functions
return rows in the order of their units, so the result does not depend on where the units were
worked on.
"""

from kafkats.deployment import OPEN, Deployment
from kafkats.flow.dispatch import Show, run

__all__ = ["OPEN", "Deployment", "Show", "run"]
