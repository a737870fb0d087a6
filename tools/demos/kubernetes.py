"""The demo in Kubernetes: three brokers' claims on three nodes; one DAG run repairs all of them, while the API server is killed.

Called by scripts/demo, which sets the environment. Needs root, for namespaces, etcd, and the control plane that `scripts/kubernetes
build` compiles once. API server, controllers and scheduler are Kubernetes' own; each node is a stand-in for a kubelet, whose containers
are processes in namespaces (tools/kube). Airflow has the Role of deploy/kubernetes alone. The proof at the end uses none of our
code: every file must have the sha256 that was recorded when Kafka itself had written it.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Mapping
from pathlib import Path

import yaml

from tests.dags.pods import DEPLOY, JOBS, USER, broker_pod, connection, labs
from tests.golden import case
from tools.demo_stage import (
    HOME,
    POLICY,
    REPORTS,
    begin,
    console,
    differences,
    end,
    run_dag,
    show_jobs,
    unpack,
)
from tools.demos.rebuild import CASES, damage
from tools.kube import programs
from tools.kube.lab import Lab, until

DISK = "/var/lib/kafka/data"
"""The path of each broker's claim in a pod."""


def main() -> int:
    try:
        programs.check()
    except programs.Missing as error:
        console.print(f"[red]{error}[/]")
        return 1
    if os.getuid():
        console.print("[red]this demo runs containers in namespaces[/]: run it as root")
        return 1
    began = time.monotonic()
    begin()
    REPORTS.mkdir()
    console.rule("[bold]1 A control plane, three nodes, and a killed broker's claim on each")
    roots = {broker: unpack(broker, case(name)) for broker, name in CASES.items()}
    damaged = {broker: len(damage(root)) for broker, root in roots.items()}
    for lab in labs(HOME / "lab", nodes=len(CASES)):
        for number, (broker, root) in enumerate(roots.items()):
            claim(lab, number, root.parent)
            os.environ[f"AIRFLOW_CONN_KAFKA_{number}"] = connection(
                lab, {DISK: f"data-kafka-{number}"}
            )
            console.print(
                f"  {broker}: {damaged[broker]} time indexes damaged; claim data-kafka-{number}"
            )
        write_policy(roots)
        console.print(
            f"  manifests: {', '.join(path.name for path in sorted(DEPLOY.glob('*.yaml')))}"
        )
        console.rule(
            "[bold]2 While the pod of kafka-0 mounts its claim: its step is refused, and nothing is written there"
        )
        broker_pod(lab, "kafka-0", "data-kafka-0")
        refused = run_dag("rebuild_time_indexes", need_approval=False)
        lab.api.delete("/api/v1/namespaces/default/pods/kafka-0", gracePeriodSeconds=0)
        console.rule(
            "[bold]3 airflow dags test rebuild_time_indexes, with the API server killed twice"
        )
        kills = Kills(lab)
        report = run_dag("rebuild_time_indexes", need_approval=False)
        kills.end()
        console.rule("[bold]4 What ran where")
        show_jobs("pod's host name")
        show_kept(lab)
        console.print(f"  API server killed: {kills.count} times")
    if refused is not None or report is None:
        console.print("[bold red]the demo FAILED[/]")
        return 1
    console.rule("[bold]5 Proof: compared with what Kafka itself had written")
    wrong = [
        line for broker, root in roots.items() for line in differences(root, case(CASES[broker]))
    ]
    return end(wrong, "every file of the three claims is as Kafka had written it", report, began)


def claim(lab: Lab, number: int, real: Path) -> None:
    """Make the claim of a broker, of a volume that is local to one node."""
    for one in [real, *real.rglob("*")]:
        os.chown(one, USER, USER, follow_symlinks=False)
    name = f"data-kafka-{number}"
    lab.volume(name, real, node=f"node-{number}")
    lab.claim(name, name)


def write_policy(roots: Mapping[str, Path]) -> None:
    volumes = [
        {"broker": broker, "path": f"{DISK}/data", "connection": f"kafka_{number}"}
        for number, broker in enumerate(roots)
    ]
    POLICY.write_text(yaml.safe_dump({"volumes": volumes}))


class Kills:
    """Kills the API server twice while Jobs run, and starts it again."""

    def __init__(self, lab: Lab) -> None:
        self.count = 0
        self._lab, self._over = lab, threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        for _ in range(2):
            if self._over.wait(20):
                return
            self._lab.plane.stop_api(kill=True)
            time.sleep(2)
            self._lab.plane.start_api()
            self.count += 1

    def end(self) -> None:
        self._over.set()
        self._thread.join()


def show_kept(lab: Lab) -> None:
    jobs = until(lambda: lab.api.get(JOBS)["items"])
    console.print(f"  Jobs that the server keeps for a day: {len(jobs)}")


if __name__ == "__main__":
    sys.exit(main())
