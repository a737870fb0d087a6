"""Wait for the end of a request on a host, in the triggerer.

Each question tells the host that somebody waits: without any the work stops at its next safe point.
A host that does not answer is asked again; its work continues meanwhile.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from functools import partial
from pathlib import Path
from typing import Any, Final, Literal

from airflow.triggers.base import BaseTrigger, TriggerEvent
from asgiref.sync import sync_to_async

from kafkats import clock
from kafkats.detached.messages import Answer, Ask
from kafkats.errors import KafkatsError
from kafkats_airflow.jobs.hosts import Unreached, host_at
from kafkats_airflow.runs.progress import go_on

SECONDS: Final = 10.0
_LOOKS: Final = ThreadPoolExecutor(64, "kafkats-look")
"""Threads of their own: hosts that do not answer hold up neither other hosts nor other triggers."""
UNDER_WAY: Final = frozenset({"pending", "running"})


class HostTrigger(BaseTrigger):
    """Waits until a request does not run any more, or until `until_ms`. `ask` is the message that
    looks at it, `live` the file with its progress for pages.
    """

    def __init__(
        self, *, kind: str, conn_id: str, ask: dict[str, Any], until_ms: int, live: str
    ) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # Airflow's
        self.kind, self.conn_id, self.ask = kind, conn_id, ask
        self.until_ms, self.live = until_ms, live

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Return the class, and the arguments of another one like this."""
        fields = ("kind", "conn_id", "ask", "until_ms", "live")
        name = f"{HostTrigger.__module__}.{HostTrigger.__qualname__}"
        return name, {one: getattr(self, one) for one in fields}

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Yield one event: `why` is ended, timeout, or an error that no later look mends."""
        while True:
            if clock.now_ms() > self.until_ms:
                yield _event("timeout")
                return
            try:
                answer = await self._asked("look")
            except Unreached as e:
                self.log.warning("%s; the work there goes on", e)
            except KafkatsError as e:
                yield _event(str(e))
                return
            else:
                if answer.state not in UNDER_WAY:
                    yield _event("ended")
                    return
                go_on(Path(self.live), answer.progress or {})
            await asyncio.sleep(SECONDS)

    async def on_kill(self) -> None:
        """End the work: a person has ended the task.

        Airflow 3.3 cancels this, too, with its next look at the triggers a second later: the
        question goes on all the same.
        """
        await asyncio.shield(asyncio.ensure_future(self._asked("cancel")))

    async def _asked(self, do: Literal["look", "cancel"]) -> Answer:
        ask = Ask.model_validate({**self.ask, "do": do})
        # It reads the connection. asgiref loses the message with which Airflow cancels: that a
        # person ended the task. Then `on_kill` is not called.
        reading = asyncio.ensure_future(sync_to_async(host_at)(self.kind, self.conn_id))
        host = await asyncio.shield(reading)
        asking = host.ask if do == "look" else host.asked  # no later look follows a cancel
        asked = partial(copy_context().run, asking, ask)
        return await asyncio.get_running_loop().run_in_executor(_LOOKS, asked)


def _event(why: str) -> TriggerEvent:
    return TriggerEvent({"why": why})  # type: ignore[no-untyped-call]  # Airflow's
