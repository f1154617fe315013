"""What may stand together in one container, and what it asks of each card."""

import itertools
from collections.abc import Mapping
from typing import Final

import hypothesis
import pytest
from hypothesis import strategies as st

from berth_crds import names
from berth_operator.scheduling.decisions import Reason
from berth_operator.scheduling.devices import requests
from berth_operator.scheduling.devices.requests import Gpus, Instances, OtherDevices, Replicas
from berth_operator.translate import device_requests
from support import builders
from translate import pod_requests

CORE, MEMORY, RATIO, SHARED = names.GPU_CORE, names.GPU_MEMORY, names.GPU_MEMORY_RATIO, names.GPU_SHARED

GOOD: dict[str, tuple[dict[str, object], tuple[requests.Ask, ...]]] = {
    "whole cards": ({names.NVIDIA_GPU: 2}, (Gpus(2, core=100, ratio=100),)),
    "whole cards as a text": ({names.NVIDIA_GPU: "2"}, (requests.cards(2),)),
    "whole cards with an exponent": ({names.NVIDIA_GPU: "1e1"}, (requests.cards(10),)),
    "whole cards in thousandths": ({names.NVIDIA_GPU: "2000m"}, (requests.cards(2),)),
    "as many as a node may have": ({names.NVIDIA_GPU: 64}, (requests.cards(64),)),
    "one card in percent": ({names.GPU: 100}, (requests.cards(1),)),
    "three cards in percent": ({names.GPU: "300"}, (requests.cards(3),)),
    "a part of a card": ({names.GPU: 30}, (Gpus(1, core=30, ratio=30),)),
    "memory alone": ({MEMORY: "8Gi"}, (Gpus(1, memory=8 * builders.GIB),)),
    "memory in half bytes": ({MEMORY: "0.5"}, (Gpus(1, memory=1),)),
    "ratio alone": ({RATIO: 30}, (Gpus(1, ratio=30),)),
    "ratio over whole cards": ({RATIO: 300}, (Gpus(3, ratio=100),)),
    "compute and memory": ({CORE: 50, MEMORY: "8Gi"}, (Gpus(1, core=50, memory=8 * builders.GIB),)),
    "compute and ratio": ({CORE: 50, RATIO: 30}, (Gpus(1, core=50, ratio=30),)),
    "all of a card by measures": ({CORE: 100, RATIO: 100}, (requests.cards(1),)),
    "two whole cards by measures": ({CORE: 200, RATIO: 200}, (requests.cards(2),)),
    "less compute than memory of two cards": ({CORE: 100, RATIO: 200}, (Gpus(2, core=50, ratio=100),)),
    "memory over two cards": ({SHARED: 2, MEMORY: "8Gi"}, (Gpus(2, memory=4 * builders.GIB),)),
    "memory over three cards, rounded up": ({SHARED: 3, MEMORY: 10}, (Gpus(3, memory=4),)),
    "ratio over two cards": ({SHARED: 2, RATIO: 60}, (Gpus(2, ratio=30),)),
    "compute and memory over two cards": (
        {SHARED: 2, CORE: 200, MEMORY: "64Gi"},
        (Gpus(2, core=100, memory=32 * builders.GIB),),
    ),
    "compute and ratio over two cards": ({SHARED: 2, CORE: 100, RATIO: 60}, (Gpus(2, core=50, ratio=30),)),
    "over one card": ({SHARED: 1, MEMORY: "8Gi"}, (Gpus(1, memory=8 * builders.GIB),)),
    "replicas": ({names.NVIDIA_GPU_SHARED: 2}, (Replicas(2),)),
    "instances": ({"nvidia.com/mig-1g.10gb": 2}, (Instances("1g.10gb", 2),)),
    "instances with media engines": ({"nvidia.com/mig-1g.10gb.me": 1}, (Instances("1g.10gb+me", 1),)),
    "instances with all media engines": (
        {"nvidia.com/mig-1g.24gb.me.all": 1},
        (Instances("1g.24gb+me.all", 1),),
    ),
    "instances without media engines": ({"nvidia.com/mig-1g.24gb-me": 1}, (Instances("1g.24gb-me", 1),)),
    "compute instances": ({"nvidia.com/mig-1c.3g.40gb": 1}, (Instances("1c.3g.40gb", 1),)),
    "instances of two profiles": (
        {"nvidia.com/mig-3g.40gb": 1, "nvidia.com/mig-1g.10gb": 2},
        (Instances("1g.10gb", 2), Instances("3g.40gb", 1)),
    ),
    "a part of a NIC": ({names.RDMA: 1}, (OtherDevices("rdma", 1, 1),)),
    "a NIC": ({names.RDMA: 100}, (OtherDevices("rdma", 1, 100),)),
    "two NICs": ({names.RDMA: 200}, (OtherDevices("rdma", 2, 100),)),
    "an FPGA and a NIC beside cards": (
        {names.RDMA: 100, names.NVIDIA_GPU: 1, names.FPGA: 50},
        (requests.cards(1), OtherDevices("fpga", 1, 50), OtherDevices("rdma", 1, 100)),
    ),
    "nothing in one way and cards in another": ({names.NVIDIA_GPU: 0, names.GPU: 200}, (requests.cards(2),)),
    "nothing of a measure": ({MEMORY: "8Gi", CORE: 0, SHARED: 0}, (Gpus(1, memory=8 * builders.GIB),)),
}


