"""Nodes as the core knows them.

Every kubelet writes its own Node, so Nodes have limits, too. One beyond them is not read at all,
because a label that is left out may be the one that a pod avoids.
"""

from collections.abc import Iterator

from berth_crds import names
from berth_operator.scheduling.nodes import facts
from berth_operator.translate import (
    node_features,
    node_images,
    partition_tables,
    pod_limits,
    quantities,
    raw,
)


def read(node: raw.Node) -> facts.Node:
    """Return a node."""
    taints = node.spec.taints or ()
    silent_taint = next((at for at, one in enumerate(taints) if _says_silent(one)), None)
    return facts.Node(
        name=node.metadata.name,
        labels=node.metadata.labels,
        taints=tuple(
            facts.Taint(one.key, one.value, one.effect) for at, one in enumerate(taints) if at != silent_taint
        ),
        unschedulable=node.spec.unschedulable,
        allocatable=supplies(node.status.allocatable or {}),
        honors_partitions=partition_tables.honored(node.metadata.labels),
        declared_features=node_features.declared(node.status),
        silent_taint=silent_taint,
        images=node_images.read(node.status.images or ()),
    )


def _says_silent(taint: raw.Taint) -> bool:
    """Whether a taint is Berth's own; one of this key and another effect is somebody else's."""
    return taint.key == names.AGENT_SILENT_TAINT and taint.effect == facts.Effect.NO_SCHEDULE


def excess(node: raw.Node) -> str:
    """Return what a node has too much of; empty if nothing."""
    labels, taints = node.metadata.labels, node.spec.taints or ()
    counts = (
        ("labels", len(labels), pod_limits.MAX_NODE_LABELS),
        ("taints", len(taints), pod_limits.MAX_NODE_TAINTS),
        ("resources", len(node.status.allocatable or {}), pod_limits.MAX_NODE_RESOURCES),
        ("characters in labels and taints", sum(map(len, _texts(node))), pod_limits.MAX_NODE_TEXT),
    )
    return "; ".join(
        f"it has {count} {what}, and Berth reads {most} at most"
        for what, count, most in counts
        if count > most
    )


def _texts(node: raw.Node) -> Iterator[str]:
    for key, value in node.metadata.labels.items():
        yield from (key, value)
    for one in node.spec.taints or ():
        yield from (one.key, one.value, one.effect)


def supplies(resources: raw.Resources) -> facts.Amounts:
    """Return what a node supplies; an unreadable quantity counts as zero."""
    return tuple(
        (name, quantities.supply(value, thousandths=name == facts.CPU))
        for name, value in sorted(resources.items())
    )
