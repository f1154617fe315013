"""Conditions on devices that make no sense: each is refused with a sentence of its own."""

import collections
from collections.abc import Mapping
from typing import Final

import pytest

from berth_crds import names
from berth_crds.vocabulary import Strategy
from berth_operator.scheduling.decisions import Reason
from berth_operator.translate.device_annotations import READERS, UNSERVED
from support import builders
from translate import pod_requests

CARDS: Final = {names.NVIDIA_GPU: 2}
NICS: Final = {names.RDMA: 100}
BOTH: Final = CARDS | NICS

UUID = "GPU-6cf3bbc0-7726-46d2-816f-525511292b61"
OTHER = "GPU-0"
NO_MODEL = " names no model; write one or several, such as A100-SXM4-80GB"
NO_UUID = f"write one or several, such as {UUID}"
SAY_HOW = "write for instance rdma=every (types: fpga, rdma; ways: every, count, whole)"
SAY_WHAT = "write for instance rdma=pcie (types: gpu, fpga, rdma; scopes: device, pcie)"
TYPES = "write two or more of gpu, rdma, fpga"
BAD: dict[str, tuple[str, str, str]] = {
    "no model": (names.MODEL, " , ", NO_MODEL),
    "no model at all": (names.MODEL, "", NO_MODEL),
    "no model to avoid": (names.AVOID_MODEL, "", NO_MODEL),
    "an empty pattern": (names.MODEL_PATTERN, "", " is empty"),
    "a pattern that is none": (
        names.MODEL_PATTERN,
        "(A100",
        " is not a regular expression of RE2: missing ): (A100",
    ),
    "a pattern that is too long": (names.MODEL_PATTERN, "A" * 257, " is longer than 256 characters"),
    "no uuid": (names.UUIDS, ",", f": no card is named; {NO_UUID}"),
    "a uuid with a space": (
        names.AVOID_UUIDS,
        "GPU a",
        f": 'GPU a' is no uuid; write one or several, such as {UUID}",
    ),
    "a minor": (names.UUIDS, "0", f": '0' is no uuid; write one or several, such as {UUID}"),
    "a word": (names.AVOID_UUIDS, "odd", f": 'odd' is no uuid; write one or several, such as {UUID}"),
    "memory in words": (names.MEMORY_AT_LEAST, "lots", ": lots is not an amount of memory, such as 40Gi"),
    "no memory": (names.MEMORY_AT_LEAST, "0", ": 0 is not an amount of memory, such as 40Gi"),
    "less than no memory": (names.MEMORY_AT_LEAST, "-1Gi", ": -1Gi is not an amount of memory, such as 40Gi"),
    "a scope nobody knows": (
        names.SCOPE,
        "rack",
        ": rack is not known; write one of node, numa, pcie, nvlink, device",
    ),
    "no strategy": (names.STRATEGY, " ", f" is empty; write one of {', '.join(Strategy)}"),
    "a strategy nobody knows": (
        names.STRATEGY,
        "best",
        f": best is not known; write one of {', '.join(Strategy)}",
    ),
    "a joint of one": (names.JOINT, "gpu", f": fewer than two types are named; {TYPES}"),
    "a joint with a stranger": (names.JOINT, "gpu,nic", f": nic is no type of device; {TYPES}"),
    "no label": (names.LABELS, "", " names no label; write for instance fabric=a"),
    "a label with a blank": (
        names.LABELS,
        "my fabric",
        ": 'my fabric' is no label; write for instance fabric=a",
    ),
    "labels of no type": (
        names.LABELS,
        "nic: fabric=a",
        ": nic is no type of device; write one of gpu, fpga, rdma",
    ),
    "labels of two types at once": (
        names.LABELS,
        "rdma: gpu: fabric=a",
        ": 'gpu: fabric=a' is no label; write for instance fabric=a",
    ),
    "a value that is none": (
        names.LABELS,
        "fabric in (a b)",
        ": 'fabric in (a b)' is no label; write for instance fabric=a",
    ),
    "two sets of values without one in both": (
        names.LABELS,
        "a in (1,2),a in (3,4)",
        " gives the label a two values; no device has both",
    ),
    "a label with two values": (
        names.FUNCTION_LABELS,
        "a=1,a=2",
        " gives the label a two values; no device has both",
    ),
    "nothing to apply": (names.APPLY, "", " is empty; write for instance rdma=every"),
    "a type that nothing can be said of": (
        names.APPLY,
        "gpu=every",
        f": 'gpu=every' is not known; {SAY_HOW}",
    ),
    "nothing that is exclusive": (names.EXCLUSIVE, " , ", " is empty; write for instance rdma=pcie"),
    "an exclusive socket": (
        names.EXCLUSIVE,
        "rdma=numa",
        f": 'rdma=numa' is not known; {SAY_WHAT}",
    ),
    "an exclusive type that nobody knows": (
        names.EXCLUSIVE,
        "nic=pcie",
        f": 'nic=pcie' is not known; {SAY_WHAT}",
    ),
    "two scopes of one type": (
        names.EXCLUSIVE,
        "gpu=pcie, GPU=device",
        " says two things of gpu; write one of them",
    ),
    "two things of one type": (
        names.APPLY,
        "rdma=every,rdma=count",
        " says two things of rdma; write one of them",
    ),
}


