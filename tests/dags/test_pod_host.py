"""A request in the pod of a Job: what the API server is sent, what it answers, and each way in which it fails.

The answers are those of a real server (tests/dags/recorded.py). What takes longer, such as the end of a pod in mid-apply, is tried on
the server itself: tests/dags/test_host_home_pods.py.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

import pytest
import yaml
from airflow.sdk.exceptions import TaskDeferred
from kafkats_airflow import shipped
from kafkats_airflow.jobs import host_home, pod_state, providers
from kafkats_airflow.jobs import hosts as job_hosts
from kafkats_airflow.jobs.host_home import _ask
from kafkats_airflow.jobs.hosts import Unreached
from kafkats_airflow.jobs.pod_host import PodHost
from kafkats_airflow.jobs.pod_state import PodFailed, PodRefused
from kafkats_airflow.jobs.sending import parcel_of
from kafkats_airflow.jobs.waiting import HostTrigger

from kafkats.detached.jobs import Job
from kafkats.errors import KafkatsError, UsageError
from tests import loops
from tests.dags import hosts, pods, recorded
from tests.dags.hosts import WRONG, Asked, asked, damaged
from tests.dags.recorded import SECRET, Cluster, Server
from tools.kube import programs
from tools.kube.lab import Lab, until

RECORDS: Final = bool(os.environ.get("KAFKATS_RECORD"))
Serve = Callable[..., Server]


def servers() -> list[Any]:
    """Return the servers that a test runs on: the recorded one, and with --full the real one."""
    marks = [pytest.mark.root("runs containers in namespaces"), pytest.mark.slow(10)]
    real = pytest.param("real", marks=marks)
    if RECORDS:
        return [real]
    try:
        programs.check()
    except programs.Missing:
        return ["recorded"]
    return ["recorded", real] if os.environ.get("KAFKATS_FULL") else ["recorded"]


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    yield from pods.labs(tmp_path_factory.mktemp("lab"))


@pytest.fixture(params=servers())
def serve(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Serve]:
    """Starts a server with the name of its recording. `template` are other fields of the pod, the rest is the connection's extra."""
    monkeypatch.setattr(host_home, "PATIENCE_SECONDS", 120.0)
    monkeypatch.setattr(job_hosts, "PAUSES", (0.01,))
    damaged(tmp_path / "disk" / recorded.LOGS)
    (tmp_path / recorded.RUNS).mkdir()
    with ExitStack() as stack:

        def start(
            name: str,
            modes: tuple[str, ...] = ("ReadWriteOnce",),
            template: dict[str, Any] | None = None,
            **extra: Any,
        ) -> Server:
            if request.param == "real":
                lab = request.getfixturevalue("lab")
                made = recorded.real(name, tmp_path, lab, keep=RECORDS, modes=modes)
            else:
                made = recorded.replayed(name, tmp_path)
            server = stack.enter_context(made)
            if template is not None:
                extra["kafkats_template"] = server.template(**template)
            monkeypatch.setenv("AIRFLOW_CONN_KAFKA_0", server.connection(**extra))
            return server

        yield start


@pytest.fixture
def impatient(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host_home, "PATIENCE_SECONDS", 0.0)


def plan(server: Server) -> Asked:
    fields = hosts.plan(server.root, server.runs)
    return asked(server.runs, "kafka_0", kind="kubernetes", **fields)


def apply(server: Server) -> Asked:
    """Return a request to apply a plan that is not there: nothing gets so far."""
    named = {"folder": str(server.runs / "d" / "g" / "plan"), "digest": "0" * 64}
    return asked(server.runs, "kafka_0", kind="kubernetes", verb="apply", plan=named)


def begin(one: Asked) -> Any:
    """Return the message that begins a request."""
    content = one.task.request.model_dump(mode="json", exclude_defaults=True)
    parcel = parcel_of(one.task.request, one.task.folder)
    return _ask(one.task.request, parcel, "begin", {"request": content})


def deferred(one: Asked) -> Any:
    """Let a request begin, and return the trigger that waits for it."""
    with pytest.raises(TaskDeferred) as waits:
        one.run()
    return waits.value.trigger


