"""Which methods of delivery a node has, and which serve a pod."""

from collections.abc import Mapping
from typing import Any

import msgspec
import pytest

from berth_crds import names, wire
from berth_crds.vocabulary import DeviceCondition
from berth_operator.admission import mutations
from berth_operator.scheduling import delivery_methods
from berth_operator.scheduling.delivery_methods import DeliveryMethod
from berth_operator.translate import delivery, device_requests, raw
from support import builders, manifests

PART = names.GPU_MEMORY_RATIO
FED = DeliveryMethod.NRI | DeliveryMethod.ENVIRONMENT
BY_PLUGIN = DeliveryMethod.NRI | DeliveryMethod.DEVICE_PLUGIN


@pytest.mark.parametrize(
    ("reported", "methods"),
    [
        ({}, delivery_methods.ALL),
        ({"NVMLReady": "True", "CDIReady": "True"}, delivery_methods.ALL),
        ({"EnvReady": "True"}, DeliveryMethod.UNCHECKED | DeliveryMethod.ENVIRONMENT),
        ({"EnvReady": "False"}, DeliveryMethod.UNCHECKED),
        ({"EnvReady": "Unknown"}, DeliveryMethod.UNCHECKED),
        ({"EnvReady": "False", "NRIReady": "True"}, DeliveryMethod.UNCHECKED | DeliveryMethod.NRI),
        ({"NRIReady": "True"}, DeliveryMethod.UNCHECKED | DeliveryMethod.NRI | DeliveryMethod.ENVIRONMENT),
        ({"NRIReady": "False"}, DeliveryMethod.UNCHECKED | DeliveryMethod.ENVIRONMENT),
        (
            {"DevicePluginReady": "True", "EnvReady": "False"},
            DeliveryMethod.UNCHECKED | DeliveryMethod.DEVICE_PLUGIN,
        ),
        (
            {"DevicePluginReady": "False"},
            DeliveryMethod.UNCHECKED | DeliveryMethod.ENVIRONMENT | DeliveryMethod.UNSERVED,
        ),
    ],
)
def test_ways_of_a_node(reported: Mapping[str, str], methods: DeliveryMethod) -> None:
    """An agent that reports none may be older than this, so its node has all."""
    conditions = [wire.Condition(kind, status, "Reason", "") for kind, status in reported.items()]

    assert delivery.of_node(conditions) == methods


def test_all_ways_that_an_agent_reports_count() -> None:
    """A new one must be named here, too; CDI alone gives nothing to a container."""
    sources = {
        DeviceCondition.READY,
        DeviceCondition.NVML_READY,
        DeviceCondition.POD_RESOURCES_READY,
        DeviceCondition.MIG_READY,
        DeviceCondition.SHARES_ISOLATED,
        DeviceCondition.DEVICE_PACKAGES_READY,
    }

    assert set(DeviceCondition) - sources == {*delivery.METHODS, DeviceCondition.CDI_READY}


@pytest.mark.parametrize(
    ("status", "reason", "words"),
    [
        ("True", "ByMPS", "enforced by MPS"),
        ("True", "ByHAMi", "enforced by HAMi's library"),
        ("False", "NotEnforced", "which nothing enforces"),
        ("True", "ByMagic", "which nothing enforces"),
    ],
)
def test_what_enforces_parts_of_cards_is_told(status: str, reason: str, words: str) -> None:
    """Of an agent that does not say, nothing is; what is not known enforces nothing."""
    found = wire.Condition("SharesIsolated", status, reason, "")
    assert delivery.isolation([wire.Condition("Ready", "True", "", ""), found]) == words
    assert delivery.isolation([]) == ""


def methods(**spec: Any) -> DeliveryMethod:
    """Return the methods that serve a pod."""
    pod = builders.pod(**spec)
    request, faults = device_requests.request(pod)
    assert not faults
    return delivery.of_pod(pod.spec, request)


def asking(name: str, resource: str, *, fed: str = "", by: str = "uuids") -> dict[str, Any]:
    """Return a container that asks for some, perhaps with a variable from the annotation of a container."""
    path = f"metadata.annotations['{names.container_key(fed, by)}']"
    variable = {"name": mutations.VISIBLE_DEVICES, "valueFrom": {"fieldRef": {"fieldPath": path}}}
    env = {"env": [{"name": "A", "value": "b"}, variable]} if fed else {}
    return builders.asking(name, {resource: "50" if resource in {PART, names.GPU} else "1"}, **env)


@pytest.mark.parametrize(
    ("containers", "expected"),
    {
        "no card": ([builders.container("a")], delivery_methods.ALL),
        "another device": ([asking("a", names.RDMA)], delivery_methods.ALL),
        "nothing but the request": ([asking("a", PART)], DeliveryMethod.NRI),
        "fed": ([asking("a", PART, fed="a")], FED),
        "fed with what another container has": ([asking("a", PART, fed="b")], DeliveryMethod.NRI),
        "fed with something else": ([asking("a", PART, fed="a", by="memory")], DeliveryMethod.NRI),
        "one of two is fed": ([asking("a", PART, fed="a"), asking("b", PART)], DeliveryMethod.NRI),
        "one of two needs it": ([asking("a", PART, fed="a"), builders.container("b")], FED),
        "a resource of the plugin": ([asking("a", names.NVIDIA_GPU)], BY_PLUGIN),
        "shared": ([asking("a", names.NVIDIA_GPU_SHARED)], BY_PLUGIN),
        "a part that the kubelet counts": ([asking("a", names.GPU)], BY_PLUGIN),
        "MIG": ([asking("a", "nvidia.com/mig-1g.5gb")], BY_PLUGIN),
        "one by the plugin, one not": (
            [asking("a", names.NVIDIA_GPU), asking("b", PART)],
            DeliveryMethod.NRI,
        ),
    }.values(),
)
def test_ways_that_serve_a_pod(containers: list[dict[str, Any]], expected: DeliveryMethod) -> None:
    """Each container that asks for cards has to get them."""
    assert methods(containers=containers) == expected


def test_what_the_kubelet_counts() -> None:
    """It fails a pod of which one container asks for that while nobody serves it."""

    def is_counted(*containers: dict[str, Any]) -> bool:
        pod = builders.pod(containers=list(containers))
        return delivery.is_counted(pod.spec, device_requests.request(pod)[0])

    assert is_counted(asking("a", PART), asking("b", names.GPU))
    assert not is_counted(asking("a", PART), builders.container("b"))


def test_an_init_container_counts() -> None:
    """It would start without its card like any other."""
    main = [asking("a", PART, fed="a")]

    assert methods(containers=main, initContainers=[asking("i", PART)]) == DeliveryMethod.NRI
    assert methods(containers=main, initContainers=[asking("i", PART, fed="i")]) == FED


def test_what_the_webhook_writes_is_what_is_looked_for() -> None:
    """So a pod that passed it counts as fed."""
    body = manifests.pod("p", {PART: "50"})
    spec = msgspec.convert(body["spec"], mutations.Spec)
    (step,) = (one for one in mutations.feed(spec) if "/containers/" in one["path"])
    body["spec"]["containers"][0]["env"] = step["value"]

    assert delivery.is_fed(msgspec.convert(body, raw.Pod).spec.containers[0])
