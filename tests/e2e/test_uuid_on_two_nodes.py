"""A uuid that two nodes publish is given out on the first of them alone, and everybody is told (I1)."""

import datetime as dt

import pytest

from berth_crds.client import resources
from berth_crds.client.lease import micro_time
from e2e.stage import USUAL, Stage, cards_of
from support import kubelet, manifests

SHARED = "GPU-of-both"


async def publish(stage: Stage, node: str, *uuids: str) -> None:
    """Publish a node's cards, as its agent would."""
    device = manifests.device(node, len(uuids))
    for card, uuid in zip(device["spec"]["devices"], uuids, strict=True):
        card["uuid"] = uuid
    device["spec"]["summary"] = {"models": "T4", "gpus": len(uuids)}
    await stage.admin.apply(resources.DEVICES, device, manager="test")
    lease = manifests.lease(node, micro_time(dt.datetime.now(dt.UTC)))
    await stage.admin.apply(resources.LEASES, lease, manager="test")


async def reasons(stage: Stage) -> dict[str, str]:
    """Read what Devices say of themselves."""
    found = (await stage.devices()).items()
    return {name: one.get("status", {}).get("summary", {}).get("reason", "") for name, one in found}


@pytest.mark.slow
async def test_the_first_node_keeps_the_card_across_operators(stage: Stage) -> None:
    """A later claim is not given; the Devices tell of each other; the next operator knows who was first."""
    first, second = "first", "second"
    await stage.machines(kubelet.FakeNode(first), kubelet.FakeNode(second))
    await publish(stage, first, SHARED, "GPU-first")
    operator = await stage.deciding_operator(*USUAL)
    await stage.until_ready(first)
    await publish(stage, second, SHARED, "GPU-second")
    await stage.until_ready(second)

    async def told() -> bool:
        said = await reasons(stage)
        return second in said[first] and f"reported by {first} first" in said[second]

    await stage.until("both Devices to tell of each other", told)
    await stage.waiting_pod(
        manifests.pod("pair", 2, nodeSelector={"kubernetes.io/hostname": second}),
        "1 has cards whose UUID another node reports too",
    )
    await stage.create(*(manifests.pod(f"a{at}") for at in range(4)))
    bound = await stage.until_bound("a0", "a1", "a2")
    await stage.until_told("a3", "2 have no free card")
    cards = {name: cards_of(one) for name, one in (await stage.pods()).items()}

    operator.kill()
    await stage.delete("pair", "a0", "a1", "a2", "a3")
    await stage.deciding_operator(*USUAL)
    await stage.until_ready(first, second)
    await stage.create(*(manifests.pod(f"b{at}") for at in range(4)))
    again = await stage.until_bound("b0", "b1", "b2")
    await stage.until_told("b3", "2 have no free card")

    assert sorted(bound.values()) == [first, first, second]
    assert sorted(card for found in cards.values() for card in found) == ["GPU-first", SHARED, "GPU-second"]
    assert sorted(again.values()) == [first, first, second]
    assert (await stage.devices())[first]["status"]["claims"] == ["GPU-first", SHARED]
