"""Nodes as the core knows them."""

from berth_operator.scheduling.nodes import facts
from berth_operator.translate import quantities, raw


def node(thing: raw.Node) -> facts.Node:
    """Read a node."""
    return facts.Node(
        name=thing.metadata.name,
        labels=thing.metadata.labels,
        taints=tuple(facts.Taint(one.key, one.value, one.effect) for one in thing.spec.taints or ()),
        unschedulable=thing.spec.unschedulable,
        allocatable=supplies(thing.status.allocatable or {}),
    )


def supplies(resources: raw.Resources) -> facts.Amounts:
    """Read what a node can give; a quantity that cannot be read counts as nothing."""
    return tuple((name, _supply(name, value)) for name, value in sorted(resources.items()))


def _supply(name: str, value: raw.Quantity) -> int:
    try:
        return quantities.supply(str(value), thousandths=name == facts.CPU)
    except ValueError:
        return 0
