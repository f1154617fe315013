"""The cluster is what it claims to be: a real one, whose server tests may crash and whose history may end."""

import json
import urllib.parse
from concurrent import futures

import pytest

from testbed import cluster as clusters
from testbed import processes

CONFIG_MAP = "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}, namespace: {namespace}}}\n"


def test_cluster_answers(cluster: clusters.Cluster, request: pytest.FixtureRequest) -> None:
    """The server is of the version that the table of programs asks for; its tests need no marker."""
    version = json.loads(cluster.kubectl("version", "-o", "json"))

    assert version["serverVersion"]["gitVersion"] == version["clientVersion"]["gitVersion"]
    assert request.node.get_closest_marker("cluster")


@pytest.mark.cluster
@pytest.mark.thorough
def test_crashed_server_comes_back_and_expired_history_is_gone() -> None:
    """A cluster outlives the thread that started it, and its crashed server knows what it knew.

    After the history has expired, a watch from an old revision is answered with 410, as is a list.
    """
    with clusters.Cluster(controller_manager=False) as fragile:
        namespace, server = fragile.namespace(), fragile.server
        path = f"/api/v1/namespaces/{namespace}/configmaps"
        old = json.loads(fragile.kubectl("get", "--raw", path))["metadata"]["resourceVersion"]
        fragile.apply(CONFIG_MAP.format(name="later", namespace=namespace))

        fragile.crash_apiserver()
        with pytest.raises(clusters.KubectlFailed, match="refused"):
            fragile.kubectl("get", "namespaces")
        with futures.ThreadPoolExecutor() as thread:
            thread.submit(fragile.expire_history).result()

        assert fragile.server == server
        watch = urllib.parse.urlencode({"watch": 1, "resourceVersion": old, "timeoutSeconds": 5})
        event = json.loads(fragile.kubectl("get", "--raw", f"{path}?{watch}").splitlines()[0])
        assert (event["type"], event["object"]["code"]) == ("ERROR", 410)
        exact = urllib.parse.urlencode({"resourceVersion": old, "resourceVersionMatch": "Exact"})
        with pytest.raises(clusters.KubectlFailed, match="too old"):
            fragile.kubectl("get", "--raw", f"{path}?{exact}")


@pytest.mark.cluster
def test_failed_start_explains_itself() -> None:
    """A server that cannot start is shown with its last words, and nothing of it stays."""
    testbed = clusters.Cluster(apiserver_args=["--no-such-option"])

    with pytest.raises(processes.CannotStart, match="unknown flag: --no-such-option"):
        testbed.start()

    assert not testbed.directory.exists()
