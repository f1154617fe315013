"""A real operator takes the loads of cards from Prometheus, as the policy says, and places pods by them."""

from collections.abc import AsyncIterator
from typing import Any, Final

import pytest
import yaml

from berth_crds import names
from berth_crds.client import resources
from berth_operator.prometheus import queries
from e2e.stage import Stage, cards_of
from support import manifests, prometheus, stub
from testbed import shipped

RIGHTS: Final = shipped.MANIFESTS / "prometheus" / "rbac.yaml"


@pytest.fixture
async def known() -> AsyncIterator[tuple[prometheus.Prometheus, str]]:
    """Lend a server that answers as Prometheus does, and its address."""
    known = prometheus.Prometheus()
    async with stub.Stub() as server:
        server.on("GET", queries.PATH, known.answer)
        yield known, server.link.server


@pytest.fixture
async def stage_of_loads(stage: Stage) -> AsyncIterator[Stage]:
    """Yield a stage on which the operator may look for Prometheus; the policy is as before afterwards."""
    rights = RIGHTS.read_text().replace("namespace: monitoring", f"namespace: {stage.namespace}")
    stage.cluster.apply(rights)
    policy = await stage.admin.get(resources.POLICIES, names.DEFAULT_POLICY, into=dict)
    yield stage
    await decree(stage, {"strategy": policy["spec"]["strategy"], "weights": None, "load": None})


async def decree(stage: Stage, spec: dict[str, Any]) -> None:
    """Change the policy."""
    await stage.patch(resources.POLICIES, names.DEFAULT_POLICY, {"spec": spec})


async def test_a_card_that_is_busy_by_prometheus_is_avoided(
    stage_of_loads: Stage, known: tuple[prometheus.Prometheus, str]
) -> None:
    """Though its agent measures nothing of the kind; Prometheus is found by the label of its Service."""
    stage, (scraped, url) = stage_of_loads, known
    node = f"{stage.namespace}-n1"
    await stage.nodes(**{node: "2xT4"})
    listed = (await stage.devices())[node]["spec"]["devices"]
    busy, idle = (one["uuid"] for one in sorted(listed, key=lambda one: int(one["minor"])))
    scraped.scrape(busy, 95)
    host, port = url.removeprefix("http://").split(":")
    meta = {"name": "p", "namespace": stage.namespace, "labels": {"app.kubernetes.io/name": "prometheus"}}
    spec = {"type": "ExternalName", "externalName": host, "ports": [{"name": "web", "port": int(port)}]}
    body = {"apiVersion": "v1", "kind": "Service", "metadata": meta, "spec": spec}
    stage.cluster.apply(yaml.safe_dump(body))
    load = {"source": "prometheus", "prometheus": {"namespace": stage.namespace}}
    await decree(stage, {"strategy": "weighted", "weights": {"utilization": 100}, "load": load})

    operator = await stage.deciding_operator()
    await stage.says(operator, f"the loads of cards come from Prometheus at {url}")
    await stage.placed(manifests.pod("p"))

    assert cards_of((await stage.pods())["p"]) == [idle]
