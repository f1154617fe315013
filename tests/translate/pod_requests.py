"""Requests of pods for the tests of translation: what is read of them, and what is wrong with them."""

from collections.abc import Mapping
from typing import Any, Final

import hypothesis

from berth_operator.scheduling import decisions
from berth_operator.scheduling.devices import requests
from berth_operator.translate import device_requests, pods, raw
from support import builders, thorough

# Loaded machines are slow without being wrong.
PROPERTY: Final = hypothesis.settings(
    max_examples=thorough.examples(500),
    suppress_health_check=[hypothesis.HealthCheck.too_slow, hypothesis.HealthCheck.data_too_large],
)


def asking(resources: Mapping[str, object], **about: Any) -> raw.Pod:
    """Return a pod whose only container requests this."""
    return builders.pod(containers=[builders.asking("main", resources)], **about)


def containers(count: int, amounts: Mapping[str, object] = {}, **fields: Any) -> list[dict[str, Any]]:
    """Return so many containers that request the same."""
    return [builders.asking(f"c{at}", amounts, **fields) for at in range(count)]


def request(pod: raw.Pod) -> requests.DeviceRequest:
    """Return a request that must be valid."""
    found, faults = device_requests.request(pod)
    assert [fault.detail for fault in faults] == []
    return found


def faults(pod: raw.Pod) -> list[tuple[decisions.Reason, str]]:
    """Return what is wrong with a pod's request."""
    return [(fault.reason, fault.detail) for fault in device_requests.request(pod)[1]]


def sentences(pod: raw.Pod) -> list[str]:
    """Return the sentences on what is wrong."""
    return [detail for _, detail in faults(pod)]


def bound(pod: raw.Pod) -> pods.BoundPod:
    """Return a pod that must be bound."""
    found = pods.classify(pod)
    assert isinstance(found, pods.BoundPod)
    return found
