"""Whoever writes on a pod or a Device steers nobody's terminal: refusals and names are plain lines."""

from typing import Any, Final

import pytest

from berth_crds import aliases, names, text, wire
from berth_operator.translate import annotations, devices, policies
from translate import pod_requests

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
KEYS: Final = sorted(
    {*annotations.READERS, *aliases.KUBEGPU_RECORDS, aliases.KAI_CONTAINER}
    | {row.key for row in aliases.OPTIONS}
    | {row.key for row in aliases.ON_PODS}
)


@pytest.mark.parametrize("key", KEYS)
def test_what_stands_in_a_key_is_quoted_plainly(key: str) -> None:
    """Whichever key it is, and however it is misread, the sentence is one line that can be read."""
    for said in TEXTS:
        about: dict[str, Any] = {"annotations": {key: said}, "labels": {key: said}}
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
    thing = wire.Device(
        wire.Meta(name="n1"),
        wire.DeviceSpec(node="n1", devices=(card,)),
        wire.DeviceStatus(conditions=(failed,)),
    )

    read = devices.read(thing)

    assert read.cards[0].model.isprintable()
    assert read.failed.isprintable()


def test_what_a_policy_says_is_quoted_plainly() -> None:
    """A strategy that nobody knows is quoted in the policy's condition."""
    said = policies.read(wire.PlacementPolicy(wire.Meta(name="p"), wire.PolicySpec(strategy=NASTY)))

    assert isinstance(said, str)
    assert said.isprintable()
