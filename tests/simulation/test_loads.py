"""The measured load of cards in Leases that are given to `place`."""

import pytest

from berth_crds import names
from simulation import simulator
from support import manifests

EARLY, LATE = "2026-03-02T08:00:00.000000Z", "2026-03-02T08:02:00.000000Z"
BUSY = "v1 0:95,0,0,80,1024 1:95,0,0,80,1024 2:0,0,0,5,15360 3:95,0,0,80,1024"


@pytest.mark.parametrize(
    ("renewed", "text", "load", "found"),
    [
        pytest.param(LATE, BUSY, {}, ("n2", "2"), id="the idle card of a node"),
        pytest.param(EARLY, BUSY, {}, ("n2", "0"), id="a load that is too old"),
        pytest.param(LATE, "rubbish", {}, ("n2", "0"), id="a load that cannot be read"),
        pytest.param(
            LATE, BUSY, {"source": "prometheus"}, ("n1", "0"), id="loads that Prometheus would have"
        ),
    ],
)
def test_loads_of_leases_count_by_a_policy(
    renewed: str, text: str, load: dict[str, str], found: tuple[str, str]
) -> None:
    """As in the operator, by the newest Lease."""
    rules = {"strategy": "weighted", "weights": {"utilization": 100}, "agents": {"graceSeconds": 600}}
    rules["load"] = load
    leases = [simulator.lease("n1", LATE), simulator.lease("n2", renewed)]
    leases[0]["metadata"]["annotations"] = {names.LOAD: BUSY.replace("2:0,", "2:20,")}
    leases[1]["metadata"]["annotations"] = {names.LOAD: text}
    policy = manifests.own("PlacementPolicy", "default", spec=rules)

    (answer,) = simulator.place(
        *simulator.both("n1"), *simulator.both("n2"), *leases, policy, simulator.pod("p")
    )

    (share,) = answer["allocation"]["containers"]["main"]["gpu"]
    assert (answer["node"], str(share["minor"])) == found
