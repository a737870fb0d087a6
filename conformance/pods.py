"""deploy/kubernetes under a real API server and controllers, with a stand-in for the kubelet (tools/kube). Needs root.

    scripts/conformance kubernetes

Every manifest of deploy/ is accepted with strict validation. The StatefulSet runs a real broker, whose container is killed
under load: it is started again without its init containers. Then its whole pod is killed and made anew. Each time `kafkats
recover` comes before the broker, and every acknowledged record must still be there.

Changed in the manifest: one replica instead of three, the release, the port, and the storage class. The images are this
machine's root. Kubernetes is compiled first if it is not there (scripts/kubernetes build).
"""

from __future__ import annotations

import asyncio
import json
import logging
import shutil
from collections import defaultdict
from pathlib import Path
from typing import Any, Final

import yaml
from aiokafka import AIOKafkaConsumer, TopicPartition

from conformance import guarded
from conformance.broker import java
from conformance.soaked import START_S, Broker
from conformance.tally import Tally
from tools.kube import programs
from tools.kube.containers import Image, Mount, this_machine
from tools.kube.lab import CLASS, Lab, until
from tools.kube.manifests import documents, refusal

DEPLOY: Final = Path(__file__).parents[1] / "deploy"
VERSION: Final = "4.3.1"
ACCEPTED: Final = "the API server accepts the manifests of deploy/"
INIT: Final = "init containers run for a new pod, and not for a new container"
START: Final = "recover lets the broker start"
RECORDS: Final = "every acknowledged record is still there"
LOAD_S: Final = 4.0
POD: Final = "/api/v1/namespaces/default/pods/kafka-0"
LOGS: Final = "/var/lib/kafka/data/logs"


def conform(tally: Tally, work: Path) -> None:
    logging.getLogger("aiokafka").setLevel(logging.CRITICAL)  # its broker is killed
    programs.build()
    with Lab(work / "lab") as lab:
        for name, manifest in documents(DEPLOY):
            tally.same(ACCEPTED, programs.RELEASE, name, name, refusal(lab.api, manifest), "")
        tally.expect(ACCEPTED, programs.RELEASE, 1)
        _play(lab, work, tally)
    for check in (INIT, START, RECORDS):
        tally.expect(check, VERSION, 2)


class InPod(Broker):
    """A broker whose process is a container's: the pod has its files at other paths."""

    def __init__(self, version: str, work: Path, lab: Lab) -> None:
        super().__init__(version, work)
        self.root = Path(LOGS)
        self._lab = lab

    def _own(self) -> dict[str, object]:
        return super()._own() | {"metadata.log.dir": "/var/lib/kafka/data/metadata"}

    def kill(self) -> None:
        pod = self._lab.nodes["node-0"].pod("default", "kafka-0")
        assert pod is not None
        pod.kill("kafka", reason="Error")

    def image(self, folder: Path) -> Image:
        """Return an image with the start command of cp-kafka: it formats a new directory, and becomes the broker."""
        folder.mkdir()
        (folder / "server.properties").write_text(self.properties())
        here = "/etc/confluent/docker"
        start = f"{java()} -Xmx512m -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -cp '{self.classpath}'"
        (folder / "run").write_text(
            f"#!/bin/sh\n{start} kafka.tools.StorageTool format --ignore-formatted -t c29ha3Nvc2Frc29ha3Nvcw -c {here}/server.properties\n"
            f"exec {start} kafka.Kafka {here}/server.properties\n"
        )
        (folder / "run").chmod(0o755)
        jars = Path(self.classpath.removesuffix("/*"))
        opened = {one for one in jars.parents if one.stat().st_mode & 0o005 != 0o005}
        machine = this_machine(folder.with_name("unused"))
        return machine._replace(
            mounts=(Mount(folder, here, read_only=True),),
            opened=(*machine.opened, *(opened - set(machine.opened))),
        )