@pytest.mark.parametrize(("resources", "asks"), GOOD.values(), ids=GOOD.keys())
def test_good_combination(resources: dict[str, object], asks: tuple[requests.Ask, ...]) -> None:
    """Every combination that makes sense is read as what it asks of each card."""
    request = pod_requests.request(pod_requests.asking(resources))

    assert [container.asks for container in request.containers] == [asks]


@pytest.mark.parametrize(
    "container",
    [
        pytest.param(builders.container(), id="no resources"),
        pytest.param(builders.asking("main", {"cpu": 1}), id="other resources"),
        pytest.param(builders.asking("main", {names.NVIDIA_GPU: 0}), id="no whole card"),
        pytest.param(builders.asking("main", {names.GPU: "0"}), id="nothing in percent"),
        pytest.param(
            builders.asking("main", {MEMORY: 0, "nvidia.com/mig-1g.5gb": 0, names.RDMA: 0}),
            id="nothing at all",
        ),
    ],
)
def test_no_devices(container: dict[str, object]) -> None:
    """A container that asks for nothing is no part of the request, and no fault either."""
    request = pod_requests.request(builders.pod(containers=[container]))

    assert request == requests.NO_DEVICES
    assert not request


# ---------------------------------------------------------------- what makes no sense

NEITHER = "is neither a percentage of one card (1 to 100) nor whole cards (a multiple of 100)"
NO_MEMORY = "asks for nothing; write more than 0"
NO_DEVICE = "is neither a percentage of one device (1 to 100) nor whole devices (a multiple of 100)"
ADD_MEMORY = "add berth.dev/gpu-memory or berth.dev/gpu-memory-ratio"

MORE = "is more than one card has; for"
TOGETHER = "and ask for the compute and memory of all of them together"

