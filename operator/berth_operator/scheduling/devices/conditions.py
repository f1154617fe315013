"""What must hold for each single card: its model, its name, its memory.

All conditions are asked of the same card. Models compare by what their spellings have in
common, patterns are searched for in the normal spelling, and case never matters. A list
of uuids pins: a card must be on it, or, where the card is cut into MIG instances, the
instance may be listed instead. Other devices have neither model nor memory to speak of,
so for them only uuids count, and a list pins them only if it names their type, as
`rdma-…` does: a list of GPUs must not rule out every NIC.
"""

import functools
from collections.abc import Iterable

from berth_crds import catalog
from berth_operator.scheduling.decisions import Reason
from berth_operator.scheduling.devices import device_facts, patterns, requests
from berth_operator.scheduling.devices.device_facts import PhysicalDevice
from berth_operator.scheduling.nodes import affinity
from berth_operator.scheduling.nodes import facts as nodes


@functools.lru_cache(maxsize=512)
def model_meets(model: str, asked: requests.OfModels) -> bool:
    """Return whether cards of a model are wanted; a pattern that cannot be read leaves none."""
    key = catalog.model_key(model)
    if asked.models and key not in _keys(asked.models):
        return False
    if key in _keys(asked.avoid_models):
        return False
    name = catalog.normal_model(model)
    if asked.pattern and not patterns.found(asked.pattern, name):
        return False
    return not asked.avoid_pattern or patterns.found(asked.avoid_pattern, name) is False


@functools.lru_cache(maxsize=256)
def _keys(models: frozenset[str]) -> frozenset[str]:
    return frozenset(map(catalog.model_key, models))


def unmet(card: PhysicalDevice, asked: requests.Conditions) -> Reason | None:
    """Return which condition a card does not meet, if any."""
    kinds = asked.of_models
    if kinds != requests.ANY_MODEL and not model_meets(card.model, kinds):
        return Reason.MODEL_MISMATCH
    if asked.uuids and not _listed(card, asked.uuids):
        return Reason.NOT_INCLUDED
    if card.uuid in asked.avoid_uuids:
        return Reason.EXCLUDED
    if asked.card_labels and not selected(card.labels, asked.card_labels):
        return Reason.LABEL_MISMATCH
    return Reason.TOO_SMALL if card.memory < asked.least_memory else None


def selected(labels: nodes.Labels, selectors: Iterable[requests.LabelSelector]) -> bool:
    """Return whether all selectors select the labels of a device, or of a virtual function."""
    return all(_selects(one, labels) for one in selectors)


@functools.lru_cache(maxsize=512)  # Few devices have labels that no other has.
def _selects(selector: requests.LabelSelector, labels: nodes.Labels) -> bool:
    found = dict(labels)
    return all(affinity.holds(one, found) for one in selector.expressions)


def _listed(card: PhysicalDevice, uuids: frozenset[str]) -> bool:
    return card.uuid in uuids or any(one.uuid in uuids for one in card.instances)


def takes_instance(card: PhysicalDevice, instance: device_facts.Instance, asked: requests.Conditions) -> bool:
    """Return whether the lists of uuids allow this very instance of a card that meets the rest."""
    pinned = not asked.uuids or card.uuid in asked.uuids or instance.uuid in asked.uuids
    return pinned and instance.uuid not in asked.avoid_uuids


def unmet_by_other(device: PhysicalDevice, asked: requests.Conditions) -> Reason | None:
    """Return which condition a device of another type does not meet, if any."""
    if device.uuid in asked.avoid_uuids:
        return Reason.EXCLUDED
    pinned = any(uuid.startswith(f"{device.type}-") for uuid in asked.uuids)
    return Reason.NOT_INCLUDED if pinned and device.uuid not in asked.uuids else None
