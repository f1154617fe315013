"""Whatever stands in a key, in whoever's words, it is read or refused: nothing stops the operator."""

from typing import Any, Final

import hypothesis
import pytest
from hypothesis import strategies as st

from berth_crds import aliases, names, text, wire
from berth_operator.scheduling.decisions import Reason
from berth_operator.scheduling.devices import requests
from berth_operator.scheduling.devices.requests import Gpus
from berth_operator.translate import (
    demands,
    device_annotations,
    device_requests,
    devices,
    pods,
    policies,
    raw,
)
from support import builders, thorough
from translate import pod_requests

RESOURCES: Final = sorted(
    {
        *aliases.OWN,
        *aliases.RESOURCES,
        *aliases.KINDS,
        "cpu",
        "nvidia.com/mig-1g.10gb",
        "nvidia.com/mig-x.shared",
    }
)
ANNOTATIONS: Final = sorted(
    {
        *device_annotations.READERS,
        *device_annotations.UNSERVED,
        *aliases.KUBEGPU_RECORDS,
        aliases.KAI_CONTAINER,
        names.ALLOCATION,
        *(row.key for row in aliases.ON_PODS),
        *(row.key for row in aliases.OPTIONS),
    }
)
LABELS: Final = sorted(
    {row.key for row in aliases.ON_PODS if row.where is aliases.Where.LABEL}
    | {row.key for row in aliases.OPTIONS if row.where is aliases.Where.LABEL}
)
WORDS: Final = (
    *(
        "",
        " ",
        ",",
        "0",
        "1",
        "2",
        "50",
        "100",
        "150",
        "200",
        "6500",
        "-1",
        "0.5",
        "0.125",
        "500m",
        "1e3",
        "1e99",
    ),
    *(
        "1Gi",
        "9E",
        "8192Ei",
        "9" * 5000,
        "two",
        "NaN",
        "inf",
        "1_000",
        "٣",
        "\x00",
        "\ud800"[:0],
        "é",
        "a\nb",
        "a\x1b[2J\u202eb",
        "(?P<a\x1b>b)",
        "\\\x1b",
        "k\x1b=v",
        '{"r\\u001b": {"\\ud800": 1}}',
    ),
    *(
        "true",
        "false",
        "T4",
        "A100,T4",
        "(.+)+!",
        ".*",
        "[",
        "[[",
        "(?i)a",
        "a{9999999999}",
        "GPU-a",
        "GPU a",
    ),
    *("pcie", "nvlink", "required", "preferred", "spread", "binpack", "distributed", "packed"),
    *(
        "gpu,rdma",
        "rdma",
        "rdma=every",
        "rdma=count,fpga=whole",
        "gpu=every",
        "k=v",
        "k=v,k=w",
        "=",
        "mutex",
        "mig",
    ),
    *("null", "[]", "{}", "[" * 5000, '{"rdma":null}', '{"rdma":{"allocateStrategy":"ApplyForAll"}}'),
    *('{"gpu":{"requiredTopologyScope":"PCIe"}}', '{"rdma":{"selector":{"matchLabels":{"a":1,"b":null}}}}'),
    *('{"deviceTypes":["gpu","rdma"],"requiredScope":"SamePCIe"}', '{"deviceTypes":{}}', '{"a":1,"a":2}'),
    *('{"runningcontainer":{"c0":{"requests":{"alpha.gpu/numgpu":1}}}}', '{"initcontainer":{"c0":[]}}'),
    *(
        '{"allocatePolicy":"BestEffort"}',
        '{"ringBusBandwidth":1}',
        '{"runningcontainer":{"":{"requests":{"a":{}}}}}',
    ),
)
TEXT: Final = st.one_of(st.sampled_from(WORDS), st.sampled_from(WORDS), st.text(max_size=8))
QUANTITY: Final = st.one_of(
    TEXT, st.integers(-3, 300), st.floats(allow_nan=False, allow_infinity=False), st.sampled_from([1, 2, 100])
)
ASKED: Final = st.dictionaries(st.sampled_from(RESOURCES), QUANTITY, max_size=4)