@pytest.mark.slow(10)
def test_a_plan_is_made_and_applied_in_pods(serve: Serve) -> None:
    server = serve("applied")
    planned = plan(server).run()
    fields = hosts.apply(planned, server.runs)
    applied = asked(server.runs, "kafka_0", kind="kubernetes", **fields).run()
    assert applied.runs[0].outcomes == {"done": 1}
    assert (server.disk / WRONG).exists()
    assert len(server.jobs) == 2
    assert not list((server.runs / ".jobs").glob("[!l]*"))
    heard = server.between.heard
    words = [one["query"] for one in heard if one["path"].endswith("/exec")]
    commands = {tuple(value for name, value in one if name == "command") for one in words}
    assert commands == {("/opt/kafkats/kafkats-host", "0")}
    assert SECRET not in json.dumps(heard)
    assert set(server.asked) - {"GET pods/exec"} <= allowed()
    assert "GET pods/exec" in allowed()


def allowed() -> set[str]:
    """Return what the Role of deploy/ allows."""
    role = next(yaml.safe_load_all((shipped.KUBERNETES / "role.yaml").read_text()))
    method = {"create": "POST", "get": "GET", "list": "GET", "delete": "DELETE"}
    return {
        f"{method[verb]} {resource}"
        for rule in role["rules"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


def test_a_manifest_has_what_the_connection_says(serve: Serve) -> None:
    server = serve(
        "manifest",
        kafkats_user=1001,
        kafkats_group=0,
        kafkats_runs_claim="runs",
        kafkats_silence_seconds=60,
    )
    PodHost("kafka_0").ask(begin(plan(server)))
    [job] = server.jobs
    spec = job["spec"]["template"]["spec"]
    [container] = spec["containers"]
    assert spec["automountServiceAccountToken"] is False
    assert (
        spec["securityContext"] | {"runAsUser": 1001, "runAsGroup": 0, "fsGroup": 0}
        == (spec["securityContext"])
    )
    assert container["securityContext"]["readOnlyRootFilesystem"] is True
    assert container["args"] == ["wait", job["metadata"]["labels"]["kafkats/request"], "60.0"]
    assert container["env"] == [{"name": "KAFKATS_FOLDER", "value": "<runs, escaped>"}]
    mounted = {one["mountPath"]: one["name"] for one in container["volumeMounts"]}
    claims = {
        one["name"]: one["persistentVolumeClaim"]["claimName"]
        for one in spec["volumes"]
        if "persistentVolumeClaim" in one
    }
    assert {path: claims.get(name) for path, name in mounted.items()} == {
        "/tmp": None, "/disk": recorded.CLAIM, "<runs>": "runs",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("name", "command", "phase", "must"),
    [("held", (), "Running", True), ("was-held", ("true",), "Succeeded", False)],
)
def test_a_volume_of_one_node_is_mounted_there(
    serve: Serve, name: str, command: tuple[str, ...], phase: str, must: bool
) -> None:
    server = serve(name)
    server.stage(lambda cluster: cluster.broker_pod(*command, phase=phase))
    PodHost("kafka_0").ask(begin(plan(server)))
    [job] = server.jobs
    affinity = job["spec"]["template"]["spec"]["affinity"]["nodeAffinity"]
    assert [name.startswith("required") for name in affinity] == [must]
    assert '"node-1"' in json.dumps(affinity)


def test_nothing_is_written_while_a_broker_s_pod_mounts_the_volume(serve: Serve) -> None:
    server = serve("mounted")
    server.stage(Cluster.broker_pod)
    with pytest.raises(PodRefused, match="pod kafka-0 mounts data-kafka-0: nothing is written"):
        apply(server).run()
    assert not server.jobs


def test_a_volume_of_one_pod_is_refused_while_that_runs(serve: Serve) -> None:
    server = serve("one-pod", modes=("ReadWriteOncePod",))
    server.stage(Cluster.broker_pod)
    with pytest.raises(PodRefused, match="ReadWriteOncePod lets no second pod"):
        plan(server).run()
    assert not server.jobs


def quota(what: str) -> Callable[[Cluster], object]:
    """Return what uses a quota up."""

    def put(cluster: Cluster) -> None:
        path = f"{cluster.path}/resourcequotas"
        cluster.lab.api.post(path, {"metadata": {"name": "few"}, "spec": {"hard": {what: "0"}}})
        until(lambda: "hard" in cluster.lab.api.get(f"{path}/few").get("status", {}))

    return put


NOWHERE: Final = {"kafkats_image": f"registry.test/none@sha256:{'2' * 64}"}


@pytest.mark.parametrize(
    ("name", "given", "stage", "error", "why"),
    [
        ("image-missing", NOWHERE, None, UsageError, "ImagePullBackOff: "),
        ("held-elsewhere", {"template": {"nodeName": "node-0"}}, Cluster.broker_pod, PodFailed, "FailedAttachVolume: Multi-Attach error"),
        ("unschedulable", {"template": {"nodeSelector": {"zone": "none"}}}, None, PodFailed, "Unschedulable: 0/2 nodes"),
        ("quota-of-pods", {}, quota("pods"), PodFailed, "FailedCreate: .*exceeded quota"),
    ],
)  # fmt: skip
def test_a_pod_that_does_not_start_is_one_sentence(
    serve: Serve, monkeypatch: pytest.MonkeyPatch,
    name: str, given: Any, stage: Any, error: type[KafkatsError], why: str,
) -> None:  # fmt: skip
    monkeypatch.setattr(pod_state, "TOLD_SECONDS", 2.0)
    server = serve(name, **given)
    if stage:
        server.stage(stage)
    with pytest.raises(error, match=why) as told:
        plan(server).run()
    assert told.value.retryable == (error is PodFailed)
    assert "\n" not in str(told.value)
    assert server.asked.count("DELETE jobs") == 1  # it will not start while nobody waits


def test_a_pod_that_never_starts_is_given_up(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pod_state, "PENDING_SECONDS", -1.0)
    server = serve("pending")
    with pytest.raises(PodFailed, match="no event says why"):
        plan(server).run()
    assert server.asked.count("DELETE jobs") == 1


def ends(how: str) -> Callable[[Cluster], object]:
    def end(cluster: Cluster) -> None:
        if how == "Evicted":
            cluster.running().fail("Evicted", "low on memory")
        elif how == "OOMKilled":
            cluster.running().kill()
        cluster.in_phase("Failed")

    return end


LAST: Final = {"template": {"command": ["/bin/sh", "-c", "echo its last line; exit 1"]}}


@pytest.mark.parametrize(
    ("name", "given", "how", "why"),
    [
        ("evicted", {}, "Evicted", "Evicted: low on memory"),
        ("killed-for-memory", {}, "OOMKilled", r"OOMKilled \(exit code 137\); raise the memory limit"),
        ("ended", LAST, "", r"Error \(exit code 1\); its last words: its last line"),
    ],
)  # fmt: skip
def test_a_pod_that_ended_is_one_sentence_and_the_next_try_starts_another(
    serve: Serve, impatient: None, name: str, given: Any, how: str, why: str
) -> None:
    server = serve(name, **given)
    one = plan(server)
    deferred(one)
    server.stage(ends(how))
    with pytest.raises(PodFailed, match=why):
        one.resumed()
    deferred(plan(server))
    first, *_, second = server.jobs
    assert first["metadata"]["name"] == second["metadata"]["name"]
    assert server.asked.count("DELETE jobs") == 1


def lost(cluster: Cluster) -> None:
    """Lose the node of our pod; the server tells the pod to end, as it does after five minutes."""
    running = cluster.running()
    cluster.lab.nodes[cluster.pods()[-1]["spec"]["nodeName"]].lose()
    cluster.lab.api.delete(running.path, gracePeriodSeconds=1)


def test_a_pod_on_a_lost_node_gets_no_second_beside_it(
    serve: Serve, impatient: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pod_state, "ENDS_SECONDS", -10.0)
    server = serve("lost-node")
    deferred(plan(server))
    server.stage(lost)
    for do in (plan(server).run, plan(server).resumed):
        with pytest.raises(PodFailed, match=r"node node-. does not say that it has: it may still"):
            do()
    server.stage(lambda cluster: [one.find_again() for one in cluster.lab.nodes.values()])
    assert server.asked.count("POST jobs") == 1


STRICT: Final = {"template": {"nodeNmae": "node-0"}}


@pytest.mark.parametrize(
    ("name", "given", "stage", "error", "why"),
    [
        ("forbidden", {"namespace": "kube-system"}, None, UsageError, "the server forbids it: jobs.batch .* deploy/kubernetes/role.yaml"),
        ("quota-of-jobs", {}, quota("count/jobs.batch"), PodFailed, "exceeded quota"),
        ("misspelt", STRICT, None, UsageError, "strict decoding error: unknown field .*nodeNmae"),
        ("no-claim", {"kafkats_volumes": {"/disk": "none"}}, None, UsageError, "there is no claim 'none'"),
    ],
)  # fmt: skip
def test_what_the_server_refuses_is_one_sentence(
    serve: Serve, name: str, given: Any, stage: Any, error: type[KafkatsError], why: str
) -> None:
    server = serve(name, **given)
    if stage:
        server.stage(stage)
    with pytest.raises(error, match=why) as told:
        plan(server).run()
    assert SECRET not in str(told.value)
    assert "\n" not in str(told.value)


@pytest.mark.parametrize(
    ("name", "what", "answer", "error", "why"),
    [
        ("exec-forbidden", "GET pods/exec", (403, "pods/exec is forbidden"), UsageError, "pods/exec is forbidden"),
        ("exec-broken", "GET pods/exec", (500, "error dialing backend"), Unreached, "error dialing backend"),
        ("away", "GET pods", (503, "etcd is down"), Unreached, "etcd is down"),
    ],
)  # fmt: skip
def test_an_answer_of_a_server_in_trouble_is_one_sentence(
    serve: Serve, impatient: None, name: str, what: str, answer: Any, error: type[KafkatsError], why: str
) -> None:  # fmt: skip
    server = serve(name)
    deferred(plan(server))
    server.stage(Cluster.running)
    server.refused[what] = answer
    with pytest.raises(error, match=why) as told:
        plan(server).run()
    assert SECRET not in str(told.value)
    assert "\n" not in str(told.value)


def test_a_server_that_has_not_read_its_roles_yet_is_asked_again(serve: Serve) -> None:
    server = serve("starting")
    server.refused["POST jobs"] = (403, "jobs is forbidden: User airflow")
    server.refused["GET readyz"] = (500, "not yet")
    with pytest.raises(Unreached, match="as by a server that just started"):
        plan(server).run()
    assert server.asked.count("POST jobs") > 1


def test_the_wait_needs_no_worker_and_a_person_who_ends_it_ends_the_pod(
    serve: Serve, impatient: None
) -> None:
    server = serve("cancelled")
    one = plan(server)
    name, given = deferred(one).serialize()
    assert SECRET not in repr(given)
    assert name.endswith("waiting.HostTrigger")
    server.stage(Cluster.running)
    loops.run(HostTrigger(**given).on_kill())
    assert server.asked[-1] == "DELETE jobs"
    assert not Job.of(server.runs, one.task.request.id).folder.exists()


def test_an_image_without_a_digest_is_refused(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = serve("image")
    for image in ("kafkats:latest", f"registry.example/kafkats@sha256:{'0' * 64}", "k@sha256:12"):
        monkeypatch.setenv("AIRFLOW_CONN_KAFKA_0", server.connection(kafkats_image=image))
        with pytest.raises(UsageError, match="is not one by its digest"):
            plan(server).run()
    assert not server.jobs


def test_a_server_that_is_away_is_asked_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(job_hosts, "PAUSES", ())
    monkeypatch.setenv("AIRFLOW_CONN_KAFKA_0", recorded.connection("http://127.0.0.1:1"))
    with pytest.raises(Unreached) as told:
        asked(tmp_path, "kafka_0", kind="kubernetes", **hosts.plan(tmp_path, tmp_path)).run()
    assert told.value.retryable


@pytest.mark.parametrize(
    ("extra", "why"),
    [
        ({"kafkats_volumes": {}}, "kafkats_volumes"),
        ({"kafkats_volumes": {"disk": "c"}}, "kafkats_volumes"),
        ({"kafkats_volumes": {"/disk": "/mnt/disk"}}, "there is no kafkats_node"),
        ({"kafkats_images": "x"}, "kafkats_images"),
        ({"kafkats_user": "root"}, "kafkats_user"),
        ({"kafkats_silence_seconds": "soon"}, "soon"),
    ],
)
def test_an_extra_that_is_wrong_is_one_sentence(
    monkeypatch: pytest.MonkeyPatch, extra: Any, why: str
) -> None:
    made = recorded.connection("http://127.0.0.1:1", **extra)
    monkeypatch.setenv("AIRFLOW_CONN_KAFKA_0", made)
    with pytest.raises(UsageError, match=f"the connection 'kafka_0': .*{why}") as told:
        PodHost("kafka_0")
    assert SECRET not in str(told.value)


def test_a_missing_provider_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "airflow.providers.cncf.kubernetes.hooks.kubernetes", None)
    with pytest.raises(UsageError, match=r"pip install 'kafkats\[kubernetes\]'"):
        providers.hook_class("kubernetes")


def test_seconds_of_patience_are_less_than_a_minute() -> None:
    assert pod_state.TOLD_SECONDS + 15 < 60


def test_recordings_have_no_secret_and_no_path_of_a_machine() -> None:
    for file in recorded.FOLDER.iterdir():
        text = file.read_text()
        for word in (
            SECRET,
            "eyJ",
            "CERTIFICATE",
            "Bearer",
            "pytest",
            "/root",
            "/home",
            'token":"',
        ):
            assert word not in text, (file.name, word)
