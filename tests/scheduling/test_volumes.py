"""Volumes: a pod goes where its claims can be reached or made, by the rules of kube-scheduler."""

from typing import Any, Final

import pytest

from berth_operator.scheduling.decisions import Wait
from berth_operator.scheduling.nodes import facts
from berth_operator.scheduling.search import Search
from scheduling.placements import RULES, place
from scheduling.volume_scenes import (
    ALL,
    DELETED,
    HOST,
    IN_A,
    LATE,
    LOCAL,
    NODES,
    OLD_ZONE,
    ONLY_A,
    REGION,
    cluster,
    feasible,
)
from support import builders, ledgers
from support import volumes as make

# ---------------------------------------------------------------- where a pod may go

PLACED: Final[dict[str, tuple[tuple[make.Object | str, ...], tuple[str, ...]]]] = {
    "a volume that any node can reach": ((make.claim(volume="v"), make.volume(claimed="data")), ALL),
    "a volume of one zone": (
        (make.claim(volume="v"), make.volume(claimed="data", zone="a")),
        ("n1",),
    ),
    "a volume of one node": (
        (make.claim(volume="v"), make.volume(claimed="data", host="n3")),
        ("n3",),
    ),
    "an old volume of a zone, which nodes without zones can reach": (
        (make.claim(volume="v"), make.volume(claimed="data", labels={make.ZONE: "b"})),
        ("n2", "n3"),
    ),
    "a very old volume, whose label newer nodes have by another name": (
        (make.claim(volume="v"), make.volume(claimed="data", labels={OLD_ZONE: "a"})),
        ("n1", "n3", "n4"),
    ),
    "an old volume of several zones": (
        (make.claim(volume="v"), make.volume(claimed="data", labels={make.ZONE: "a__b"})),
        ("n1", "n2", "n3"),
    ),
    "a zone that cannot be read": (
        (make.claim(volume="v"), make.volume(claimed="data", labels={make.ZONE: "a__"})),
        ALL,
    ),
    "a region that no node tells": (
        (make.claim(volume="v"), make.volume(claimed="data", labels={REGION: "r"})),
        ("n3",),
    ),
    "a claim that waits, of a class without conditions": ((make.claim(), LATE), ALL),
    "a claim by the old annotation of its class": (
        (
            make.claim(storage_class="", annotations={"volume.beta.kubernetes.io/storage-class": make.LATE}),
            LATE,
        ),
        ALL,
    ),
    "a class that makes volumes in one zone": (
        (make.claim(), make.storage_class(allowedTopologies=ONLY_A)),
        ("n1",),
    ),
    "a class with a topology that names nothing": (
        (make.claim(), make.storage_class(allowedTopologies=[{"matchLabelExpressions": []}])),
        (),
    ),
    "a node that is selected": ((make.selected(node="n2"), LATE), ("n2",)),
    "a node that is selected and gone": ((make.selected(node="gone"), LATE), ()),
    "capacity in one zone": (
        (make.claim(size="5Gi"), LATE, make.DRIVER, make.capacity(nodeTopology=IN_A)),
        ("n1",),
    ),
    "capacity everywhere": (
        (make.claim(size="5Gi"), LATE, make.DRIVER, make.capacity(nodeTopology={})),
        ALL,
    ),
    "capacity that is too small": (
        (make.claim(size="11Gi"), LATE, make.DRIVER, make.capacity(nodeTopology={})),
        (),
    ),
    "capacity that is just enough": (
        (make.claim(size="10Gi"), LATE, make.DRIVER, make.capacity(nodeTopology={})),
        ALL,
    ),
    "volumes that may not be as large": (
        (
            make.claim(size="5Gi"),
            LATE,
            make.DRIVER,
            make.capacity(nodeTopology={}, maximumVolumeSize="4Gi"),
        ),
        (),
    ),
    "capacity that is about no node": ((make.claim(), LATE, make.DRIVER, make.capacity()), ()),
    "capacity that is not told": (
        (make.claim(), LATE, make.DRIVER, make.capacity(size=None, nodeTopology={})),
        (),
    ),
    "capacity of another class": (
        (make.claim(), LATE, make.DRIVER, make.capacity(storage_class="other", nodeTopology={})),
        (),
    ),
    "a driver that does not tell capacities": ((make.claim(size="11Gi"), LATE, make.capacity()), ALL),
    "capacities node by node": (
        (
            make.claim(),
            LATE,
            make.DRIVER,
            make.capacity("c1", nodeTopology={"matchLabels": {HOST: "n2"}}),
            make.capacity("c2", nodeTopology={"matchLabels": {HOST: "n3"}}),
            make.capacity("c3", "1Mi", nodeTopology={"matchLabels": {HOST: "n4"}}),
        ),
        ("n2", "n3"),
    ),
    "a local volume": (
        (make.claim(storage_class=make.LOCAL), LOCAL, make.volume(storage_class=make.LOCAL, host="n2")),
        ("n2",),
    ),
    "local volumes of two nodes": (
        (
            make.claim(storage_class=make.LOCAL),
            LOCAL,
            make.volume("v1", storage_class=make.LOCAL, host="n2"),
            make.volume("v2", storage_class=make.LOCAL, host="n4"),
        ),
        ("n2", "n4"),
    ),
    "a volume that exists, or else one that is made in another zone": (
        (make.claim(), make.storage_class(allowedTopologies=ONLY_A), make.volume(host="n2")),
        ("n1", "n2"),
    ),
}


