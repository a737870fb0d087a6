"""kafkats inside Airflow's UI, to look at: a whole Airflow on real brokers' directories, in which every DAG has run.

Called by scripts/demo, which sets the environment:

    scripts/demo ui                          prints the address and the password, and stops at Ctrl-C
    scripts/demo ui --until COMMAND [WORD…]  stops when the command has ended, with its exit code; the command is told
                                             KAFKATS_UI_URL, KAFKATS_UI_USER and KAFKATS_UI_PASSWORD
    scripts/demo ui --only DAG,DAG …         runs these DAGs only, or none: --only none
    scripts/demo ui --port 8080 …            listens on that port of 127.0.0.1; without it on any free one

Nothing is left running, whatever ends it: Ctrl-C, a terminal that is closed, the command, SIGTERM or an error. What a
kill -9 of an earlier demo has left is stopped first.
"""

from __future__ import annotations

import argparse
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, Final, NamedTuple

from rich.table import Table

from tests.browser.standalone import USER, Failed, Standalone
from tests.browser.volumes import CASES, Volumes
from tests.golden import case, retention_moment
from tools.demo_stage import HOME, begin, console

AT: Final = "2020-09-13T12:28:00+00:00"
"""In the records of the retention directory."""
HOUR: Final = {"from": "2020-09-13T12:00:00+00:00", "to": "2020-09-13T13:00:00+00:00"}
CRASHED: Final = ("crash-4.3.1", "before")
SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Shown(NamedTuple):
    """A run that is made: its DAG, its params, and whether it is left with its question open."""

    dag: str
    params: Mapping[str, Any]
    open: bool = False


class Unfinished(Exception):
    """A run did not end as it should."""


def runs(volumes: Volumes) -> list[Shown]:
    """Return the runs that give every page something to show, in their order.

    The first ones only read. Then each DAG that writes has a run that wrote, so that there is something to undo.
    """
    moment = retention_moment(case(CASES["retention"][0])) / 1000
    as_of = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(moment + 1))
    writes = {"dry_run": False, "need_approval": False}
    return [
        Shown("migrate_message_format", {"phase": "census"}),
        Shown("rebuild_time_indexes", {"volumes": ["broker-rebuild"]} | writes),
        Shown("apply_retention", {"dry_run": True}),
        Shown("apply_retention", {"volumes": ["broker-retention"], "as_of": as_of} | writes),
        Shown("roll_segments", {"dry_run": True, "simulate": True}),
        Shown("recover_log_dirs", {"volumes": ["broker-crashed"], "dry_run": True, "kafka": "4.3"}),
        Shown("build_lookup_tables", {"volumes": ["broker-retention"]} | HOUR),
        Shown("export_offsets", {"time": AT, "missing": "all", "volumes": ["broker-retention"]}),
        Shown("clean_reports", {}),
        Shown("rebuild_time_indexes", {"volumes": ["broker-asked"]}, open=True),
    ]


def main(words: Sequence[str]) -> int:
    began = time.monotonic()
    asked = arguments(words)
    only = {name for name in asked.only.split(",") if name}
    if asked.port and not is_free(asked.port):
        console.print(
            f"[bold red]port {asked.port} of 127.0.0.1 is in use[/]: choose another with --port"
        )
        return 2
    for number in SIGNALS:  # a shell's background job ignores SIGINT
        signal.signal(number, signal.default_int_handler)
    if Standalone(HOME / "standalone").stop():
        console.print("[bold red]an earlier demo still runs and cannot be stopped[/]")
        return 1
    begin()
    volumes = Volumes(HOME)
    volumes.roots["asked"] = volumes.unpack("rebuild", "asked")
    volumes.roots["crashed"] = root = HOME / "crashed" / "data"
    root.mkdir(parents=True)
    case(CRASHED[0]).unpack(CRASHED[1], root)
    volumes.policy()  # of all of them, these two as well
    airflow = Standalone(HOME / "standalone", volumes.environment, port=asked.port)
    code = 1
    try:
        airflow.start()
        console.print(f"  {airflow.url} answers, {len(airflow.dags())} DAGs")
        show(airflow, [one for one in runs(volumes) if not only or one.dag in only])
        tell(airflow, time.monotonic() - began)
        code = until(airflow, asked.until)
    except KeyboardInterrupt:
        code = 0
        console.print("\nstopping")
    except (Failed, Unfinished) as e:
        console.print(f"[bold red]{e}[/]", soft_wrap=True)
    finally:
        for number in SIGNALS:  # nobody interrupts that
            signal.signal(number, signal.SIG_IGN)
        left = airflow.stop()
        for command in left:
            console.print(f"[bold red]still runs[/]: {command}", soft_wrap=True)
        if not left:
            console.print(f"everything is stopped, exit code {code}")
    return 1 if left else code


def is_free(port: int) -> bool:
    """Whether nobody listens on this port of loopback."""
    with socket.socket() as one, suppress(OSError):
        one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        one.bind(("127.0.0.1", port))
        return True
    return False


def arguments(words: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="scripts/demo ui")
    parser.add_argument(
        "--only", default="", metavar="DAG,DAG", help="run these DAGs only, or none"
    )
    parser.add_argument(
        "--port", type=int, default=0, metavar="PORT", help="of 127.0.0.1; without it any free one"
    )
    parser.add_argument(
        "--until", nargs=argparse.REMAINDER, default=[], metavar="COMMAND", help="stop after it"
    )
    return parser.parse_args(words)


def show(airflow: Standalone, wanted: Sequence[Shown]) -> None:
    """Make the runs, three at a time, and wait for them. Raises Unfinished."""
    times = Table("DAG", "run", "state")
    made = [(one, airflow.trigger(one.dag, one.params)) for one in wanted]
    wrong = []
    for one, run in made:
        if one.open:
            airflow.asked(one.dag, run)
            state = "waits for an answer"
        else:
            state = airflow.wait(one.dag, run)
            if state != "success":
                wrong.append(f"{one.dag} {run}: {state}")
        console.print(f"  {one.dag}: {state}")
        times.add_row(one.dag, run, state)
    if wrong:
        raise Unfinished(f"{'; '.join(wrong)}: see {airflow.log}")


def tell(airflow: Standalone, seconds: float) -> None:
    console.print(
        f"\nready after {seconds:.0f} s\n[bold]{airflow.url}/plugin/kafkats[/]\nuser     {USER}\npassword {airflow.password}\n"
        f"folder   {HOME / 'runs'}\nlog      {airflow.log}\n",
        soft_wrap=True,
    )


def until(airflow: Standalone, command: Sequence[str]) -> int:
    """Wait for the command; without one until Ctrl-C. Returns its exit code."""
    if not command:
        console.print("Ctrl-C stops it")
        threading.Event().wait()
    told = {
        "KAFKATS_UI_URL": airflow.url,
        "KAFKATS_UI_USER": USER,
        "KAFKATS_UI_PASSWORD": airflow.password,
    }
    process = subprocess.Popen(list(command), env=os.environ | told)
    try:
        return process.wait()
    finally:
        process.kill()
        process.wait()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
