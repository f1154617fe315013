"""Whatever stands in a key, in whoever's words, it is read or refused: nothing stops the operator."""

from typing import Any, Final

import hypothesis
from hypothesis import strategies as st

from berth_crds import aliases, names, text
from berth_operator.scheduling.decisions import Reason
from berth_operator.scheduling.devices import requests
from berth_operator.scheduling.devices.requests import Gpus
from berth_operator.translate import annotations, demands, device_requests, pods, raw
from support import builders
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
        *annotations.READERS,
        *annotations.UNSERVED,
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


@pod_requests.PROPERTY
@hypothesis.given(any_pod())
def test_every_pod_is_read(pod: raw.Pod) -> None:
    """A pod is read, or refused in sentences that are fit to print; it never stops the operator."""
    request, faults = device_requests.request(pod)

    assert all(fault.detail.isprintable() and len(fault.detail) < 500 for fault in faults)
    assert {fault.reason for fault in faults} <= {Reason.INVALID_REQUEST, Reason.UNSUPPORTED_REQUEST}
    assert isinstance(pods.classify(pod), pods.WaitingPod | pods.BoundPod)
    assert all(name for name, _ in demands.demand(pod.spec).served)
    assert request.need.cards >= 0


@pod_requests.PROPERTY
@hypothesis.given(any_pod())
def test_what_is_read_makes_sense(pod: raw.Pod) -> None:
    """No ask leaves this room that the core would have to mistrust."""
    request, _ = device_requests.request(pod)

    for ask in (ask for one in request.containers for ask in one.asks):
        assert 1 <= ask.count <= 64
        match ask:
            case requests.Gpus():
                assert 0 <= ask.core <= 100
                assert 0 <= ask.ratio <= 100
                assert 0 <= ask.memory <= 2**50
                assert (ask.memory > 0) != (ask.ratio > 0)
            case requests.OtherDevices():
                assert 1 <= ask.share <= 100


@pod_requests.PROPERTY
@hypothesis.given(any_pod())
def test_a_refusal_is_one_plain_line(pod: raw.Pod) -> None:
    """What people are told is wrong quotes what they wrote, and steers nobody's terminal."""
    for sentence in pod_requests.sentences(pod):
        assert sentence.isprintable()
        assert len(sentence) <= text.LONGEST


@pod_requests.PROPERTY
@hypothesis.given(any_pod())
def test_equal_pods_give_equal_requests(pod: raw.Pod) -> None:
    """The same pod gives the same request, and one that the tables of the search can be asked by."""
    first, second = device_requests.request(pod), device_requests.request(pod)

    assert first == second
    assert hash(first[0].conditions) == hash(second[0].conditions)
    assert hash(first[0].grouping) == hash(second[0].grouping)


# ---------------------------------------------------------------- the same in other words

COUNTS = st.integers(1, 64)
MIB = st.integers(1, 2**20)
PERCENT = st.integers(1, 100)


def same(theirs: dict[str, object], ask: Gpus, **about: Any) -> None:
    """Check that a container in other words asks for this of each card."""
    request = pod_requests.request(pod_requests.asking(theirs, **about))

    assert request == requests.Request((requests.ContainerRequest("main", (ask,)),))


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
    said = {"gpu-fraction": str(fraction), "gpu-fraction-num-devices": str(count)}

    (container,) = pod_requests.request(builders.pod(annotations=said)).containers

    (ask,) = container.asks
    assert isinstance(ask, Gpus)
    assert ask == Gpus(count, ratio=ask.ratio)
    assert fraction * 100 <= ask.ratio + 1e-9
    assert ask.ratio - 1 < fraction * 100


@pod_requests.PROPERTY
@hypothesis.given(COUNTS)
def test_whole_cards(count: int) -> None:
    """A card is a card, whoever counts it."""
    for name in ("nvidia.com/gpu", "volcano.sh/vgpu-number", "volcano.sh/gpu-number", "alpha.gpu/numgpu"):
        same({name: count}, requests.cards(count))
    for name in ("berth.dev/gpu", "koordinator.sh/gpu", "kubernetes.io/gpu"):
        same({name: 100 * count}, requests.cards(count))
    same({}, requests.cards(count), labels={"genius/gpu-number": str(count)})
