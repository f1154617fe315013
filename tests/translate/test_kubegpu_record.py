"""KubeGPU's records that ask for nothing that can be given, and what is said of them instead."""

import json
from typing import Any, Final

import pytest

from berth_crds import names
from berth_operator.scheduling.decisions import Reason
from berth_operator.translate import pods
from support import builders
from translate import pod_requests

INVALID, UNSUPPORTED = Reason.INVALID_REQUEST, Reason.UNSUPPORTED_REQUEST
KUBEGPU: Final = "pod.alpha/DeviceInformation"
WHICH_IT_WRITES: Final = "which KubeGPU's scheduler writes; ask for them in its requests, for instance"


def by_path(**amounts: object) -> dict[str, object]:
    """Return a container of KubeGPU's record that asks by these paths."""
    return {"requests": {f"alpha/grpresource/{path}": amount for path, amount in amounts.items()}}


# Containers that ask KubeGPU by paths, which come down to no number of cards.
NO_COUNT: dict[str, dict[str, dict[str, object]]] = {
    "memory by its path": {"main": by_path(**{"gpu/0/cards": 1, "gpu/0/memory": 1 << 30})},
    "two of one card": {"main": by_path(**{"gpu/0/cards": 2})},
    "a card in words": {"main": by_path(**{"gpu/0/cards": "x"})},
    "a path that is none": {"main": by_path(**{"gpu/0/1/cards": 1})},
    "several groups": {"main": by_path(**{"gpugrp0/a/gpu/0/cards": 1, "gpugrp0/b/gpu/0/cards": 1})},
    "a card beside a group": {"main": by_path(**{"gpugrp0/a/gpu/0/cards": 1, "gpu/1/cards": 1})},
    "paths and a count": {"main": {"requests": {"alpha.gpu/numgpu": 1, "alpha/grpresource/gpu/0/cards": 1}}},
    "a group beside another container": {
        "main": by_path(**{"gpugrp0/a/gpu/0/cards": 1, "gpugrp0/a/gpu/1/cards": 1}),
        "side": {"requests": {"alpha.gpu/numgpu": 1}},
    },
}


def answer(name: str = "main", section: str = "runningcontainer", **more: object) -> str:
    """Return KubeGPU's record with what its scheduler has made for a container that asks for two cards."""
    paths = [f"alpha/grpresource/gpugrp1/0/gpugrp0/0/gpu/{card}/cards" for card in range(2)]
    memory = {"alpha/grpresource/gpugrp1/0/gpugrp0/0/gpu/0/memory": 1 << 30}
    return json.dumps({section: {name: {"devrequests": dict.fromkeys(paths, 1) | memory, **more}}})


