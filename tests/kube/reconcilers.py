"""Reconcilers that run beside a test, and servers that say what Kopf asks them."""

import asyncio
import contextlib
import dataclasses
import functools
from collections.abc import AsyncIterator, Mapping
from typing import Any

from prometheus_client import registry

from berth_crds import names
from berth_crds.client import api, connection, resources
from berth_operator import metrics
from berth_operator.engine import node_summaries
from berth_operator.kube import gpupod_store, reconciler
from kube import servers
from support import clock, stub

Thing = dict[str, Any]
STATUS = resources.DEVICES.path("n1", sub="status")


@contextlib.asynccontextmanager
async def running(
    link: connection.Connection,
    kopf_metrics: metrics.Kopf | None = None,
    store: gpupod_store.GpuPodStore | None = None,
) -> AsyncIterator[reconciler.Reconciler]:
    """Run a reconciler beside the block."""
    lent = reconciler.Reconciler(
        link,
        servers.unlimited_statuses(),
        open_session=functools.partial(api.Api, link, agent="test-reconciler"),
        wall=clock.Clock().wall,
        gpupods=store or gpupod_store.GpuPodStore(),
        kopf_metrics=kopf_metrics or metrics.Kopf(registry.CollectorRegistry()),
    )
    lent.start()
    try:
        yield lent
    finally:
        await asyncio.to_thread(lent.stop)


def summary(name: str = "n1", **changes: Any) -> node_summaries.NodeSummary:
    """Return the summary of a node."""
    return dataclasses.replace(node_summaries.NodeSummary(name, 4, 0, 4, silent=False), **changes)


def kinds(*plurals: str) -> Thing:
    """Return the answer of a server that is asked which kinds of a group there are."""
    verbs = ["get", "list", "patch", "watch"]
    found = [
        {"name": plural, "kind": plural, "singularName": plural, "namespaced": False, "verbs": verbs}
        for plural in plurals
    ]
    return {"kind": "APIResourceList", "groupVersion": names.API_VERSION, "resources": found}


def groups(*group_names: str) -> Thing:
    """Return the answer of a server that is asked which groups there are."""
    version = {"groupVersion": names.API_VERSION, "version": names.VERSION}
    found = [{"name": name, "versions": [version], "preferredVersion": version} for name in group_names]
    return {"kind": "APIGroupList", "groups": found}


def serve(
    server: stub.Stub,
    watches: Mapping[resources.Resource, stub.Answer],
    *,
    first_groups: Thing | None = None,
    first_kinds: Thing | None = None,
) -> None:
    """Have a server say what Kopf asks: its kinds, perhaps not all at first, the Device n1, and watches.

    A watch that is not given stays open and says nothing.
    """
    device = {"metadata": {"name": "n1", "resourceVersion": "1"}, "status": {}}
    all_kinds = kinds(names.DEVICES, names.GPU_PODS, names.POLICIES)
    server.on("GET", "/api", stub.thing({"versions": ["v1"]}))
    server.on("GET", "/api/v1", stub.thing(kinds("namespaces")))
    server.on("GET", "/apis", *map(stub.thing, filter(None, (first_groups, groups(names.GROUP)))))
    server.on("GET", f"/apis/{names.API_VERSION}", *map(stub.thing, filter(None, (first_kinds, all_kinds))))
    quiet = stub.watch(until=asyncio.Event())
    for resource in (resources.DEVICES, resources.GPU_PODS, resources.POLICIES):
        items = [device] if resource is resources.DEVICES else []
        answers = {"": stub.page(*items, version="2"), "true": watches.get(resource, quiet)}
        server.on("GET", resource.path(), stub.by_query("watch", answers))