@st.composite
def any_pod(draw: st.DrawFn) -> raw.Pod:
    """Return a pod with anything in every key by which devices are asked for."""
    containers = [
        builders.asking(f"c{at}", asked, restartPolicy=draw(st.sampled_from([None, "Always"])))
        for at, asked in enumerate(draw(st.lists(ASKED, max_size=3)))
    ]
    early = draw(st.integers(0, len(containers)))
    return builders.pod(
        annotations=draw(st.dictionaries(st.sampled_from(ANNOTATIONS), TEXT, max_size=4)),
        labels=draw(st.dictionaries(st.sampled_from(LABELS), TEXT, max_size=3)),
        initContainers=containers[:early],
        containers=containers[early:],
        nodeName=draw(st.sampled_from(["", "n1"])),
    )


@hypothesis.settings(pod_requests.PROPERTY, max_examples=thorough.examples(1500))
@hypothesis.given(any_pod())
def test_every_pod_is_read(pod: raw.Pod) -> None:
    """A pod is read or refused, never stops the operator, and the same pod gives the same request.

    What people are told is wrong quotes what they wrote in one plain line, and steers nobody's terminal. No
    ask is read that the core would have to mistrust, nor a request that its tables cannot be asked by.
    """
    request, faults = device_requests.request(pod)
    again, _ = device_requests.request(pod)

    assert all(fault.detail.isprintable() and len(fault.detail) < 500 for fault in faults)
    assert {fault.reason for fault in faults} <= {Reason.INVALID_REQUEST, Reason.UNSUPPORTED_REQUEST}
    assert isinstance(pods.classify(pod), pods.WaitingPod | pods.BoundPod)
    assert all(name for name, _ in demands.demand(pod.spec).device_resources)
    assert request.need.cards >= 0
    assert (request, hash(request)) == (again, hash(again))
    for ask in (ask for container in request.containers for ask in container.asks):
        assert 1 <= ask.count <= 64
        match ask:
            case requests.Gpus():
                assert 0 <= ask.core <= 100
                assert 0 <= ask.ratio <= 100
                assert 0 <= ask.memory <= 2**50
                assert (ask.memory > 0) != (ask.ratio > 0)
            case requests.OtherDevices():
                assert 1 <= ask.share <= 100


# ---------------------------------------------------------------- the same in other words

COUNTS = st.integers(1, 64)
MIB = st.integers(1, 2**20)
PERCENT = st.integers(1, 100)


def same(theirs: dict[str, object], ask: Gpus, **about: Any) -> None:
    """Check that a container in other words asks for this of each card."""
    request = pod_requests.request(pod_requests.asking(theirs, **about))

    assert request == requests.DeviceRequest((requests.ContainerRequest("main", (ask,)),))


@pod_requests.PROPERTY
@hypothesis.given(COUNTS, MIB, st.integers(0, 100))
def test_slices_by_memory(count: int, mib: int, core: int) -> None:
    """HAMi, Volcano and KAI speak of each card, and so does the request."""
    ask = Gpus(count, core=core, memory=mib * 2**20)

    same({"nvidia.com/gpu": count, "nvidia.com/gpumem": mib, "nvidia.com/gpucores": core}, ask)
    same({"volcano.sh/vgpu-number": count, "volcano.sh/vgpu-memory": mib, "volcano.sh/vgpu-cores": core}, ask)
    if not core:
        same({}, ask, annotations={"gpu-memory": str(mib), "gpu-fraction-num-devices": str(count)})


@pod_requests.PROPERTY
@hypothesis.given(COUNTS, PERCENT, PERCENT)
def test_slices_by_percentage(count: int, ratio: int, core: int) -> None:
    """Percent of each card are percent of each card in everybody's words."""
    ask = Gpus(count, core=core, ratio=ratio)

    same({"nvidia.com/gpu": count, "nvidia.com/gpumem-percentage": ratio, "nvidia.com/gpucores": core}, ask)
    totals = {"gpu.shared": count, "gpu-memory-ratio": count * ratio, "gpu-core": count * core}
    same({f"koordinator.sh/{name}": total for name, total in totals.items()}, ask)
    same({f"berth.dev/{name}": total for name, total in totals.items()}, ask)


