"""The cluster is what it claims to be: a real one, with access control, an audit log and a history."""

from __future__ import annotations

import json
import os
import subprocess
import urllib.parse
from collections.abc import Iterator
from concurrent import futures
from pathlib import Path

import pytest

from testbed import audit, console, kubeconfig, processes, waiting
from testbed import cluster as clusters

CONFIG_MAP = "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}, namespace: {namespace}}}\n"
POD = """\
apiVersion: v1
kind: Pod
metadata: {{name: {name}, namespace: {namespace}}}
spec: {{containers: [{{name: main, image: none}}]}}
"""


@pytest.fixture(scope="module")
def fragile() -> Iterator[clusters.Cluster]:
    """Yield a cluster that tests may break, since nobody else uses it."""
    with clusters.Cluster(controller_manager=False) as testbed:
        yield testbed


def test_cluster_answers(cluster: clusters.Cluster) -> None:
    """The cluster serves the version that the table of programs asks for, and says how soon it did."""
    version = json.loads(cluster.kubectl("version", "-o", "json"))

    assert version["serverVersion"]["gitVersion"] == version["clientVersion"]["gitVersion"]
    assert 0 < cluster.ready_seconds < clusters.READY_SECONDS
    print(f"ready in {cluster.ready_seconds:.1f} s")


def test_a_shell_is_told_how_to_reach_it(cluster: clusters.Cluster, tmp_path: Path) -> None:
    """After the lines that it prints, a shell has the kubectl of the server's version, and its cluster."""
    told = f"{console.exports(cluster)}\nkubectl version -o json && kubectl get namespace default -o name"

    bare = {"PATH": os.defpath, "HOME": str(tmp_path)}
    said = subprocess.check_output(["bash", "-c", told], env=bare, text=True)

    found, end = json.JSONDecoder().raw_decode(said)
    assert found["clientVersion"]["gitVersion"] == found["serverVersion"]["gitVersion"]
    assert said[end:].strip() == "namespace/default"


def test_cluster_tests_are_marked(cluster: clusters.Cluster, request: pytest.FixtureRequest) -> None:
    """A test that uses the cluster carries its marker without asking for it."""
    assert cluster.directory.is_dir()
    assert request.node.get_closest_marker("cluster")


def test_namespaces_are_fresh(cluster: clusters.Cluster) -> None:
    """Each test gets a namespace of its own, in which pods are admitted at once."""
    first, second = cluster.namespace("one"), cluster.namespace("one")

    cluster.apply(POD.format(name="a", namespace=first), POD.format(name="a", namespace=second))

    assert first != second
    assert cluster.kubectl("get", "pods", "-n", second, "-o", "name") == "pod/a\n"


def test_stranger_is_refused(cluster: clusters.Cluster, namespace: str) -> None:
    """A service account without a role may not read, and its refused write is on record."""
    stranger = cluster.service_account(namespace, "stranger")
    config = str(cluster.kubeconfig_for(namespace, "stranger"))

    with pytest.raises(clusters.KubectlFailed, match="cannot list resource"):
        cluster.kubectl("--kubeconfig", config, "get", "pods")
    with pytest.raises(clusters.KubectlFailed, match="cannot create resource"):
        cluster.kubectl("--kubeconfig", config, "create", "configmap", "a")

    [event] = waiting.until(lambda: audit.writes_by(cluster.audit(), stranger), what="the refused write")
    assert (event.verb, event.resource, event.code) == ("create", "configmaps", 403)


def test_token_is_bound_to_its_account(cluster: clusters.Cluster, namespace: str) -> None:
    """A token speaks for its service account and for nobody else."""
    user = cluster.service_account(namespace, "worker")
    endpoint = kubeconfig.Endpoint(server=cluster.server, ca_file=cluster.ca_file)

    token = cluster.token(namespace, "worker")
    config = kubeconfig.with_token(cluster.directory / "worker.kubeconfig", endpoint, token=token)

    answer = cluster.kubectl(
        "--kubeconfig", str(config), "auth", "whoami", "-o", "jsonpath={.status.userInfo}"
    )
    assert json.loads(answer)["username"] == user


