"""What stands in a CDI spec: a device for each card and each MIG instance, called by its uuid."""

import dataclasses
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from berth_agent.delivery.containers import DeviceNode, Edits, GivenCard, Undeliverable
from berth_agent.delivery.means import DirectMeans
from berth_crds import names, vocabulary, wire

KIND: Final = f"{names.GROUP}/gpu"
VERSION: Final = "0.5.0"  # All runtimes of today read it.


@dataclasses.dataclass(frozen=True, slots=True)
class NodeSpec:
    """The spec of a node, None without a device, which it must have; and why other cards are not in it."""

    content: Mapping[str, Any] | None
    missing: tuple[str, ...] = ()


def spec(cards: Iterable[wire.Card], means: DirectMeans) -> NodeSpec:
    """Return the spec of the cards that can be opened: one that cannot is no matter of the others."""
    devices: list[Mapping[str, Any]] = []
    missing: list[str] = []
    for given in _givens(cards):
        try:
            nodes = means.of_card(given)
        except Undeliverable as error:
            missing.append(f"{error}")
            continue
        if nodes:
            devices.append({"name": given.uuid, "containerEdits": _edits(Edits(nodes))})
    if not devices:
        return NodeSpec(None, tuple(missing))
    edits = _edits(means.shared())
    content = {"cdiVersion": VERSION, "kind": KIND, "devices": devices, "containerEdits": edits}
    return NodeSpec(content, tuple(missing))


def _givens(cards: Iterable[wire.Card]) -> Iterator[GivenCard]:
    """Yield what containers may be given: whole cards, or the MIG instances of those that are cut."""
    for card in cards:
        if card.type != vocabulary.DeviceType.GPU:
            continue
        if card.mig and card.mig.enabled:
            yield from (GivenCard(card, instance) for instance in card.mig.instances)
        else:
            yield GivenCard(card)


def _edits(edits: Edits) -> Mapping[str, Any]:
    found: dict[str, Sequence[Any]] = {
        "deviceNodes": [_node(node) for node in edits.device_nodes],
        "mounts": [
            {"hostPath": mount.source, "containerPath": mount.destination, "options": mount.options}
            for mount in edits.mounts
        ],
    }
    return {key: value for key, value in found.items() if value}


def _node(node: DeviceNode) -> Mapping[str, Any]:
    return {"path": node.path, "type": "c", "major": node.major, "minor": node.minor, "fileMode": node.mode}
