"""What one container gets, from the annotations that the bind wrote on its pod. Pure.

Nothing that the pod itself says counts. What cannot be carried out to the letter is not carried out at all, so
that no container starts with other devices than the ledger has it hold.
"""

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple, Protocol

from berth_crds import allocation, names, vocabulary, wire

VISIBLE_DEVICES: Final = "NVIDIA_VISIBLE_DEVICES"
MEMORY: Final = "BERTH_GPU_MEMORY"
CORE: Final = "BERTH_GPU_CORE"


class DeviceNode(NamedTuple):
    """A character device, as it is called in the container."""

    path: str
    major: int
    minor: int
    mode: int = 0o666


@dataclasses.dataclass(frozen=True, slots=True)
class Delivery:
    """What a container gets."""

    env: Mapping[str, str]
    nodes: tuple[DeviceNode, ...] = ()


class Undeliverable(Exception):
    """The container cannot get what was decided; the text is a clause."""


class DeviceNodes(Protocol):
    """The device nodes of the node, or `Undeliverable` where one is missing."""

    def of_driver(self) -> Iterable[DeviceNode]:
        """Return those that every container with a card needs."""

    def of_card(self, minor: int) -> DeviceNode:
        """Return that of a card."""

    def of_instance(self, minor: int, instance: wire.MigInstance) -> Iterable[DeviceNode]:
        """Return those that open a MIG instance of a card."""


def delivery(
    annotations: Mapping[str, str],
    container: str,
    node: str,
    cards: Iterable[wire.Card],
    device_nodes: DeviceNodes,
) -> Delivery | None:
    """Return what a container gets; None in a pod that Berth has not bound. Raise `Undeliverable` if it cannot."""
    if names.TERM not in annotations:
        return None
    shares = _shares(annotations, container, node)
    if not shares:
        return Delivery({VISIBLE_DEVICES: names.NO_CARDS, MEMORY: "", CORE: ""})
    known = {card.uuid: card for card in cards if card.type == vocabulary.DeviceType.GPU}
    found: dict[DeviceNode, None] = {}
    for share in shares:
        found |= dict.fromkeys(_nodes(share, known, device_nodes))
    env = {
        VISIBLE_DEVICES: ",".join(share.uuid for share in shares),
        MEMORY: ",".join(str(share.memory) for share in shares),
        CORE: ",".join(str(share.core) for share in shares),
    }
    return Delivery(env, (*found, *device_nodes.of_driver()))


def _shares(annotations: Mapping[str, str], container: str, node: str) -> list[allocation.Share]:
    """Return the shares of GPUs that a container was given."""
    if (text := annotations.get(names.ALLOCATION)) is None:
        return []
    read = allocation.decode(text)
    if isinstance(read, allocation.Unreadable):
        raise Undeliverable(f"the annotation {names.ALLOCATION} cannot be read: {read.detail}")
    if read.node != node:
        raise Undeliverable(f"the annotation {names.ALLOCATION} is about node {read.node}, this is {node}")
    gpus = (one for one in read.entries() if one.type == vocabulary.DeviceType.GPU)
    return [one.share for one in gpus if one.container == container]


def _nodes(
    share: allocation.Share, cards: Mapping[str, wire.Card], device_nodes: DeviceNodes
) -> Iterable[DeviceNode]:
    if (card := cards.get(share.uuid)) is not None:
        _check_minor(share, card)
        return [device_nodes.of_card(card.minor)]
    for card in cards.values():
        for instance in card.mig.instances if card.mig else ():
            if instance.uuid == share.uuid:
                _check_minor(share, card)
                return [device_nodes.of_card(card.minor), *device_nodes.of_instance(card.minor, instance)]
    raise Undeliverable(f"the node has no card {share.uuid} now")


def _check_minor(share: allocation.Share, card: wire.Card) -> None:
    if share.minor != card.minor:
        raise Undeliverable(f"card {card.uuid} has minor {card.minor} now, and had {share.minor} at the bind")
