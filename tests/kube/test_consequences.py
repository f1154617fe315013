"""Whatever is written, all that follows from it can be worked out: no object ends a leader."""

from typing import Any

import hypothesis
import msgspec
import prometheus_client
from hypothesis import strategies as st
from prometheus_client import registry

from berth_crds import wire
from berth_crds.client import lease
from berth_crds.vocabulary import NodeNames
from berth_operator.engine import device_audit, inventory_metrics, node_capacity, node_summaries
from berth_operator.http_api import views
from berth_operator.kube import kind_statuses
from berth_operator.translate import raw
from kube import sinks
from support import random_clusters, shapes

MOMENT = "2026-01-01T00:00:00Z"


def named(thing: Any, name: str = sinks.NODE) -> Any:
    """Return an object by the name of the node, so that all of them meet there."""
    return msgspec.structs.replace(thing, metadata=msgspec.structs.replace(thing.metadata, name=name))


def work_out(known: sinks.Sinks) -> None:
    """Work out all that a leader does beside binding pods."""
    ledger = known.ledger
    inventory = ledger.inventory
    for info in list(inventory.each()):
        for which in NodeNames:
            listed = node_capacity.of_node(info, which)
            assert listed is None or all(amount >= 0 for amount in listed.values())
        assert msgspec.json.encode(views.node(ledger, info))
        assert all(device_audit.node_findings(info))
    for summary in node_summaries.summarize(inventory, set(inventory.index)):
        assert msgspec.json.encode(kind_statuses.device_status(summary, {}, moment=MOMENT))
    collected = registry.CollectorRegistry()
    collected.register(inventory_metrics.InventoryCollector(ledger, known.time))
    assert prometheus_client.generate_latest(collected)
    assert all(device_audit.audit(inventory))


@random_clusters.PROPERTY
@hypothesis.given(
    st.lists(shapes.objects(wire.Device).map(named), min_size=1, max_size=3),
    st.lists(shapes.objects(wire.GpuPod), max_size=2),
    st.lists(shapes.objects(raw.Pod), max_size=2),
    shapes.objects(raw.Node).map(named),
    shapes.objects(lease.Lease).map(named),
)
def test_what_follows_from_odd_objects(
    devices: list[wire.Device],
    gpupods: list[wire.GpuPod],
    pods: list[raw.Pod],
    node: raw.Node,
    renewal: lease.Lease,
) -> None:
    """Of any shape and in any order, one version after the other."""
    known = sinks.with_node()

    for device in devices:
        sinks.feed(known.devices, msgspec.convert(msgspec.to_builtins(device), raw.Device))
        sinks.feed(known.gpupods, *gpupods)
        sinks.feed(known.leases, renewal)
        sinks.feed(known.pods, *pods)
        sinks.feed(known.nodes, node)
        known.watchdog.judge()
        work_out(known)
    known.time.advance(1000)
    known.watchdog.judge()
    work_out(known)