@pytest.mark.parametrize(("key", "text", "sentence"), BAD.values(), ids=BAD.keys())
def test_bad_annotation(key: str, text: str, sentence: str) -> None:
    """An annotation that cannot be understood is refused, never taken for no condition."""
    found = pod_requests.faults(pod_requests.asking(BOTH, annotations={key: text}))

    assert found == [(Reason.INVALID_REQUEST, f"annotation {key}{sentence}")]


@pytest.mark.parametrize("key", UNSERVED)
def test_unserved_annotation(key: str) -> None:
    """A wish that is not served yet is named, never passed over."""
    found = pod_requests.faults(pod_requests.asking(CARDS, annotations={key: "x"}))

    assert found == [(Reason.UNSUPPORTED_REQUEST, f"annotation {key} is not served yet")]


RDMA = "container main: berth.dev/rdma"
OF_GPU = "speaks of devices of type gpu, but no container asks for one; add for instance nvidia.com/gpu: 1"
OF_RDMA = (
    "speaks of devices of type rdma, but no container asks for one; add for instance berth.dev/rdma: 100"
)
TOGETHER: dict[str, tuple[Mapping[str, object], dict[str, str], str]] = {
    "a policy for no scope": (
        CARDS,
        {names.SCOPE_POLICY: "preferred"},
        "annotation berth.dev/scope-policy needs berth.dev/scope beside it",
    ),
    "a policy for nothing joint": (
        CARDS,
        {names.JOINT_POLICY: "required"},
        "annotation berth.dev/joint-policy needs berth.dev/joint beside it",
    ),
    "a wish for a joint without NICs": (
        CARDS,
        {names.JOINT: "gpu,rdma", names.JOINT_POLICY: "preferred"},
        f"annotation berth.dev/joint {OF_RDMA}",
    ),
    "exclusive NICs that nobody asks for": (
        CARDS,
        {names.EXCLUSIVE: "gpu=pcie,rdma=pcie"},
        f"annotation berth.dev/exclusive {OF_RDMA}",
    ),
    "replicas of whole cards": (
        CARDS,
        {names.REPLICAS: "packed"},
        "annotation berth.dev/replicas needs nvidia.com/gpu.shared beside it",
    ),
    "every wanted model avoided": (
        CARDS,
        {names.MODEL: "T4", names.AVOID_MODEL: "t4,P100"},
        "annotation berth.dev/model and annotation berth.dev/avoid-model leave no card to choose from",
    ),
    "every wanted card avoided": (
        CARDS,
        {names.UUIDS: "GPU-a,GPU-b", names.AVOID_UUIDS: "GPU-a,GPU-b"},
        "annotation berth.dev/uuids and annotation berth.dev/avoid-uuids leave no card to choose from",
    ),
    "fewer cards named than asked for": (
        CARDS,
        {names.UUIDS: "GPU-a,GPU-b", names.AVOID_UUIDS: "GPU-b"},
        "annotation berth.dev/uuids leaves 1 card to choose from, but 2 are asked for",
    ),
    "a model of no card": (NICS, {names.MODEL: "T4"}, f"annotation berth.dev/model {OF_GPU}"),
    "a scope of no card": ({"cpu": 1}, {names.SCOPE: "numa"}, f"annotation berth.dev/scope {OF_GPU}"),
    "the name of no device": (
        {"cpu": 1},
        {names.UUIDS: "GPU-a"},
        f"annotation berth.dev/uuids {OF_GPU.replace('gpu,', 'gpu or fpga or rdma,')}",
    ),
    "a joint without NICs": (CARDS, {names.JOINT: "gpu,rdma"}, f"annotation berth.dev/joint {OF_RDMA}"),
    "labels of cards, and none asked for": (
        NICS,
        {names.LABELS: "gpu: tier=gold; rdma: fabric=a"},
        f"annotation berth.dev/labels {OF_GPU}",
    ),
    "labels of one type of nothing": (
        CARDS,
        {names.LABELS: "rdma: fabric=a"},
        f"annotation berth.dev/labels {OF_RDMA}",
    ),
    "labels of nothing": (
        CARDS,
        {names.LABELS: "fabric=a"},
        f"annotation berth.dev/labels {OF_RDMA.replace('rdma,', 'fpga or rdma,')}",
    ),
    "every NIC, and none asked for": (
        CARDS,
        {names.APPLY: "rdma=every"},
        f"annotation berth.dev/apply {OF_RDMA}",
    ),
    "every NIC, and two of them": (
        {names.RDMA: 200},
        {names.APPLY: "rdma=every"},
        f"{RDMA}: 200 asks for 2 devices, and berth.dev/apply for every one; write 1 to 100, percent of each",
    ),
    "more NICs than there are": (
        {names.RDMA: 100},
        {names.APPLY: "rdma=count"},
        f"{RDMA}: 100 is a number of devices, because of {names.APPLY}: rdma=count; no node has more than 64",
    ),
    "half a NIC by number": (
        {names.RDMA: "0.5"},
        {names.APPLY: "rdma=whole"},
        f"{RDMA}: 0.5 is not a number of devices",
    ),
}