def test_audit_names_the_writer(cluster: clusters.Cluster, namespace: str) -> None:
    """Every finished write is on record with user, verb, object, code, time and client; reads are not."""
    cluster.apply(CONFIG_MAP.format(name="noted", namespace=namespace))
    cluster.kubectl("get", "configmap", "noted", "-n", namespace)

    def written() -> list[audit.AuditEvent]:
        return audit.writes_to(cluster.audit(), "configmaps", namespace=namespace, name="noted")

    [event] = waiting.until(written, what="the write in the audit log")
    assert (event.user, event.verb, event.code, event.subresource) == ("testbed-admin", "patch", 201, "")
    assert event.received <= event.time
    assert event.user_agent.startswith("kubectl/")
    assert audit.accepted([event]) == [event]
    assert audit.refused([event]) == []


def test_controller_manager_collects_garbage(cluster: clusters.Cluster, namespace: str) -> None:
    """What belongs to a deleted object goes with it, as in every cluster with a controller manager."""
    cluster.apply(CONFIG_MAP.format(name="owner", namespace=namespace))
    uid = cluster.kubectl("get", "configmap", "owner", "-n", namespace, "-o", "jsonpath={.metadata.uid}")
    reference = f"  ownerReferences: [{{apiVersion: v1, kind: ConfigMap, name: owner, uid: {uid}}}]\n"
    owned = (
        f"apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: owned\n  namespace: {namespace}\n{reference}"
    )
    cluster.apply(owned)

    cluster.kubectl("delete", "configmap", "owner", "-n", namespace)

    def names() -> str:
        return cluster.kubectl("get", "configmaps", "-n", namespace, "-o", "name")

    waiting.until(lambda: "configmap/owned" not in names(), what="the owned object to go", seconds=60)


@pytest.mark.cluster
def test_expired_history_is_gone(fragile: clusters.Cluster) -> None:
    """After the history has expired, a watch from an old revision is answered with 410, as is a list."""
    namespace = fragile.namespace()
    path = f"/api/v1/namespaces/{namespace}/configmaps"
    old = json.loads(fragile.kubectl("get", "--raw", path))["metadata"]["resourceVersion"]
    fragile.apply(CONFIG_MAP.format(name="later", namespace=namespace))

    fragile.expire_history()

    watch = urllib.parse.urlencode({"watch": 1, "resourceVersion": old, "timeoutSeconds": 5})
    event = json.loads(fragile.kubectl("get", "--raw", f"{path}?{watch}").splitlines()[0])
    assert (event["type"], event["object"]["code"]) == ("ERROR", 410)
    exact = urllib.parse.urlencode({"resourceVersion": old, "resourceVersionMatch": "Exact"})
    with pytest.raises(clusters.KubectlFailed, match="too old"):
        fragile.kubectl("get", "--raw", f"{path}?{exact}")


@pytest.mark.cluster
def test_crashed_server_comes_back(fragile: clusters.Cluster) -> None:
    """A crashed API server refuses connections, and restarted knows what it knew, at the same place."""
    namespace, server = fragile.namespace(), fragile.server
    config = str(fragile.kubeconfig_for(namespace, "default"))

    fragile.crash_apiserver()
    with pytest.raises(clusters.KubectlFailed, match="refused"):
        fragile.kubectl("get", "namespaces")
    fragile.restart_apiserver()

    assert fragile.server == server
    assert f"namespace/{namespace}" in fragile.kubectl("get", "namespaces", "-o", "name")
    assert fragile.kubectl("--kubeconfig", config, "auth", "whoami", "-o", "name")


@pytest.mark.cluster
def test_clusters_live_side_by_side() -> None:
    """Two clusters started at once, by threads that end, share nothing and live on."""
    pair = [clusters.Cluster(controller_manager=False) for _ in range(2)]
    try:
        with futures.ThreadPoolExecutor() as threads:
            list(threads.map(clusters.Cluster.start, pair))

        seen = [testbed.namespace(f"number-{index}") for index, testbed in enumerate(pair)]
        lists = [testbed.kubectl("get", "namespaces", "-o", "name") for testbed in pair]
    finally:
        for testbed in pair:
            testbed.stop()

    assert seen[0] in lists[0]
    assert seen[0] not in lists[1]
    assert pair[0].directory != pair[1].directory


@pytest.mark.cluster
def test_failed_start_explains_itself() -> None:
    """A server that cannot start is shown with its last words, and nothing of it stays."""
    testbed = clusters.Cluster(apiserver_args=["--no-such-option"])

    with pytest.raises(processes.CannotStart, match="unknown flag: --no-such-option"):
        testbed.start()

    assert not testbed.directory.exists()