BAD: dict[str, tuple[dict[str, object], str]] = {
    "half a card by number": (
        {names.NVIDIA_GPU: "0.5"},
        "nvidia.com/gpu: 0.5 is not a number of whole cards",
    ),
    "fewer cards than none": ({names.NVIDIA_GPU: -1}, "nvidia.com/gpu: -1 is not a number of whole cards"),
    "cards in words": ({names.NVIDIA_GPU: "two"}, "nvidia.com/gpu: 'two' is not a quantity"),
    "one card and a half": ({names.GPU: 150}, f"berth.dev/gpu: 150 {NEITHER}"),
    "half a percent": ({names.GPU: "500m"}, f"berth.dev/gpu: 500m {NEITHER}"),
    "less than no percent": ({names.GPU: "-100"}, f"berth.dev/gpu: -100 {NEITHER}"),
    "percent in words": ({names.GPU: "all"}, "berth.dev/gpu: 'all' is not a quantity"),
    "compute and no memory": ({CORE: 50, MEMORY: 0}, f"berth.dev/gpu-memory: 0 {NO_MEMORY}"),
    "compute and no percent of it": ({CORE: 50, RATIO: "0"}, f"berth.dev/gpu-memory-ratio: 0 {NO_MEMORY}"),
    "compute alone": ({CORE: 50}, f"berth.dev/gpu-core says nothing of memory; {ADD_MEMORY}"),
    "a number of cards alone": (
        {SHARED: 2},
        f"berth.dev/gpu.shared says over how many cards, but not how much of them; {ADD_MEMORY}",
    ),
    "compute over some cards": (
        {SHARED: 2, CORE: 50},
        f"berth.dev/gpu-core and berth.dev/gpu.shared say nothing of memory; {ADD_MEMORY}",
    ),
    "memory in bytes and in percent": (
        {MEMORY: "8Gi", RATIO: 50},
        "berth.dev/gpu-memory and berth.dev/gpu-memory-ratio both say how much memory; write one of them",
    ),
    "compute of two cards and memory": (
        {CORE: 200, MEMORY: "64Gi"},
        f"berth.dev/gpu-core: 200 {MORE} 2 cards add berth.dev/gpu.shared: 2 {TOGETHER}",
    ),
    "compute of three cards and a part of one": (
        {CORE: 250, RATIO: 50},
        f"berth.dev/gpu-core: 250 {MORE} 3 cards add berth.dev/gpu.shared: 3 {TOGETHER}",
    ),
    "more compute than the cards have": (
        {CORE: 300, RATIO: 200},
        "berth.dev/gpu-core: 300 is more than 100 percent of each of 2 cards",
    ),
    "compute of one card and a half": (
        {CORE: 150, RATIO: 200},
        (
            "berth.dev/gpu-core: 150 is neither a part of one card nor whole cards; write 1 to 100 or a "
            "multiple of 100, or add berth.dev/gpu.shared: 2 to divide it among 2 cards"
        ),
    ),
    "more ratio than the cards have": (
        {SHARED: 2, RATIO: 300},
        "berth.dev/gpu-memory-ratio: 300 is more than 100 percent of each of 2 cards",
    ),
    "more ratio than the one card has": (
        {SHARED: 1, RATIO: 200},
        "berth.dev/gpu-memory-ratio: 200 is more than 100 percent of the card",
    ),
    "compute that cannot be divided": (
        {SHARED: 3, CORE: 50, MEMORY: "3Gi"},
        "berth.dev/gpu-core: 50 cannot be divided evenly among 3 cards",
    ),
    "ratio that cannot be divided": (
        {SHARED: 2, RATIO: 51},
        "berth.dev/gpu-memory-ratio: 51 cannot be divided evenly among 2 cards",
    ),
    "ratio of one card and a half": ({RATIO: 150}, f"berth.dev/gpu-memory-ratio: 150 {NEITHER}"),
    "half a percent of compute": (
        {CORE: "0.5", MEMORY: 1},
        "berth.dev/gpu-core: 0.5 is not a whole number of percent",
    ),
    "half a card to share": (
        {SHARED: "0.5", MEMORY: 1},
        "berth.dev/gpu.shared: 0.5 is not a number of cards",
    ),
    "less than no memory": ({MEMORY: -1}, "berth.dev/gpu-memory: -1 is not an amount of memory"),
    "more memory than there is": (
        {MEMORY: "1Ei"},
        "berth.dev/gpu-memory: 1Ei is more memory than any card has",
    ),
    "bytes where MiB are counted": (
        {names.NVIDIA_GPU: 1, "nvidia.com/gpumem": "8Gi"},
        "nvidia.com/gpumem: 8Gi is more memory than any card has; it counts MiB, write 8192",
    ),
    "bytes where GiB are counted": (
        {"aliyun.com/gpu-mem": "2Gi"},
        "aliyun.com/gpu-mem: 2Gi is more memory than any card has; it counts GiB, write 2",
    ),
    "half a replica": (
        {names.NVIDIA_GPU_SHARED: "0.5"},
        "nvidia.com/gpu.shared: 0.5 is not a number of replicas",
    ),
    "half an instance": (
        {"nvidia.com/mig-1g.10gb": "0.5"},
        "nvidia.com/mig-1g.10gb: 0.5 is not a number of MIG instances",
    ),
    "no profile": (
        {"nvidia.com/mig-small": 1},
        "nvidia.com/mig-small names no MIG profile; write for instance nvidia.com/mig-1g.10gb",
    ),
    "one NIC and a half": ({names.RDMA: 150}, f"berth.dev/rdma: 150 {NO_DEVICE}"),
    "too many NICs": ({names.RDMA: 6500}, "berth.dev/rdma: 6500 is 65 devices; no node has more than 64"),
}
BOUNDS: dict[str, tuple[dict[str, object], str]] = {
    "cards": ({names.NVIDIA_GPU: 65}, "asks for 65 cards; no node has more than 64"),
    "cards as Koordinator writes them": (
        {names.NVIDIA_GPU: 200},
        "asks for 200 cards; nvidia.com/gpu counts whole cards: write 2, or berth.dev/gpu: 200",
    ),
    "cards in percent": ({names.GPU: 6600}, "asks for 66 cards; no node has more than 64"),
    "cards by ratio": ({RATIO: 6700}, "asks for 67 cards; no node has more than 64"),
    "cards to share": ({SHARED: 68, MEMORY: 100}, "asks for 68 cards; no node has more than 64"),
    "replicas": ({names.NVIDIA_GPU_SHARED: 65}, "asks for 65 replicas; no node has more than 64"),
    "instances": (
        {"nvidia.com/mig-1g.10gb": 60, "nvidia.com/mig-1g.5gb": 5},
        "asks for 65 MIG instances; no node has more than 64",
    ),
}
MIXED: dict[str, tuple[dict[str, object], str]] = {
    "cards by number and in percent": (
        {names.NVIDIA_GPU: 1, names.GPU: 100},
        "nvidia.com/gpu and berth.dev/gpu",
    ),
    "cards and measures": ({names.NVIDIA_GPU: 1, MEMORY: 1}, "nvidia.com/gpu and berth.dev/gpu-memory"),
    "percent and measures": ({names.GPU: 50, CORE: 50}, "berth.dev/gpu and berth.dev/gpu-core"),
    "cards and replicas": (
        {names.NVIDIA_GPU: 1, names.NVIDIA_GPU_SHARED: 1},
        "nvidia.com/gpu and nvidia.com/gpu.shared",
    ),
    "measures and instances": (
        {RATIO: 1, "nvidia.com/mig-1g.10gb": 1},
        "berth.dev/gpu-memory-ratio and nvidia.com/mig-1g.10gb",
    ),
    "three ways": (
        {names.NVIDIA_GPU: 1, names.NVIDIA_GPU_SHARED: 1, "nvidia.com/mig-1g.10gb": 1},
        "nvidia.com/gpu and nvidia.com/gpu.shared and nvidia.com/mig-1g.10gb",
    ),
}
SHARES: Final = "berth.dev/gpu-core: 60 and berth.dev/gpu-memory-ratio: 60 beside berth.dev/gpu.shared"
REFUSED: Final = (
    {name: (resources, f"container main: {sentence}") for name, (resources, sentence) in BAD.items()}
    | {
        f"too many {name}": (found, f"container main {sentence}")
        for name, (found, sentence) in BOUNDS.items()
    }
    | {
        f"mixed {name}": (resources, f"container main asks for both {keys}; ask in one way only")
        for name, (resources, keys) in MIXED.items()
    }
    | {
        "percent of several cards": (
            {names.GPU: 60, SHARED: 2},
            f"container main asks for both berth.dev/gpu and {SHARED}; ask in one way only: {SHARES}",
        )
    }
)


