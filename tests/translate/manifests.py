"""Pods as they travel, for the tests of translation: only what a test is about need be said."""

from collections.abc import Mapping
from typing import Any, Final

import hypothesis

from berth_operator.scheduling import decisions
from berth_operator.scheduling.devices import requests
from berth_operator.translate import device_requests, raw
from support import builders

GIB: Final = builders.GIB
MEMORY: Final = builders.MEMORY

# The words are those of all tests; here are only those that translation needs beside them.
container = builders.container
asking = builders.asking
pod = builders.pod
record = builders.record
written = builders.written
answered = builders.answered

# Loaded machines are slow without being wrong.
PROPERTY: Final = hypothesis.settings(
    max_examples=500,
    suppress_health_check=[hypothesis.HealthCheck.too_slow, hypothesis.HealthCheck.data_too_large],
)


def one(resources: Mapping[str, object], **about: Any) -> raw.Pod:
    """Give a pod whose only container asks for this."""
    return pod(containers=[asking("main", resources)], **about)


def share(minor: int = 0, *, at: str = "n1", core: int = 100, memory: int = MEMORY) -> decisions.Share:
    """Give a card, the whole of it if nothing else is said."""
    return decisions.Share(builders.uuid(at, minor), minor, core, memory)


def asked(pod: raw.Pod) -> requests.Request:
    """Read a request that must be sound."""
    request, faults = device_requests.request(pod)
    assert [fault.detail for fault in faults] == []
    return request


def faults(pod: raw.Pod) -> list[tuple[decisions.Reason, str]]:
    """List what is wrong with a pod's request."""
    return [(fault.reason, fault.detail) for fault in device_requests.request(pod)[1]]


def sentences(pod: raw.Pod) -> list[str]:
    """List what people are told is wrong."""
    return [detail for _, detail in faults(pod)]