@pytest.mark.parametrize(("resources", "annotations", "sentence"), TOGETHER.values(), ids=TOGETHER.keys())
def test_wishes_must_fit_what_is_asked(
    resources: Mapping[str, object], annotations: dict[str, str], sentence: str
) -> None:
    """A wish that no device could fulfil is most likely a mistake, and is told so."""
    found = pod_requests.faults(pod_requests.asking(resources, annotations=annotations))

    assert found == [(Reason.INVALID_REQUEST, sentence)]


def test_wishes_are_not_judged_by_a_container_that_cannot_be_read() -> None:
    """One mistake gives one sentence: the container that a wish was meant for may be the one at fault."""
    pod = pod_requests.asking({names.NVIDIA_GPU: "x"}, annotations={names.MODEL: "T4"})

    assert pod_requests.sentences(pod) == ["container main: nvidia.com/gpu: 'x' is not a quantity"]


def test_all_faults_are_told_at_once() -> None:
    """Nobody should have to mend a pod one fault at a time."""
    pod = builders.pod(
        containers=[builders.asking("a", {names.NVIDIA_GPU: "x"}), builders.asking("b", {names.GPU_CORE: 1})],
        annotations={names.GANG: "g", names.MODEL: "", names.SCOPE: "rack"},
        resourceClaims=[{"name": "c"}],
    )

    found = collections.Counter(reason for reason, _ in pod_requests.faults(pod))

    assert found == {
        Reason.INVALID_REQUEST: 4,
        Reason.UNSUPPORTED_REQUEST: 1,
        Reason.UNSUPPORTED_CONSTRAINT: 1,
    }


def test_every_wish_of_the_contract_is_read_or_refused() -> None:
    """No annotation by which people may ask is ignored."""
    wishes = {
        *(names.MODEL, names.MODEL_PATTERN, names.AVOID_MODEL, names.AVOID_MODEL_PATTERN),
        *(names.UUIDS, names.AVOID_UUIDS),
        *(names.MEMORY_AT_LEAST, names.SCOPE, names.SCOPE_POLICY, names.STRATEGY, names.JOINT),
        *(names.APPLY, names.LABELS, names.FUNCTION_LABELS, names.REPLICAS, names.GANG, names.GANG_SIZE),
        *(names.JOINT_POLICY, names.MEMORY_TOTAL_AT_LEAST, names.EXCLUSIVE),
    }

    assert wishes <= {*READERS, *UNSERVED}


NIC_UUID = "rdma-0000:1f:00.0"


@pytest.mark.parametrize(
    ("asked", "written", "read"),
    [
        pytest.param(CARDS, f"{UUID.lower()},{OTHER}", {UUID, OTHER}, id="a card in small letters"),
        pytest.param(CARDS, f"{UUID.upper()},{OTHER}", {UUID, OTHER}, id="a card in capitals"),
        pytest.param(CARDS, f"gpu{UUID[3:].upper()},{OTHER}", {UUID, OTHER}, id="a card in both"),
        pytest.param(NICS, NIC_UUID, {NIC_UUID}, id="a NIC"),
        pytest.param(NICS, NIC_UUID.upper(), {NIC_UUID.upper()}, id="a NIC in capitals is another"),
    ],
)
def test_the_uuid_of_a_card_is_read_whatever_its_case(
    asked: Mapping[str, object], written: str, read: set[str]
) -> None:
    """The same card is meant; the uuids of other devices, which may be named too, stay as they are."""
    found = pod_requests.request(pod_requests.asking(asked, annotations={names.UUIDS: written}))

    assert found.conditions.uuids == read