@pytest.mark.parametrize(("resources", "sentence"), REFUSED.values(), ids=REFUSED.keys())
def test_bad_combination(resources: dict[str, object], sentence: str) -> None:
    """Every combination that makes no sense is refused in a sentence of its own."""
    found = pod_requests.faults(pod_requests.asking(resources))

    assert found == [(Reason.INVALID_REQUEST, sentence)]


def test_replicas_of_instances_are_not_served() -> None:
    """What makes sense and is not served says so, and what to write instead."""
    name = "nvidia.com/mig-1g.10gb.shared"

    sentence = f"container main: {name}: replicas of MIG instances are not served; ask for whole instances"
    assert pod_requests.faults(pod_requests.asking({name: 1})) == [(Reason.UNSUPPORTED_REQUEST, sentence)]


# ---------------------------------------------------------------- properties


def spelled(ask: Gpus) -> dict[str, int]:
    """Write an ask in the one spelling that can say all of them."""
    totals = {CORE: ask.core * ask.count, MEMORY: ask.memory * ask.count, RATIO: ask.ratio * ask.count}
    return {SHARED: ask.count} | {name: total for name, total in totals.items() if total}


PERCENT = st.integers(0, 100)
ASKS = st.one_of(
    st.builds(Gpus, st.integers(1, 64), core=PERCENT, ratio=st.integers(1, 100)),
    st.builds(Gpus, st.integers(1, 64), core=PERCENT, memory=st.integers(1, 2**40)),
)


