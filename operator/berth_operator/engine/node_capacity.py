"""What nodes list of their devices: how much of each resource the devices of a node can give.

A card counts that may get pods, and one that a pod holds, whatever has become of it since: a kubelet that is
started again admits its running pods anew, and would refuse those for which its node has too little. For the
same reason a node never lists less than the pods ask for that it has admitted, or that Berth has bound. Where
the policy oversells core, a node lists as much core as may be promised of its cards: its kubelet counts what
all pods ask for by that name.
"""

import collections
from collections.abc import Iterator, Mapping
from typing import Final

from berth_crds import aliases, device_types, names, vocabulary
from berth_operator.scheduling import node_info
from berth_operator.scheduling.devices import requests
from berth_operator.scheduling.devices.device_facts import PhysicalDevice
from berth_operator.scheduling.nodes import facts
from berth_operator.scheduling.policy import NO_OVERSALE, Oversale

Amounts = Mapping[str, int]  # By the name of the resource.
NOTHING: Final[Amounts] = {}

# Whether nodes list those of packages, is the matter of these packages.
OTHERS: Final = {one.name: one.resource for one in device_types.BUILT_IN}
NAMES: Final = {
    vocabulary.NodeNames.NONE: {},
    vocabulary.NodeNames.BERTH: aliases.node_names(koordinator=False),
    vocabulary.NodeNames.KOORDINATOR: aliases.node_names(koordinator=True),
}
ALL_NAMES: Final = frozenset(
    name for those in NAMES[vocabulary.NodeNames.KOORDINATOR].values() for name in those
)

CORE_NAMES: Final = frozenset(NAMES[vocabulary.NodeNames.KOORDINATOR][names.GPU_CORE])


def of_node(
    info: node_info.NodeInfo,
    which: vocabulary.NodeNames,
    oversale: Oversale = NO_OVERSALE,
    unadmitted: Amounts = NOTHING,
) -> Amounts | None:
    """Return what a node is to list by all its names; None while nothing is known of its devices.

    Pods that somebody put there and that its kubelet has not admitted ask for what is `unadmitted`: it counts
    for nothing, or a pod could have its node list any amount.
    """
    if info.published is not None and info.published.failed:
        return None
    given = _of_devices(info, oversale) if info.published is not None else collections.Counter[str]()
    wanted = {name: given[own] for own, all_names in NAMES[which].items() for name in all_names if given[own]}
    if info.published is not None and info.published.kubelet_served:
        wanted.pop(names.GPU, None)  # The kubelet counts it, and says how much of it is left to give.
    certain = {name: amount - unadmitted.get(name, 0) for name, amount in info.amounts.items()}
    asked = {name: amount for name, amount in certain.items() if name in ALL_NAMES and amount}
    # A name that is listed no more stays while pods ask for it, if the kubelet would refuse them without.
    kept = {name for name in asked if name in wanted or name.startswith(aliases.LISTED_OR_REFUSED)}
    return {name: max(wanted.get(name, 0), asked.get(name, 0)) for name in sorted(wanted.keys() | kept)}


def shown(node: facts.Node) -> dict[str, int]:
    """Return what a node lists by these names."""
    return {name: amount for name, amount in node.allocatable if name in ALL_NAMES}


def _of_devices(info: node_info.NodeInfo, oversale: Oversale) -> collections.Counter[str]:
    """Return what the devices of a node give, by Berth's own names."""
    found = collections.Counter[str]()
    assert info.published is not None, "the node has a Device"  # noqa: S101
    for card in _given(info, info.published.cards):
        if card.mig:
            continue
        if card.replicas > 1:
            found[names.GPU_SHARED] += card.replicas
            continue
        found.update(dict.fromkeys((names.GPU, names.GPU_MEMORY_RATIO), requests.WHOLE))
        # A card of unknown memory is never oversold.
        found[names.GPU_CORE] += oversale.core if oversale and card.memory else requests.WHOLE
        found[names.GPU_MEMORY] += card.memory
    for other in _given(info, info.published.others):
        if own := OTHERS.get(other.type):
            found[own] += requests.WHOLE
    return found


def _given(info: node_info.NodeInfo, those: tuple[PhysicalDevice, ...]) -> Iterator[PhysicalDevice]:
    """Yield the devices that may get pods, or are held."""
    return (one for one in those if one.trouble is None or one.uuid in info.used)
