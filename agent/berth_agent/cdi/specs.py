"""What stands in a CDI spec: a device for each card and each MIG instance, called by its uuid."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from berth_agent.delivery.containers import DeviceNode, Edits, GivenCard, Undeliverable
from berth_agent.delivery.means import DirectMeans
from berth_crds import names, vocabulary, wire

KIND: Final = f"{names.GROUP}/gpu"
VERSION: Final = "0.5.0"  # All runtimes of today read it.


def spec(cards: Iterable[wire.Card], means: DirectMeans) -> Mapping[str, Any] | None:
    """Return the spec of the cards that can be opened; None if there are none: it must have a device."""
    devices = [device for given in _givens(cards) if (device := _device(given, means)) is not None]
    if not devices:
        return None
    return {"cdiVersion": VERSION, "kind": KIND, "devices": devices, "containerEdits": _edits(means.shared())}


def _givens(cards: Iterable[wire.Card]) -> Iterator[GivenCard]:
    """Yield what containers may be given: whole cards, or the MIG instances of those that are cut."""
    for card in cards:
        if card.type != vocabulary.DeviceType.GPU:
            continue
        if card.mig and card.mig.enabled:
            yield from (GivenCard(card, instance) for instance in card.mig.instances)
        else:
            yield GivenCard(card)


def _device(given: GivenCard, means: DirectMeans) -> Mapping[str, Any] | None:
    """Return the device of a card; None where a device node is missing, which is no matter of the others."""
    try:
        nodes = means.of_card(given)
    except Undeliverable:
        return None
    return {"name": given.uuid, "containerEdits": _edits(Edits(nodes))} if nodes else None


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