FAULTS: dict[str, tuple[dict[str, Any], Reason, str]] = {
    "a record that is none": (
        {"annotations": {KUBEGPU: "{"}},
        INVALID,
        f"annotation {KUBEGPU} is not JSON: {{",
    ),
    "a list for a record": (
        {"annotations": {KUBEGPU: "[1]"}},
        INVALID,
        f"annotation {KUBEGPU}: expected an object in JSON, found [1]",
    ),
    "a container that is not there": (
        {"annotations": {KUBEGPU: '{"runningcontainer": {"x": {"requests": {"alpha.gpu/numgpu": 1}}}}'}},
        INVALID,
        f"annotation {KUBEGPU} speaks of container 'x', which is not there",
    ),
    "cards in words": (
        {"annotations": {KUBEGPU: '{"runningcontainer": {"main": {"requests": {"alpha.gpu/numgpu": "x"}}}}'}},
        INVALID,
        f"annotation {KUBEGPU}: alpha.gpu/numgpu: 'x' is not a quantity",
    ),
    "what its scheduler made of requests, and no requests": (
        {"annotations": {KUBEGPU: answer()}},
        INVALID,
        (
            f"annotation {KUBEGPU} has devices for container 'main' in devrequests alone, {WHICH_IT_WRITES}"
            " alpha.gpu/numgpu: 2"
        ),
    ),
    "the same for an init container, in the later record": (
        {
            "annotations": {"KubeDevice/DeviceInfo": answer("early", "initcontainer")},
            "initContainers": [builders.asking("early", {})],
            "gpus": 1,
        },
        INVALID,
        (
            "annotation KubeDevice/DeviceInfo has devices for container 'early' in devrequests alone, "
            f"{WHICH_IT_WRITES} nvidia.com/gpu: 2"
        ),
    ),
    "the same beside a network card": (
        {"annotations": {KUBEGPU: answer()}, "containers": [builders.asking("main", {names.RDMA: 100})]},
        INVALID,
        (
            f"annotation {KUBEGPU} has devices for container 'main' in devrequests alone, {WHICH_IT_WRITES}"
            " alpha.gpu/numgpu: 2"
        ),
    ),
    "memory alone, and requests of nothing that it knows": (
        {
            "annotations": {
                KUBEGPU: json.dumps(
                    {
                        "runningcontainer": {
                            "main": {
                                "requests": {"cpu": 1},
                                "devrequests": {"alpha/grpresource/gpu/0/memory": 1},
                            }
                        }
                    }
                )
            }
        },
        INVALID,
        (
            f"annotation {KUBEGPU} has devices for container 'main' in devrequests alone, {WHICH_IT_WRITES}"
            " alpha.gpu/numgpu: 1"
        ),
    ),
    "what its scheduler chose alone": (
        {
            "annotations": {
                KUBEGPU: json.dumps(
                    {
                        "runningcontainer": {
                            "main": {
                                "allocatefrom": {
                                    "alpha/grpresource/gpu/0/cards": "alpha/grpresource/gpu/GPU-1/cards"
                                }
                            }
                        }
                    }
                )
            }
        },
        INVALID,
        (
            f"annotation {KUBEGPU} has devices for container 'main' in allocatefrom alone, {WHICH_IT_WRITES}"
            " alpha.gpu/numgpu: 1"
        ),
    ),
    "what its scheduler made for a container that is not there": (
        {"annotations": {KUBEGPU: answer("x")}},
        INVALID,
        f"annotation {KUBEGPU} speaks of container 'x', which is not there",
    ),
    "a list for what its scheduler made": (
        {"annotations": {KUBEGPU: '{"runningcontainer": {"main": {"devrequests": [1]}}}'}},
        INVALID,
        f"annotation {KUBEGPU}: expected an object in JSON, found [1]",
    ),
    **{
        what: (
            {
                "annotations": {KUBEGPU: json.dumps({"runningcontainer": record})},
                "containers": [builders.asking(name, {}) for name in record],
            },
            UNSUPPORTED,
            f"annotation {KUBEGPU} asks for devices by their path, which is not served; count the cards",
        )
        for what, record in NO_COUNT.items()
    },
}


@pytest.mark.parametrize(("about", "reason", "sentence"), FAULTS.values(), ids=FAULTS.keys())
def test_a_record_that_asks_for_nothing_that_can_be_given(
    about: dict[str, Any], reason: Reason, sentence: str
) -> None:
    """It is one sentence, which names the annotation, and what to write where that can be known."""
    assert pod_requests.faults(builders.pod(**about)) == [(reason, sentence)]


@pytest.mark.parametrize("written", [{names.TERM: "leader/1"}, {}], ids=["Berth's", "another's"])
def test_a_pod_that_runs_without_cards_keeps_none_back(written: dict[str, str]) -> None:
    """It was placed before such records were refused, or the record was written afterwards."""
    pod = builders.pod(annotations={KUBEGPU: answer(), **written}, nodeName="n1", phase="Running")

    found = pods.read_bound(pod)

    assert (found.hold.devices, found.hold.withheld, found.fault) == (False, 0, "")
