"""What the policy in force changes about a pod.

The policy knows other names for models, says which pods count as delivered, and may refuse what a pod asks
for. The pod itself is kept as it was written, so that a policy that changes counts from the next decision on.
"""

import dataclasses
import re
from collections.abc import Iterator
from typing import Final

from berth_crds import catalog
from berth_crds.vocabulary import Delivery
from berth_operator.scheduling import delivery_methods, queued_pods
from berth_operator.scheduling.decisions import ClusterEvent, Reason, Refusal
from berth_operator.scheduling.delivery_methods import DeliveryMethod
from berth_operator.scheduling.devices import requests
from berth_operator.scheduling.devices.device_view import FULL_CORE
from berth_operator.scheduling.policy import MIB, NO_OVERSALE, Policy

POLICY_CHANGE: Final = frozenset({ClusterEvent.POLICY_CHANGED})  # What may help.
ESCAPED: Final = re.compile(r"\\([^0-9A-Za-z])")  # As a name is made a pattern, by HAMi's keys for one.
NO_SHARES: Final = (
    "it asks for a part of a card, and the policy allows only whole cards (spec.sharing.fractions is false)"
)


def apply(policy: Policy, pod_info: queued_pods.PodInfo) -> queued_pods.PodInfo:
    """Return a pod that asks for models by all their names, and has faults where the policy refuses it."""
    if policy.delivery is not Delivery.REPORTED:
        pod_info = _delivered(policy.delivery, pod_info)
    if policy.oversale is not NO_OVERSALE:
        pod_info = _oversold(policy, pod_info)
    if policy.fractions and not policy.models and not pod_info.small:
        return pod_info
    if policy.models:
        pod_info = _renamed(policy, pod_info)
    faults = () if policy.fractions else tuple(map(_no_shares, _sharing(pod_info.request)))
    faults += tuple(_too_small(policy, one) for one in pod_info.small if one.memory < policy.min_memory)
    return dataclasses.replace(pod_info, faults=(*pod_info.faults, *faults)) if faults else pod_info


def core_limit(policy: Policy, pod_info: queued_pods.PodInfo) -> int:
    """Return up to how many percent of its core may be promised of a card that a pod gets a part of."""
    return policy.oversale.core if pod_info.priority_class in policy.oversale.priority_classes else FULL_CORE


def _oversold(policy: Policy, pod_info: queued_pods.PodInfo) -> queued_pods.PodInfo:
    """Return a pod that is content with cards whose core is promised up to the limit of its PriorityClass."""
    request, limit = pod_info.request, core_limit(policy, pod_info)
    if limit == FULL_CORE or not request.need.shares:
        return pod_info
    grouping = dataclasses.replace(request.grouping, core_limit=limit)
    return dataclasses.replace(pod_info, request=dataclasses.replace(request, grouping=grouping))


def _delivered(delivery: Delivery, pod_info: queued_pods.PodInfo) -> queued_pods.PodInfo:
    """Return a pod that may start on all nodes, where the policy takes it for delivered there."""
    demand = pod_info.demand
    if delivery is Delivery.ENVIRONMENT and not demand.delivery & DeliveryMethod.ENVIRONMENT:
        return pod_info
    return dataclasses.replace(pod_info, demand=dataclasses.replace(demand, delivery=delivery_methods.ALL))


def _renamed(policy: Policy, pod_info: queued_pods.PodInfo) -> queued_pods.PodInfo:
    """Return a pod that asks for models by all names that the policy knows of them."""
    request = pod_info.request
    conditions = _with_names_for_patterns(policy, request.conditions)
    conditions = dataclasses.replace(
        conditions,
        models=_known_as(policy, conditions.models),
        avoid_models=_known_as(policy, conditions.avoid_models),
    )
    if conditions == request.conditions:
        return pod_info
    return dataclasses.replace(pod_info, request=dataclasses.replace(request, conditions=conditions))


def _known_as(policy: Policy, models: frozenset[str]) -> frozenset[str]:
    """Return models with what the policy calls each of them beside it."""
    found = {policy.known_as(name) for name in models}
    return models | (found - {""})


def _with_names_for_patterns(policy: Policy, asked: requests.Conditions) -> requests.Conditions:
    """Return conditions in which a pattern that is as a whole a name of the policy asks for that model.

    Labels, by which Genius asks for models, cannot hold every name, and every text in one is a pattern.
    """
    if asked.pattern and (name := _name_of(policy, asked.pattern)):
        if asked.models:  # Both must hold, which one list of names cannot say.
            model = re.escape(catalog.normal_model(policy.known_as(name)))
            asked = dataclasses.replace(asked, pattern=f"^{model}$")
        else:
            asked = dataclasses.replace(asked, pattern="", models=frozenset({name.casefold()}))
    if asked.avoid_pattern and (name := _name_of(policy, asked.avoid_pattern)):
        avoid_models = asked.avoid_models | {name.casefold()}
        asked = dataclasses.replace(asked, avoid_pattern="", avoid_models=avoid_models)
    return asked


def _name_of(policy: Policy, pattern: str) -> str:
    """Return the name that a pattern is, of which the policy knows another; empty where it is none."""
    plain = ESCAPED.sub(r"\1", pattern)
    names = (name for name in (pattern, plain) if policy.known_as(name))
    return next(names, "")


def _sharing(request: requests.DeviceRequest) -> Iterator[str]:
    """Return the containers that ask for a part of a card."""
    for one in request.containers:
        if any(isinstance(ask, requests.Gpus) and not ask.is_whole for ask in one.asks):
            yield one.name


def _no_shares(container: str) -> Refusal:
    return Refusal(Reason.UNSUPPORTED_REQUEST, detail=f"container {container}: {NO_SHARES}")


def _too_small(policy: Policy, asked: queued_pods.SmallAmount) -> Refusal:
    least = f"less than {policy.min_memory // MIB} MiB (spec.sharing.minMemoryMiB)"
    if asked.guessed < policy.min_memory:
        detail = f"{asked.text}, and the policy refuses {least}"
    else:
        detail = f"{asked.text}; did you mean {asked.guess}? The policy refuses {least}"
    return Refusal(Reason.INVALID_REQUEST, detail=detail)
