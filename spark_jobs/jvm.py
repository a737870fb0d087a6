"""The JVM that started this driver, which ends with it.

The job imports this first: a JVM that ends during the other imports is missed, too.
"""

from __future__ import annotations

import os
import threading
import time
from typing import Final

PARENT: Final = os.getppid()
SECONDS: Final = 2.0


def end_with_the_jvm() -> None:
    """End this driver when the JVM that submitted it is gone.

    Nobody would read its result, and another driver may have started.
    """
    if "PYSPARK_GATEWAY_PORT" not in os.environ:  # started without spark-submit
        return

    def watch() -> None:
        while os.getppid() == PARENT:
            time.sleep(SECONDS)
        os._exit(1)

    threading.Thread(target=watch, daemon=True, name="watch the JVM").start()