@pod_requests.PROPERTY
@hypothesis.given(ASKS)
def test_there_and_back(ask: Gpus) -> None:
    """Whatever may be asked of cards can be written, and is read as it was meant."""
    request = pod_requests.request(pod_requests.asking(spelled(ask)))

    assert request.containers[0].asks == (ask,)


@pod_requests.PROPERTY
@hypothesis.given(st.integers(1, 2**45), st.integers(1, 64))
def test_memory_is_divided_rounding_up(total: int, cards: int) -> None:
    """The cards together have what was asked for, and none has a byte more than that takes."""
    request = pod_requests.request(pod_requests.asking({MEMORY: total, SHARED: cards}))

    (ask,) = request.containers[0].asks
    assert isinstance(ask, Gpus)
    assert (ask.memory - 1) * cards < total <= ask.memory * cards


def koordinator(asked: Mapping[str, int]) -> Gpus | None:
    """Walk through the table of combinations as Koordinator has it, card by card; None where it refuses."""
    core, ratio, memory, count = (asked[name] for name in (CORE, RATIO, MEMORY, SHARED))
    if bool(ratio) is bool(memory):
        return None
    if not count:
        if any(percent > 100 and percent % 100 for percent in (core, ratio)):
            return None
        count = max(1, ratio // 100)
    if any(percent % count or percent // count > 100 for percent in (core, ratio)):
        return None
    return Gpus(count, core=core // count, ratio=ratio // count, memory=-(-memory // count))


@pytest.mark.parametrize("shared", [0, 1, 2, 3])
def test_all_combinations_of_measures_are_read_as_koordinator_does(shared: int) -> None:
    """The grammar agrees with the table that it was made from, on every small combination."""
    cores, ratios = (0, 1, 50, 99, 100, 101, 150, 200, 300), (0, 1, 50, 100, 150, 200, 300, 301)
    for core, ratio, memory in itertools.product(cores, ratios, (0, 1, 7 * builders.GIB)):
        asked = {SHARED: shared, CORE: core, RATIO: ratio, MEMORY: memory}
        request, faults = device_requests.request(pod_requests.asking(asked))
        found = [ask for container in request.containers for ask in container.asks]
        expected = koordinator(asked)

        assert found == ([expected] if expected else []), asked
        refused = any(asked.values()) and expected is None
        assert [fault.reason for fault in faults] == [Reason.INVALID_REQUEST] * refused, asked


@pod_requests.PROPERTY
@hypothesis.given(st.permutations(list(GOOD)), st.integers(1, 4))
def test_containers_do_not_disturb_each_other(order: list[str], count: int) -> None:
    """What a container asks for does not depend on the containers beside it."""
    chosen = [GOOD[name][0] for name in order[:count]]
    alone = [pod_requests.request(pod_requests.asking(asked)).containers[0] for asked in chosen]

    together = pod_requests.request(
        builders.pod(containers=[builders.asking(f"c{at}", asked) for at, asked in enumerate(chosen)])
    )

    assert [(one.name, one.asks) for one in together.containers] == [
        (f"c{at}", one.asks) for at, one in enumerate(alone)
    ]
