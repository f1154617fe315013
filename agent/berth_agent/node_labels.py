"""The labels of a Node, in the style of NVIDIA's feature discovery. Pure.

Labels are for node selectors, autoscalers and people. They follow from the spec of the Device, so
one lost card does not remove them. A label says what all cards have in common, and is left out
where they differ; each model has a label of its own with the number of its cards. `labels` is the
place to add one; `publish.label_writer` writes them.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from berth_agent import found_labels
from berth_crds import catalog, names, vocabulary, wire

PREFIXES: Final = (f"{names.GROUP}/gpu.", f"{names.GROUP}/cuda.")
LONGEST_MODEL: Final = found_labels.LONGEST - len("gpu.model.")


def ours(key: str) -> bool:
    """Whether a label is one of those that the agent writes."""
    return key.startswith(PREFIXES)


def labels(spec: wire.DeviceSpec) -> Mapping[str, str]:
    """Return the labels for the Node of a Device; none for a node without GPUs."""
    cards = [card for card in spec.devices if card.type == vocabulary.DeviceType.GPU]
    if not cards:
        return {}
    found = {f"gpu.{key}": text for key, text in _of_cards(cards).items()}
    if spec.driver:
        found |= _of_version("cuda.driver-version", spec.driver.version)
        found |= _of_version("cuda.runtime-version", spec.driver.cuda)
    return {f"{names.GROUP}/{key}": text for key, text in sorted(found.items()) if text}


def _of_cards(cards: Sequence[wire.Card]) -> dict[str, str]:
    """Return what there is to say of the cards; empty where they differ, or where it is unknown."""
    models = [found_labels.value(catalog.normal_model(card.model)) for card in cards]
    capability = _common(card.compute_capability for card in cards)
    major, _, minor = capability.partition(".")
    return {
        "count": str(len(cards)),
        **{
            f"model.{model[:LONGEST_MODEL].rstrip('-_.')}": str(models.count(model))
            for model in models
            if model
        },
        "product": _common(models),
        "memory": _common(str(card.memory // catalog.MIB) if card.memory else "" for card in cards),
        "mig": _common(_mig(card) for card in cards),
        "sharing-strategy": _common(card.sharing.strategy if card.sharing else "" for card in cards),
        "replicas": _common(str(card.sharing.replicas) if card.sharing else "" for card in cards),
        "compute.major": capability and (found_labels.value(major) or "0"),
        "compute.minor": capability and (found_labels.value(minor) or "0"),
        "family": capability and found_labels.family(capability),
    }


def _mig(card: wire.Card) -> str:
    if card.mig is None:
        return ""
    return "enabled" if card.mig.enabled else "disabled"


def _common(values: Iterable[str]) -> str:
    """Return the value that all cards have; empty if there is none."""
    found = set(values)
    return found.pop() if len(found) == 1 else ""


def _of_version(key: str, text: str) -> dict[str, str]:
    parts = zip(("major", "minor", "revision"), text.split("."), strict=False)
    return {f"{key}.{name}": found_labels.value(part) for name, part in (("full", text), *parts)}
