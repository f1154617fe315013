"""What pods and nodes only prefer, by objects as people write them."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from berth_crds import names
from berth_crds.client import resources
from e2e.stage import Stage, pod
from support import kubelet

pytestmark = pytest.mark.usefixtures("leader", "fragmentation")

IMAGE = "registry.example.com/training/large:1"


@pytest.fixture
async def fragmentation(stage: Stage) -> AsyncIterator[None]:
    """Have the strategy of the policy not care how full the cards of a node are."""
    await stage.patch(resources.POLICIES, names.DEFAULT_POLICY, {"spec": {"strategy": "fragmentation"}})
    yield
    await stage.patch(resources.POLICIES, names.DEFAULT_POLICY, {"spec": {"strategy": "binpack"}})


async def test_preferences_choose_among_nodes_that_fit(stage: Stage) -> None:
    """A zone, a soft taint, an image: each decides where all else is equal, and none keeps a pod waiting."""
    zones = {"wish-a": "a", "wish-b": "b", "wish-c": "c"}
    soft = {"key": "slow", "effect": "PreferNoSchedule"}
    await stage.machines(
        *(
            kubelet.FakeNode(name, {"zone": zone}, taints=(soft,) if zone == "a" else ())
            for name, zone in zones.items()
        )
    )
    image = {"names": [IMAGE], "sizeBytes": 9 << 30}
    await stage.patch(resources.NODES, "wish-c", {"status": {"images": [image]}}, sub="status")
    await stage.agent(**dict.fromkeys(zones, "2xT4"))
    await stage.until_ready(*zones)

    in_b = {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["b"]}]}
    terms = {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 10, "preference": in_b}]}
    wish: dict[str, Any] = {"affinity": {"nodeAffinity": terms}}
    large = pod("image")
    large["spec"]["containers"][0]["image"] = IMAGE
    await stage.placed(large)
    await stage.placed(pod("zone", **wish))
    await stage.placed(pod("zone-again", **wish))
    await stage.placed(pod("plain"))
    # Zone b is full now, and zone c has no card left: of what is tainted softly the pod gets what it needs.
    await stage.placed(pod("last", 2, **wish))

    assert await stage.bound() == {
        "zone": "wish-b",
        "image": "wish-c",
        "zone-again": "wish-b",
        "plain": "wish-c",
        "last": "wish-a",
    }


def wish(kind: str, app: str) -> dict[str, Any]:
    """Write a preferred term about the pods of an application in the zone, as a part of an affinity."""
    term = {"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": app}}}
    return {
        kind: {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 10, "podAffinityTerm": term}]}
    }


async def test_preferences_about_other_pods(stage: Stage) -> None:
    """Near, away and spread, by what the pod says or a pod there says of it; none keeps it waiting."""
    zones = {"other-a": "a", "other-b": "b", "other-c": "c"}
    await stage.machines(*(kubelet.FakeNode(name, {"zone": zone}) for name, zone in zones.items()))
    await stage.agent(**dict.fromkeys(zones, "2xT4"))
    await stage.until_ready(*zones)
    evenly = {
        "maxSkew": 1,
        "topologyKey": "zone",
        "whenUnsatisfiable": "ScheduleAnyway",
        "labelSelector": {"matchLabels": {"app": "web"}},
    }

    await stage.placed(labelled("web", "web"))
    apart = wish("podAntiAffinity", "web") | wish("podAffinity", "guest")
    await stage.placed(pod("away", affinity=apart))
    await stage.placed(labelled("guest", "guest"))
    # Zone b is full now, and the pods of web are in zone a.
    await stage.placed(labelled("spread", "web", topologySpreadConstraints=[evenly]))
    await stage.placed(pod("near", affinity=wish("podAffinity", "guest")))

    assert await stage.bound() == {
        "web": "other-a",
        "away": "other-b",
        "guest": "other-b",
        "spread": "other-c",
        "near": "other-a",
    }


def labelled(name: str, app: str, **spec: Any) -> dict[str, Any]:
    """Write a pod of an application."""
    found = pod(name, **spec)
    found["metadata"]["labels"] = {"app": app}
    return found
