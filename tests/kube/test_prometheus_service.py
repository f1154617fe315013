"""Prometheus is found by its Service on a real API server, with the rights that the manifests give.

Nothing here answers at a Service's own address, for there is no network of pods; so a Service stands for a
host elsewhere, as one of the type ExternalName does. What other Services lead to is shown without a fetch.
"""

import contextlib
from collections.abc import AsyncIterator
from typing import Any

import pytest
import yaml

from berth_crds.client import api, errors
from berth_operator.engine.measured_loads import MeasuredLoads
from berth_operator.metrics import Metrics
from berth_operator.prometheus import client, discovery, faults, poller, queries
from berth_operator.scheduling.policy import Policy, Prometheus
from support import clock, ledgers, prometheus, stub
from testbed import cluster as clusters
from testbed import shipped, waiting

RIGHTS = shipped.MANIFESTS / "prometheus" / "rbac.yaml"
LABELS = {"app.kubernetes.io/name": "prometheus"}


@pytest.fixture
async def allowed(berth: clusters.Cluster, session: api.Api, namespace: str) -> str:
    """Lend a namespace in which the operator may look for Prometheus."""
    berth.apply(RIGHTS.read_text().replace("namespace: monitoring", f"namespace: {namespace}"))

    async def in_force() -> bool:
        with contextlib.suppress(errors.Forbidden):
            return bool(await session.send("GET", f"/api/v1/namespaces/{namespace}/services"))
        return False

    # The server goes by its own copy of the rights, which may be a moment old.
    await waiting.eventually(in_force, what="the right to list Services", seconds=30)
    return namespace


@pytest.fixture
async def server() -> AsyncIterator[stub.Stub]:
    """Lend a server that answers as Prometheus does, with one card that is busy."""
    known = prometheus.Prometheus()
    known.scrape_node("n1", 95)
    async with stub.Stub() as found:
        found.on("GET", queries.PATH, known.answer)
        yield found


def make(cluster: clusters.Cluster, namespace: str, name: str, **spec: Any) -> None:
    """Make a Service with the usual label."""
    meta = {"name": name, "namespace": namespace, "labels": LABELS}
    usual = {"ports": [{"name": "grpc", "port": 10901}, {"name": "web", "port": 9090}]}
    body = {"apiVersion": "v1", "kind": "Service", "metadata": meta, "spec": usual | spec}
    cluster.apply(yaml.safe_dump(body))


async def test_one_service_is_found_and_another_makes_it_unclear(
    berth: clusters.Cluster, session: api.Api, allowed: str
) -> None:
    """By the operator's own account, in the namespace that it has the right for."""
    source = Prometheus(namespace=allowed)
    with pytest.raises(faults.Fault, match="there is no Service in namespace"):
        await discovery.find(session, source)

    make(berth, allowed, "prometheus")
    assert await discovery.find(session, source) == f"http://prometheus.{allowed}.svc:9090"

    make(berth, allowed, "impostor")
    with pytest.raises(faults.Fault, match=r"more than one Service .*\(impostor, prometheus\)"):
        await discovery.find(session, source)


async def test_without_the_right_the_sentence_says_where_it_is(session: api.Api, namespace: str) -> None:
    """The operator has no right to Services but what these manifests give."""
    with pytest.raises(
        faults.Fault, match=r"may not list the Services .* see manifests/prometheus/rbac\.yaml"
    ):
        await discovery.find(session, Prometheus(namespace=namespace))


async def test_a_selector_that_is_none_is_refused_by_the_server(session: api.Api, allowed: str) -> None:
    """Its sentence is passed on."""
    with pytest.raises(faults.Fault, match="its Service cannot be looked for: 400 BadRequest: found"):
        await discovery.find(session, Prometheus(namespace=allowed, service_selector="==="))


async def test_loads_come_from_the_prometheus_that_was_found(
    berth: clusters.Cluster, session: api.Api, allowed: str, server: stub.Stub
) -> None:
    """From the Service to the ledger; an address that fails is looked for again."""
    host, port = server.link.server.removeprefix("http://").split(":")
    make(berth, allowed, "gone", type="ExternalName", externalName=host, ports=[{"port": 1}])
    time, ledger = clock.Clock(), ledgers.with_nodes(1, 2)
    around = poller.Surroundings(session, client.NONE, Metrics().load_polls, time)
    asking = poller.Poller(ledger, MeasuredLoads(ledger, clock=time), around)
    ledger.policy_seen(Policy(prometheus=Prometheus(namespace=allowed)))
    await asking.step()
    assert asking.fault.endswith(f"{host}:1: it cannot be reached: Connection refused")

    berth.kubectl("delete", "service", "gone", "--namespace", allowed)
    ports = [{"name": "web", "port": int(port)}]
    make(berth, allowed, "prometheus", type="ExternalName", externalName=host, ports=ports)
    time.advance(15.0)
    await asking.step()

    assert asking.fault == ""
    assert ledger.loads.of("n1")[0].utilization == 95