@pod_requests.PROPERTY
@hypothesis.given(st.integers(1, 9999).map(lambda parts: parts / 10000), COUNTS)
def test_fractions(fraction: float, count: int) -> None:
    """A fraction is never less than what was asked for, and less than one percent more."""
    asked = {"gpu-fraction": str(fraction), "gpu-fraction-num-devices": str(count)}

    (container,) = pod_requests.request(builders.pod(annotations=asked)).containers

    (ask,) = container.asks
    assert isinstance(ask, Gpus)
    assert ask == Gpus(count, ratio=ask.ratio)
    assert fraction * 100 <= ask.ratio + 1e-9
    assert ask.ratio - 1 < fraction * 100


# ---------------------------------------------------------------- texts that would steer a terminal

NASTY: Final = "a\x1b[2J\r\nforged\u202e\u200b\x9b\x7f\x00"
# Texts that get past the first look of one reader or another.
TEXTS: Final = (
    NASTY,
    f"{NASTY}=b",
    f"rdma={NASTY}",
    f"gpu,{NASTY}",
    f"(?P<{NASTY}>",
    f"\\{NASTY}",
    f"[{NASTY}",
    NASTY * 10_000,
    f'{{"rdma": {{"{"a" * 100_000}": 1}}}}',
    '{"rdma": {"\\u001b\\ud800": 1}}',
    '{"\\u001b\\u202e": {"allocateStrategy": "\\u001b"}}',
    '{"allocatePolicy": "\\u001b\\n"}',
    '{"runningcontainer": {"\\u001b": {"requests": {"a": 1}}}}',
    f"{'k' * 100_000}=a,{'k' * 100_000}=b",
)


@pytest.mark.parametrize("key", ANNOTATIONS)
def test_what_stands_in_a_key_is_quoted_plainly(key: str) -> None:
    """Whichever key it is, and however it is misread, the sentence is one line that can be read."""
    for value in TEXTS:
        about: dict[str, Any] = {"annotations": {key: value}, "labels": {key: value}}
        for detail in pod_requests.sentences(pod_requests.asking({names.NVIDIA_GPU: 1}, **about)):
            assert detail.isprintable()
            assert len(detail) <= text.LONGEST


@pytest.mark.parametrize("key", [names.NVIDIA_GPU, names.GPU_MEMORY, "nvidia.com/mig-1g.10gb"])
def test_an_amount_is_quoted_plainly(key: str) -> None:
    """A quantity that is none is shown, without what would steer a terminal."""
    (detail,) = pod_requests.sentences(pod_requests.asking({key: NASTY}))

    assert detail.isprintable()
    assert r"a\x1b[2J forged" in detail


def test_what_an_agent_says_is_a_plain_line() -> None:
    """Models and reasons of a Device come into sentences, tables and pages: they are clean from here on."""
    card = wire.Card(uuid="GPU-1", type="gpu", minor=0, model=f"NVIDIA {NASTY}", memory=1)
    failed = wire.Condition("NVMLReady", "False", NASTY)
    spec, status = wire.DeviceSpec(node="n1", devices=(card,)), wire.DeviceStatus(conditions=(failed,))

    read = devices.read(wire.Device(wire.Meta(name="n1"), spec, status))

    assert (read.cards[0].model + read.failed).isprintable()


def test_what_a_policy_says_is_quoted_plainly() -> None:
    """A strategy that nobody knows is quoted in the policy's condition."""
    found = policies.read(wire.PlacementPolicy(wire.Meta(name="p"), wire.PolicySpec(strategy=NASTY)))

    assert isinstance(found, str)
    assert found.isprintable()
