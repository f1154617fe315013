"""What pods may ask of types that packages add: all that they may of those that are built in."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from berth_crds import aliases, device_sources, device_types, names
from berth_operator.scheduling import delivery_methods
from berth_operator.scheduling.delivery_methods import DeliveryMethod
from berth_operator.scheduling.devices.device_facts import PhysicalDevice
from berth_operator.scheduling.devices.requests import Gpus, OtherDevices, cards
from berth_operator.translate import delivery
from support import builders, device_package, ledgers
from translate import pod_requests


def _source(_: device_sources.SourceNode) -> device_sources.DeviceSource:
    raise AssertionError("only agents make sources")


WHOLE = device_types.TypeDescription(
    name="npu", resource="example.com/npu", singular="NPU", plural="NPUs", source=_source
)
SHARED = device_types.TypeDescription(name="dsp", resource="example.com/dsp", shared=True)


@pytest.fixture(autouse=True)
def _types() -> Iterator[None]:
    """Serve one type that is given whole, and one that is shared."""
    with device_package.added(WHOLE, SHARED):
        yield


@pytest.mark.parametrize(
    ("resources", "annotations", "asks"),
    [
        pytest.param({"example.com/npu": 2}, {}, (OtherDevices("npu", 2, 100),), id="two of them"),
        pytest.param({"example.com/dsp": 30}, {}, (OtherDevices("dsp", 1, 30),), id="a part"),
        pytest.param({"example.com/dsp": 200}, {}, (OtherDevices("dsp", 2, 100),), id="two whole ones"),
        pytest.param(
            {names.NVIDIA_GPU: 1, "example.com/npu": 1, names.RDMA: 50},
            {},
            (cards(1), OtherDevices("rdma", 1, 50), OtherDevices("npu", 1, 100)),
            id="beside cards and others",
        ),
        pytest.param(
            {names.GPU_MEMORY_RATIO: 50, "example.com/npu": 1},
            {},
            (Gpus(1, ratio=50), OtherDevices("npu", 1, 100)),
            id="beside a part of a card",
        ),
        pytest.param(
            {"example.com/dsp": 3},
            {names.APPLY: "dsp=whole"},
            (OtherDevices("dsp", 3, 100),),
            id="as a count",
        ),
        pytest.param(
            {"example.com/npu": 0, "example.com/dsp": 1}, {}, (OtherDevices("dsp", 1, 1),), id="none"
        ),
    ],
)
def test_what_is_asked_for(
    resources: Mapping[str, object], annotations: Mapping[str, str], asks: tuple[Any, ...]
) -> None:
    """A type that is given whole is counted, another in percent."""
    found = pod_requests.request(pod_requests.asking(resources, annotations=dict(annotations)))

    assert found.containers[0].asks == asks


def test_devices_of_packages_may_be_joined_and_chosen() -> None:
    """With cards on a PCIe root, by their labels, and by their uuids."""
    annotations = {names.JOINT: "gpu,npu", names.LABELS: "npu: fabric=a", names.UUIDS: "npu-1,npu-2,npu-3"}

    found = pod_requests.request(
        pod_requests.asking({names.NVIDIA_GPU: 1, "example.com/npu": 1}, annotations=annotations)
    )

    assert found.grouping.joint == ("gpu", "npu")
    assert found.grouping.labels == builders.selecting("npu", fabric="a")


@pytest.mark.parametrize(
    ("resources", "annotations", "sentence"),
    [
        pytest.param(
            {"example.com/npu": 65},
            {},
            "container main: example.com/npu: 65 is 65 NPUs; no node has more than 64",
            id="too many",
        ),
        pytest.param(
            {"example.com/npu": -1},
            {},
            "container main: example.com/npu: -1 is not a number of NPUs",
            id="less",
        ),
        pytest.param(
            {"example.com/dsp": 130},
            {},
            "container main: example.com/dsp: 130 is neither a percentage of one device (1 to 100) nor whole "
            "devices (a multiple of 100)",
            id="between",
        ),
        pytest.param(
            {names.NVIDIA_GPU: 1},
            {names.JOINT: "gpu,npu"},
            f"annotation {names.JOINT} speaks of devices of type npu, but no container asks for one; add for "
            "instance example.com/npu: 1",
            id="a joint with none",
        ),
        pytest.param(
            {"example.com/npu": 1},
            {names.APPLY: "npu=every"},
            f"annotation {names.APPLY}: 'npu=every' is not known; write for instance rdma=every "
            "(types: fpga, rdma, dsp; ways: every, count, whole)",
            id="a way for what is counted",
        ),
        pytest.param(
            {names.NVIDIA_GPU: 1, names.RDMA: 1},
            {names.JOINT: "gpu,tpu"},
            f"annotation {names.JOINT}: tpu is no type of device; write two or more of gpu, rdma, fpga, npu, "
            "dsp",
            id="a joint with a stranger",
        ),
    ],
)
def test_what_is_refused(
    resources: Mapping[str, object], annotations: Mapping[str, str], sentence: str
) -> None:
    """In one sentence that says what to write."""
    pod = pod_requests.asking(resources, annotations=dict(annotations))

    assert pod_requests.sentences(pod) == [sentence]


@pytest.mark.parametrize(
    ("resources", "methods"),
    [
        pytest.param(
            {"example.com/npu": 1}, DeliveryMethod.NRI | DeliveryMethod.OPENING, id="what agents open"
        ),
        pytest.param(
            {"example.com/npu": 1, names.NVIDIA_GPU: 1},
            DeliveryMethod.NRI | DeliveryMethod.OPENING,
            id="and a card",
        ),
        pytest.param({"example.com/dsp": 1}, delivery_methods.ALL, id="what no agent opens"),
        pytest.param({names.RDMA: 1}, delivery_methods.ALL, id="a network card"),
    ],
)
def test_what_agents_open_comes_by_the_runtime_alone(
    resources: Mapping[str, object], methods: DeliveryMethod
) -> None:
    """Whatever brings cards to the other containers of the node."""
    pod = builders.pod(containers=[builders.asking("main", resources)])

    assert delivery.of_pod(pod.spec, pod_requests.request(pod)) == methods


def test_a_key_for_the_whole_pod_goes_with_other_devices() -> None:
    """As KAI's annotation, which means cards: another container may have devices of a package."""
    pod = builders.pod(
        containers=[builders.asking("main", {}), builders.asking("side", {"example.com/npu": 1})],
        annotations={"gpu-fraction": "0.5"},
    )

    assert [one.name for one in pod_requests.request(pod).containers] == ["main", "side"]


