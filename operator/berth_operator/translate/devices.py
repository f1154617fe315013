"""Devices as the core knows them: GPUs in the order of their minors, each with its trouble, if any."""

from typing import Final

from berth_crds import catalog, vocabulary, wire
from berth_operator.scheduling import inventory
from berth_operator.scheduling.decisions import Reason

# A source that is not configured has no condition; only one that says so is down.
FATAL_SOURCES: Final = (vocabulary.DeviceCondition.NVML_READY,)


def device(thing: wire.Device) -> inventory.Device:
    """Read what an agent published."""
    verdicts = {one.uuid: one for one in thing.status.devices}
    gpus = [card for card in thing.spec.devices if card.type == vocabulary.DeviceType.GPU]
    return inventory.Device(
        node=thing.metadata.name,
        cards=tuple(
            inventory.Card(
                uuid=card.uuid,
                minor=card.minor,
                model=catalog.normal_model(card.model),
                memory=card.memory or 0,
                trouble=trouble(card, verdicts.get(card.uuid), thing.spec.cordon),
            )
            for card in sorted(gpus, key=lambda card: (card.minor, card.uuid))
        ),
        failed=failed_source(thing.status.conditions),
    )


def trouble(card: wire.Card, verdict: wire.CardStatus | None, cordon: tuple[str, ...]) -> Reason | None:
    """Say why a card takes no new pod; a health word we do not know is not healthy."""
    if card.uuid in cordon:
        return Reason.CORDONED
    if verdict is not None and verdict.health != vocabulary.Health.HEALTHY:
        return Reason.UNHEALTHY
    if verdict is not None and verdict.occupants:
        return Reason.OCCUPIED
    if card.mig is not None and card.mig.enabled:
        return Reason.MIG_MODE
    return None


def failed_source(conditions: tuple[wire.Condition, ...]) -> str:
    """Name the first source of the agent without which its cards cannot be trusted."""
    for condition in conditions:
        if condition.type in FATAL_SOURCES and condition.status != vocabulary.Truth.TRUE:
            return condition.reason or condition.type
    return ""