@pytest.mark.parametrize(("objects", "nodes"), PLACED.values(), ids=PLACED.keys())
def test_a_pod_may_go_exactly_where_its_volume_can_be(
    objects: tuple[make.Object | str, ...], nodes: tuple[str, ...]
) -> None:
    """On all other nodes it is refused, and so it is by the search itself."""
    inventory = cluster(*objects)

    assert feasible(inventory, make.using("data")) == nodes
    found = place(inventory, make.using("data"))
    assert (found.node if found is not None else None) == (nodes[0] if nodes else None)


# A local volume that differs in one thing from what the claim asks for, and whether it does all the same.
SUITING: Final[dict[str, tuple[dict[str, Any], dict[str, Any], bool]]] = {
    "a larger one": ({}, {"size": "2Gi"}, True),
    "a smaller one": ({}, {"size": "1Mi"}, False),
    "more access modes": ({}, {"modes": ("ReadWriteOnce", "ReadOnlyMany")}, True),
    "another access mode": ({}, {"modes": ("ReadOnlyMany",)}, False),
    "another class": ({}, {"storage_class": make.LATE}, False),
    "a block volume": ({}, {"volumeMode": "Block"}, False),
    "a block volume that is asked for": ({"volumeMode": "Block"}, {"volumeMode": "Block"}, True),
    "the labels that are selected": (
        {"selector": {"matchLabels": {"tier": "gold"}}},
        {"labels": {"tier": "gold"}},
        True,
    ),
    "labels that are not selected": ({"selector": {"matchLabels": {"tier": "gold"}}}, {}, False),
    "another attributes class": ({"volumeAttributesClassName": "fast"}, {}, False),
    "one of another claim": ({}, {"claimed": "other"}, False),
    "one that is meant for the claim": ({}, {"claimed": "data", "phase": "Available"}, True),
    "one that is meant for a claim of that name": ({}, {"claimed": "data", "uid": ""}, True),
    "one of a claim of that name that is gone": ({}, {"claimed": "data", "uid": "other"}, False),
    "one that is released": ({}, {"phase": "Released"}, False),
    "one that is being deleted": ({}, {"meta": DELETED}, False),
}


@pytest.mark.parametrize(("asked", "there", "does"), SUITING.values(), ids=SUITING.keys())
def test_a_local_volume_does_if_it_is_what_the_claim_asks_for(
    asked: dict[str, Any], there: dict[str, Any], *, does: bool
) -> None:
    """By class, size, access modes, selector and mode; and it must be free."""
    volume = make.volume(**{"storage_class": make.LOCAL, "host": "n2"} | there)
    inventory = cluster(make.claim(storage_class=make.LOCAL, **asked), LOCAL, volume)

    assert feasible(inventory, make.using("data")) == (("n2",) if does else ())


def test_two_claims_of_a_pod_need_two_volumes_of_one_node() -> None:
    """A node with one volume does not do, though that would do for either claim."""
    claims = [make.claim(name, storage_class=make.LOCAL) for name in ("one", "two")]
    of_n1 = make.volume("v1", storage_class=make.LOCAL, host="n1")
    of_n2 = [make.volume(f"v{at}", storage_class=make.LOCAL, host="n2") for at in (2, 3)]

    inventory = cluster(*claims, LOCAL, of_n1, *of_n2)

    assert feasible(inventory, make.using("one", "two")) == ("n2",)
    assert feasible(inventory, make.using("one")) == ("n1", "n2")