@pytest.mark.parametrize(
    ("resource", "asks", "entries", "held"),
    [
        pytest.param("example.com/npu", 2, [(1, "1"), (0, "1")], [(1, 100), (0, 100)], id="whole ones"),
        pytest.param("example.com/dsp", 30, [(1, "30")], [(1, 30)], id="a part"),
        pytest.param("example.com/npu", 1, [(1, "0")], [], id="nothing of it"),
        pytest.param("example.com/npu", 2, [(1, "1")], [], id="one of two"),
    ],
)
def test_what_koordinators_record_has_of_them_is_held(
    resource: str, asks: int, entries: list[tuple[int, str]], held: list[tuple[int, int]]
) -> None:
    """Of a type that is given whole the record counts devices, of one that is shared percent."""
    kind = resource.rpartition("/")[2]
    listed = [{"minor": minor, "resources": {resource: amount}} for minor, amount in entries]
    pod = pod_requests.asking(
        {resource: asks},
        nodeName="n1",
        schedulerName=names.KOORDINATOR_SCHEDULER,
        phase="Running",
        annotations={aliases.KOORDINATOR_RECORD: json.dumps({kind: listed})},
    )
    ledger = ledgers.with_nodes()
    ledger.node_seen(builders.node("n1", extra={resource: 300}))
    others = [PhysicalDevice(f"{kind}-{minor}", minor, type=kind) for minor in range(3)]
    ledger.device_seen(builders.device("n1", others=others))

    ledgers.pod_seen(ledger, builders.admitted(pod))

    hold = ledger.inventory.hold("uid-p")
    assert hold is not None
    assert [(share.minor, share.core) for share in hold.shares] == held
    assert hold.withheld_types == (set() if held else {kind})
