"""The methods of delivery: which of them a node has, and which serve a pod."""

import functools
import operator
from collections.abc import Iterable, Mapping
from typing import Final

from berth_crds import device_types, names, vocabulary, wire
from berth_crds.vocabulary import DeviceCondition
from berth_operator.scheduling import delivery_methods
from berth_operator.scheduling.delivery_methods import DeliveryMethod
from berth_operator.scheduling.devices import requests
from berth_operator.translate import raw, resources

NOT_ENFORCED: Final = "which nothing enforces"
ISOLATIONS: Final[Mapping[str, str]] = {
    vocabulary.IsolationReason.BY_MPS: "enforced by MPS",
    vocabulary.IsolationReason.BY_HAMI: "enforced by HAMi's library",
}
PLUGGED: Final = frozenset({names.NVIDIA_GPU, names.NVIDIA_GPU_SHARED, names.GPU})
METHODS: Final[Mapping[str, DeliveryMethod]] = {
    DeviceCondition.ENV_READY: DeliveryMethod.ENVIRONMENT,
    DeviceCondition.DEVICE_PLUGIN_READY: DeliveryMethod.DEVICE_PLUGIN,
    DeviceCondition.NRI_READY: DeliveryMethod.NRI,
}


def of_node(conditions: Iterable[wire.Condition]) -> DeliveryMethod:
    """Return the methods of a node: all of one whose agent reports none, for then nothing is known of it.

    Where the agent was not told how to find out whether the runtime obeys the environment, it may.
    """
    reported = {one.type: one.status == vocabulary.Truth.TRUE for one in conditions if one.type in METHODS}
    if not reported:
        return delivery_methods.ALL
    reported.setdefault(DeviceCondition.ENV_READY, True)
    alive = (METHODS[kind] for kind, is_alive in reported.items() if is_alive)
    is_served = reported.get(DeviceCondition.DEVICE_PLUGIN_READY, True)
    others = DeliveryMethod.UNCHECKED if is_served else DeliveryMethod.UNCHECKED | DeliveryMethod.UNSERVED
    return functools.reduce(operator.or_, alive, others)


def isolation(conditions: Iterable[wire.Condition]) -> str:
    """Return what keeps pods to their parts of cards, in words; empty where the agent does not say."""
    found = next((one for one in conditions if one.type == DeviceCondition.SHARES_ISOLATED), None)
    return ISOLATIONS.get(found.reason, NOT_ENFORCED) if found else ""


def of_pod(spec: raw.PodSpec, request: requests.DeviceRequest) -> DeliveryMethod:
    """Return the methods that serve a pod; all of them where it asks for no card.

    Devices that a package opens reach a container by the runtime alone, whatever it is given besides.
    """
    if any(map(device_types.is_opened, request.need.other_types)):
        return DeliveryMethod.NRI | DeliveryMethod.OPENING
    containers = _asking(spec, request)
    if not containers:
        return delivery_methods.ALL
    found = DeliveryMethod.NRI
    if all(map(is_fed, containers)):
        found |= DeliveryMethod.ENVIRONMENT
    if all(map(_asks_plugin, containers)):
        found |= DeliveryMethod.DEVICE_PLUGIN
    return found


def is_counted(spec: raw.PodSpec, request: requests.DeviceRequest) -> bool:
    """Whether a container asks for a resource that the agent's device plugin serves."""
    return any(map(_asks_plugin, _asking(spec, request)))


def _asking(spec: raw.PodSpec, request: requests.DeviceRequest) -> list[raw.Container]:
    """Return the containers that ask for cards."""
    asking = {one.name for one in request.containers if not all(map(_is_other, one.asks))}
    return [one for one, _ in resources.each_container(spec) if one.name in asking]


def _is_other(ask: requests.Ask) -> bool:
    return isinstance(ask, requests.OtherDevices)


def is_fed(container: raw.Container) -> bool:
    """Whether a variable of a container is fed with the uuids that the bind writes."""
    return variable(container.name) in (container.env or ())


def variable(container: str) -> raw.Variable:
    """Return what of the variable matters that the admission policy puts into a container."""
    path = f"metadata.annotations['{names.container_key(container, 'uuids')}']"
    return raw.Variable(raw.VariableSource(raw.FieldRef(path)))


def _asks_plugin(container: raw.Container) -> bool:
    return any(
        name in PLUGGED or name.startswith(names.NVIDIA_MIG_PREFIX)
        for name, amount in resources.pairs(container)
        if str(amount) != "0"
    )