def _play(lab: Lab, work: Path, tally: Tally) -> None:
    broker = InPod(VERSION, work / "broker", lab)
    manifest = _manifest(broker)
    spec = manifest["spec"]["template"]["spec"]
    tool = this_machine(work / "tool")
    lab.images[spec["initContainers"][0]["image"]] = tool._replace(
        mounts=(Mount(work / "tool", "/kafkats"),),
        command=_command(DEPLOY / "kubernetes/Dockerfile"),
    )
    lab.images[spec["containers"][0]["image"]] = broker.image(work / "image")
    (disk := work / "disk").mkdir()
    lab.volume("disk", disk, node="node-0", size="100Gi")
    lab.api.post("/apis/apps/v1/namespaces/default/statefulsets", manifest)
    _ready(lab, restarts=0)
    asyncio.run(guarded.make_topics(broker.port))
    acknowledged: guarded.Acknowledged = defaultdict(dict)

    guarded.load(broker, LOAD_S, acknowledged)
    first = _ready(lab, restarts=1)
    tally.same(INIT, VERSION, "container", "starts of the tool", _starts(first), 0)
    _check(lab, broker, acknowledged, "its container was killed", tally)

    guarded.load(broker, LOAD_S, acknowledged)
    lab.api.delete(POD, gracePeriodSeconds=0)
    second = until(
        lambda: (one := _pod(lab)) and one["metadata"]["uid"] != first["metadata"]["uid"] and one,
        START_S,
    )
    second = _ready(lab, restarts=0)
    tally.same(
        INIT,
        VERSION,
        "pod",
        "the tool's exit code",
        _state(second, "init").get("terminated", {}).get("exitCode"),
        0,
    )
    _check(lab, broker, acknowledged, "its pod was killed", tally)
    shutil.rmtree(disk, ignore_errors=True)


def _manifest(broker: Broker) -> dict[str, Any]:
    """Return the StatefulSet of deploy/, for this lab."""
    made: dict[str, Any] = yaml.safe_load((DEPLOY / "kubernetes/statefulset.yaml").read_text())
    made["spec"]["replicas"] = 1
    made["spec"]["volumeClaimTemplates"][0]["spec"]["storageClassName"] = CLASS
    [container] = made["spec"]["template"]["spec"]["containers"]
    container["ports"][0]["containerPort"] = broker.port
    container["startupProbe"]["periodSeconds"] = 1
    release = next(
        number for number, word in enumerate(container["command"]) if word.startswith("--kafka=")
    )
    container["command"][release] = f"--kafka={broker.version}"
    return made


def _command(dockerfile: Path) -> tuple[str, ...]:
    [line] = [line for line in dockerfile.read_text().splitlines() if line.startswith("CMD ")]
    return tuple(json.loads(line.removeprefix("CMD ")))


def _pod(lab: Lab) -> dict[str, Any] | None:
    found = lab.api.get("/api/v1/namespaces/default/pods", labelSelector="app=kafka")["items"]
    return found[0] if found else None


def _state(pod: dict[str, Any], kind: str) -> dict[str, Any]:
    return pod["status"]["initContainerStatuses" if kind == "init" else "containerStatuses"][0][
        "state"
    ]


def _starts(pod: dict[str, Any]) -> int:
    """Return how often the init container was started again."""
    return pod["status"]["initContainerStatuses"][0]["restartCount"]


def _ready(lab: Lab, restarts: int) -> dict[str, Any]:
    def ask() -> dict[str, Any] | None:
        pod = _pod(lab)
        statuses = (pod or {"status": {}})["status"].get("containerStatuses", [])
        return (
            pod
            if statuses and statuses[0]["ready"] and statuses[0]["restartCount"] == restarts
            else None
        )

    return until(ask, START_S)


def _check(
    lab: Lab, broker: InPod, acknowledged: guarded.Acknowledged, when: str, tally: Tally
) -> None:
    """Compare what recover said before this start, and the records."""
    pod = lab.nodes["node-0"].pod("default", "kafka-0")
    assert pod and pod.main[0].container
    lines = [line.split(" ", 3)[3] for line in pod.main[0].container.log.read_text().splitlines()]
    events = [json.loads(line)["event"] for line in lines if line.startswith("{")]
    tally.same(
        START,
        VERSION,
        when,
        f"events, {when}",
        [one for one in events if one in ("start", "starting", "hold", "failed")],
        ["start", "starting"],
    )
    asyncio.run(_check_records(broker.port, acknowledged, when, tally))


async def _check_records(
    port: int, acknowledged: guarded.Acknowledged, when: str, tally: Tally
) -> None:
    consumer = AIOKafkaConsumer(bootstrap_servers=f"127.0.0.1:{port}", auto_offset_reset="earliest")
    await consumer.start()
    try:
        every = [
            TopicPartition(topic, n)
            for topic, count in guarded.TOPICS.items()
            for n in range(count)
        ]
        for one, end in (await consumer.end_offsets(every)).items():
            where = f"{one.topic}-{one.partition}"
            found = await guarded.read(consumer, one, end)
            compacted = one.topic == guarded.COMPACTED
            lost = guarded.lost_of(acknowledged[where], found, compacted=compacted)
            tally.same(RECORDS, VERSION, where, f"records of {where}, {when}", lost[:5], [])
    finally:
        await consumer.stop()
