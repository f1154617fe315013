"""Cards that need somebody's help: which pods still hold them, and what may be done once none does.

The agent reports what a sick card needs. A reset ends every program on the card, and so do a reboot and a
replacement, so people want to know when no pod is left on it. Which pods are evicted is said by `evictions`.
"""

from collections.abc import Iterator
from typing import Final

from berth_crds.vocabulary import Recovery
from berth_operator.scheduling import node_info
from berth_operator.scheduling.devices import device_facts
from berth_operator.scheduling.devices.device_facts import PhysicalDevice
from berth_operator.scheduling.holds import Hold

# What a card needs, and what may be done as soon as no pod holds it. Other verdicts leave pods where they
# are: a program's own error, or one that passes by itself.
NEEDS: Final[dict[Recovery, tuple[str, str]]] = {
    Recovery.RESET: ("needs a reset", "it is safe to reset it"),
    Recovery.DRAIN: ("must be drained", "it is drained"),
    Recovery.REBOOT: ("needs a reboot of its node", "no pod stands to lose it"),
    Recovery.REPLACE: ("must be replaced", "it can be taken out"),
}
MOST_NAMED: Final = 4  # Cards of a node.


def holders(info: node_info.NodeInfo, card: PhysicalDevice) -> list[Hold]:
    """Return the pods that hold something of a card, or may do so; in the order of their names."""
    uuids = {card.uuid, *(one.uuid for one in card.instances)}
    marks = uuids | ({card.minor} if card.type == device_facts.GPU else set())
    found = (
        hold
        for hold in info.holds.values()
        if any(share.uuid in uuids for share in hold.shares) or not hold.marked.isdisjoint(marks)
    )
    return sorted(found, key=lambda hold: hold.title)


def name(card: PhysicalDevice) -> str:
    """Return what people call a card."""
    return f"card {card.minor}" if card.type == device_facts.GPU else card.uuid


def need(card: PhysicalDevice) -> str:
    """Return what a sick card needs, as a phrase; empty if nothing for which pods must be gone."""
    return NEEDS[card.recovery][0] if card.recovery in NEEDS else ""


def phrases(info: node_info.NodeInfo) -> Iterator[str]:
    """Yield what sick cards of a node need, and whether pods are in the way; none while it is silent."""
    if info.device is None or info.agent_not_ready:
        return
    sick = [card for card in (*info.device.cards, *info.device.others) if card.recovery in NEEDS]
    for card in sick[:MOST_NAMED]:
        yield f"{name(card)} {need(card)}: {_hindrance(info, card)}"
    if len(sick) > MOST_NAMED:
        yield f"{len(sick) - MOST_NAMED} more cards need repair"


def _hindrance(info: node_info.NodeInfo, card: PhysicalDevice) -> str:
    """Return which pods hold a card, or what may be done as none does, as a phrase."""
    if count := len(holders(info, card)):
        return f"{count} {'pod holds' if count == 1 else 'pods hold'} it"
    if card.occupants:
        return "processes outside Berth use it"
    if info.withheld:
        return "a pod without a valid allocation annotation may hold it"
    return f"no pod holds it, {NEEDS[Recovery(card.recovery or Recovery.NONE)][1]}"