def test_the_smallest_volume_that_does_is_chosen_and_reserved() -> None:
    """The next pod of the same round gets another one, and the end of the first gives it back."""
    volumes = [
        make.volume("large", storage_class=make.LOCAL, host="n1", size="4Gi"),
        make.volume("small", storage_class=make.LOCAL, host="n1", size="2Gi"),
    ]
    claims = [make.claim(name, storage_class=make.LOCAL) for name in ("a", "b", "c")]
    ledger = ledgers.with_nodes(0)
    ledgers.join(ledger, builders.node("n1", labels=NODES["n1"]), builders.device("n1"))
    make.put(ledger.inventory.volumes, *claims, *volumes, LOCAL)
    for name in ("a", "b", "c"):
        ledger.pod_waiting(make.using(name, name=name), gated=False)

    for name, volume in (("a", "small"), ("b", "large")):
        ledgers.assume(ledger, name)
        assert ledger.inventory.volumes.assumed_volume(("ml", name)) == volume
    (wait,) = ledgers.decide(ledger)
    ledger.pod_over("uid-a")

    assert isinstance(wait, Wait)
    ledgers.assume(ledger, "c")
    assert ledger.inventory.volumes.assumed_volume(("ml", "c")) == "small"


# ---------------------------------------------------------------- what is remembered


def test_a_claim_that_changes_voids_what_is_remembered_of_nodes() -> None:
    """The same search answers by what is known now."""
    inventory = cluster(make.claim(volume="v"), make.volume(claimed="data", zone="a"))
    search, pod_info = Search(inventory), make.using("data")

    def node() -> str | None:
        found = search.place(pod_info.request, pod_info.demand, policy=RULES)
        return found.node if found is not None else None

    assert node() == "n1"
    inventory.volumes.put_volume(make.volume(claimed="data", zone="b"))
    assert node() == "n2"
    inventory.put_node(builders.node("n3", labels=NODES["n3"] | {make.ZONE: "b"}))
    inventory.volumes.put_volume(make.volume(claimed="data", host="n3"))
    assert node() == "n3"
    inventory.volumes.drop_claim(("ml", "data"))
    assert node() is None


def test_two_pods_of_one_round_do_not_choose_two_nodes_for_one_claim() -> None:
    """From the moment at which the first is assumed, the second goes to the same node, or waits."""
    ledger = ledgers.with_nodes(2, cards=1)
    make.put(ledger.inventory.volumes, make.claim(modes=("ReadWriteMany",)), LATE)
    for name in ("first", "second"):
        ledger.pod_waiting(make.using("data", name=name), gated=False)

    first, second = ledgers.decide(ledger)

    assert not isinstance(first, Wait)
    assert isinstance(second, Wait)
    assert {count.reason for count in second.counts} == {"VolumeElsewhere", "Full"}


def test_nothing_is_kept_of_volumes_that_are_gone() -> None:
    """Objects and pods that come and go leave nothing behind."""
    inventory = cluster(make.claim(storage_class=make.LOCAL), LOCAL)
    known, volume = inventory.volumes, make.volume(storage_class=make.LOCAL, host="n1")
    make.put(known, volume, make.capacity(), make.DRIVER)
    known.put_limits("n1", {make.DRIVER: 7})
    inventory.charge(builders.hold("p", "n1", claims=make.using("data").demand.claims))
    known.pass_over(("ml", "data"), "n1")

    inventory.release("uid-p")
    known.pass_over(("ml", "data"), "n1", passed=False)
    known.drop_claim(("ml", "data"))
    known.drop_volume("v")
    known.drop_class(make.LOCAL)
    known.drop_capacity(("storage", "c"))
    known.put_driver(make.DRIVER, tracks_capacity=False)
    known.put_limits("n1", {})

    assert not any(vars(known.attached).values())
    left = {
        name: value for name, value in vars(known).items() if isinstance(value, dict | frozenset) and value
    }
    assert left == {}


def test_pods_without_claims_ask_the_same_signature_as_before() -> None:
    """Whatever volumes there are: what is remembered of them stays."""
    inventory = cluster(make.claim(), LATE)
    search, pod_info = Search(inventory), builders.pod_info()
    search.place(pod_info.request, pod_info.demand, policy=RULES)
    (cached,) = search._cached
    score = cached.score

    inventory.volumes.put_claim(make.claim("new"))
    search.place(pod_info.request, pod_info.demand, policy=RULES)

    assert next(iter(search._cached)).score is score
    assert pod_info.demand == facts.NodeDemand(pod_info.demand.amounts)
