"""Nodes as the core knows them.

Every kubelet writes its own Node, so what one may say has limits, too: one that says more
is not read at all, because a label that is left out may be the very one that a pod avoids.
"""

from collections.abc import Iterator

from berth_operator.scheduling.nodes import facts
from berth_operator.translate import pod_limits, quantities, raw


def node(thing: raw.Node) -> facts.Node:
    """Read a node."""
    return facts.Node(
        name=thing.metadata.name,
        labels=thing.metadata.labels,
        taints=tuple(facts.Taint(one.key, one.value, one.effect) for one in thing.spec.taints or ()),
        unschedulable=thing.spec.unschedulable,
        allocatable=supplies(thing.status.allocatable or {}),
    )


def excess(thing: raw.Node) -> str:
    """Return what a node says too much of; nothing where it can be read."""
    labels, taints = thing.metadata.labels, thing.spec.taints or ()
    counts = (
        ("labels", len(labels), pod_limits.NODE_LABELS),
        ("taints", len(taints), pod_limits.NODE_TAINTS),
        ("resources", len(thing.status.allocatable or {}), pod_limits.NODE_RESOURCES),
        ("characters in labels and taints", sum(map(len, _texts(thing))), pod_limits.NODE_TEXT),
    )
    return "; ".join(
        f"it has {count} {what}, and Berth reads {most} at most"
        for what, count, most in counts
        if count > most
    )


def _texts(thing: raw.Node) -> Iterator[str]:
    for key, value in thing.metadata.labels.items():
        yield from (key, value)
    for one in thing.spec.taints or ():
        yield from (one.key, one.value, one.effect)


def supplies(resources: raw.Resources) -> facts.Amounts:
    """Read what a node can give; a quantity that cannot be read counts as nothing."""
    return tuple((name, _supply(name, value)) for name, value in sorted(resources.items()))


def _supply(name: str, value: raw.Quantity) -> int:
    try:
        return quantities.supply(str(value), thousandths=name == facts.CPU)
    except ValueError:
        return 0
