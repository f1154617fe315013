"""Claims: what is wrong with one keeps its pods waiting, and is told as kube-scheduler tells it."""

from collections.abc import Iterable
from typing import Any, Final

import pytest

from berth_operator.engine import paced_calls, volume_events
from berth_operator.scheduling.decisions import ClusterEvent, Wait
from berth_operator.scheduling.inventory import Inventory
from berth_operator.scheduling.volumes import index
from scheduling.volume_scenes import (
    ALL,
    DELETED,
    EPHEMERAL,
    HERE,
    LATE,
    LOCAL,
    ONLY_A,
    OWNED,
    SOON,
    cluster,
    feasible,
    told,
)
from support import builders, clock, ledgers
from support import volumes as make

# ---------------------------------------------------------------- pods that wait whatever the nodes are

ONCE: Final = ("ReadWriteOncePod",)


def among(values: Iterable[str]) -> dict[str, Any]:
    """Write a selector of volumes whose label has one of these values."""
    return {"matchExpressions": [{"key": "disk", "operator": "In", "values": list(values)}]}


FAULTS: Final[dict[str, tuple[tuple[make.Object, ...], dict[str, Any], str]]] = {
    "no such claim": ((), {}, 'persistentvolumeclaim "data" not found'),
    "a claim that is lost": (
        (make.claim(volume="v", phase="Lost"),),
        {},
        'persistentvolumeclaim "data" bound to non-existent persistentvolume',
    ),
    "a claim that is being deleted": (
        (make.claim(volume="v", meta=DELETED), make.volume(claimed="data")),
        {},
        'persistentvolumeclaim "data" is being deleted',
    ),
    "a claim whose volume does not exist": (
        (make.claim(volume="v"),),
        {},
        'persistentvolumeclaim "data" bound to non-existent persistentvolume',
    ),
    "a claim that does not wait for its pod and has no volume": (
        (make.claim(storage_class="soon"), SOON),
        {},
        'pod has unbound immediate PersistentVolumeClaims (persistentvolumeclaim "data")',
    ),
    "a claim of no class": (
        (make.claim(storage_class=""),),
        {},
        'pod has unbound immediate PersistentVolumeClaims (persistentvolumeclaim "data")',
    ),
    "a claim of a class that does not exist": (
        (make.claim(storage_class="gone"),),
        {},
        'pod has unbound immediate PersistentVolumeClaims (persistentvolumeclaim "data")',
    ),
    "a claim that names its volume and is not bound yet": (
        (make.claim(volume="v", bound=False), LATE, make.volume()),
        {},
        'pod has unbound immediate PersistentVolumeClaims (persistentvolumeclaim "data")',
    ),
    "an ephemeral claim that is not made yet": (
        (),
        EPHEMERAL,
        'waiting for ephemeral volume controller to create the persistentvolumeclaim "data"',
    ),
    "an ephemeral claim of somebody else": (
        (make.claim(), LATE),
        EPHEMERAL,
        'persistentvolumeclaim "data" was not created for this pod (pod is not owner)',
    ),
    "a claim that selects by too many values": (
        (make.claim(selector=among(f"v{at}" for at in range(65))), LATE),
        {},
        'persistentvolumeclaim "data" says more in its selector than Berth reads',
    ),
    "a claim that selects by too long a text": (
        (make.claim(selector=among("v" * 60 for _ in range(20))), LATE),
        {},
        'persistentvolumeclaim "data" says more in its selector than Berth reads',
    ),
    "a claim that selects by far too much": (
        (make.claim(selector={"matchLabels": {f"k{at}": "v" for at in range(17)}}), LATE),
        {},
        'persistentvolumeclaim "data" says more in its selector than Berth reads',
    ),
}


@pytest.mark.parametrize(("objects", "how", "sentence"), FAULTS.values(), ids=FAULTS.keys())
def test_a_pod_waits_with_a_sentence_about_its_claim(
    objects: tuple[make.Object, ...], how: dict[str, Any], sentence: str
) -> None:
    """It is the same on all nodes, so nothing else is told; and a change of the claim has it tried again."""
    inventory = cluster(*objects)

    assert told(inventory, make.using("data", **how)) == f"{HERE}{sentence}"
    ledger = ledgers.with_nodes(1)
    make.put(ledger.inventory.volumes, *objects)
    ledger.pod_waiting(make.using("data", **how), gated=False)
    (wait,) = ledgers.decide(ledger)
    assert isinstance(wait, Wait)
    assert ClusterEvent.VOLUME_CHANGED in (wait.awaited or ())


def test_an_ephemeral_claim_of_the_pod_is_as_good_as_any() -> None:
    """It was made for this very pod."""
    assert feasible(cluster(make.claim(meta=OWNED), LATE), make.using("data", **EPHEMERAL)) == ALL


def test_nothing_is_decided_before_the_claims_have_been_read() -> None:
    """A pod with claims waits; others do not."""
    inventory = cluster()
    inventory.volumes = index.Volumes()

    assert told(inventory, make.using("data")).startswith(f"{HERE}the claims of pods have not been read")
    assert feasible(inventory, builders.pod_info()) == ALL


# ---------------------------------------------------------------- what is told of nodes

HELP: Final = " Would fit on 4 nodes if it did not use the claim data."
SENTENCES: Final[dict[str, tuple[tuple[make.Object | str, ...], str]]] = {
    "a volume elsewhere": (
        (make.claim(volume="v"), make.volume(claimed="data", host="gone")),
        "4 do not match the node affinity of the volume of claim data.",
    ),
    "a zone elsewhere": (
        (make.claim(volume="v"), make.volume(claimed="data", labels={make.ZONE: "a"}, host="n2")),
        (
            "3 do not match the node affinity of the volume of claim data; "
            "1 is in another zone than the volume of claim data."
        ),
    ),
    "too little storage": (
        (make.claim(size="11Gi"), LATE, make.DRIVER, make.capacity(nodeTopology={})),
        "4 have not enough free storage for claim data (11 GiB wanted).",
    ),
    "no volume": (
        (make.claim(storage_class=make.LOCAL), LOCAL),
        "4 have no available persistent volume for claim data.",
    ),
    "another zone than the class allows": (
        (make.selected(node="n2"), make.storage_class(allowedTopologies=ONLY_A)),
        (
            "3 cannot be chosen any more: a volume of the pod is being made for n2; "
            "1 is outside the allowedTopologies of the StorageClass of claim data."
        ),
    ),
}


@pytest.mark.parametrize(("objects", "sentence"), SENTENCES.values(), ids=SENTENCES.keys())
def test_each_node_is_told_why_it_does_not_do(objects: tuple[make.Object | str, ...], sentence: str) -> None:
    """With the claim, with figures where it is about how much there is, and with what would help."""
    assert told(cluster(*objects), make.using("data")) == f"{HERE}{sentence}{HELP}"


# ---------------------------------------------------------------- one pod at a time


def shared(*modes: str) -> Inventory:
    """Return a cluster in which a pod on n1 uses the claim."""
    inventory = cluster(make.claim(volume="v", modes=modes), make.volume(claimed="data", modes=modes))
    inventory.charge(builders.hold("first", "n1", claims=make.using("data").demand.claims))
    return inventory


def test_a_claim_of_one_pod_refuses_a_second_one_wherever_it_would_run() -> None:
    """Other access modes let several pods use a claim."""
    assert feasible(shared("ReadWriteOnce"), make.using("data")) == ALL

    inventory = shared(*ONCE)

    assert told(inventory, make.using("data")) == (
        f'{HERE}persistentvolumeclaim "data" has the access mode ReadWriteOncePod and is already in use by '
        "another pod. Would fit if ml/first on n1 terminated."
    )
    inventory.release("uid-first")
    assert feasible(inventory, make.using("data")) == ALL


def test_the_end_of_the_pod_that_has_the_claim_wakes_the_one_that_waits() -> None:
    """And no pod without that claim."""
    ledger = ledgers.with_nodes(2)
    make.put(
        ledger.inventory.volumes,
        make.claim(volume="v", modes=ONCE),
        make.volume(claimed="data", modes=ONCE),
    )
    ledger.pod_bound(builders.hold("first", "n1", claims=make.using("data").demand.claims))
    for name, claim in (("second", "data"), ("stranger", "other")):
        ledger.pod_waiting(make.using(claim, name=name), gated=False)
        ledgers.requeue(ledger, name, ClusterEvent.VOLUME_CHANGED)

    ledger.pod_over("uid-first")

    assert ledgers.ready_names(ledger) == ["second"]


@pytest.mark.parametrize(
    "field", [{"volume": "v" * 254}, {"volume": "v", "storage_class": "c" * 254}], ids=["volume", "class"]
)
def test_a_name_that_is_longer_than_any_takes_no_memory(field: dict[str, Any]) -> None:
    """Anybody may write a megabyte into a claim; the beginning of it stands for no object of that name."""
    short = {key: value[:253] for key, value in field.items()}

    long_claim, claim = make.claim(**field), make.claim(**short)

    found, meant = (one.volume + one.storage_class for one in (long_claim, claim))
    assert found != meant
    assert len(found) == len(meant) + 1


def test_a_claim_that_is_edited_again_and_again_wakes_pods_a_few_times_only() -> None:
    """Whoever may edit it keeps no other pod from being tried; its last state counts soon."""
    now = clock.Clock()
    ledger = ledgers.with_nodes(1, now=now)
    ledger.pod_waiting(make.using("data"), gated=False)
    woken = 0
    for at in range(3 * paced_calls.CALLS_IN_A_ROW):
        ledgers.requeue(ledger, "p", ClusterEvent.VOLUME_CHANGED)
        make.put(ledger.inventory.volumes, make.claim(volume=f"v{at}"))
        woken += len(ledgers.ready_names(ledger))

    make.put(ledger.inventory.volumes, make.claim("other", volume="v"))
    now.advance(paced_calls.SECONDS_BETWEEN_CALLS)
    ledger.paced_calls.make_delayed()

    assert woken == paced_calls.CALLS_IN_A_ROW
    assert ledgers.ready_names(ledger) == ["p"]


def test_claims_of_a_crowd_wake_it_together_and_none_too_often() -> None:
    """Whoever edits many claims that the same pods use has them woken as seldom as by one of them."""
    now = clock.Clock()
    ledger, names = ledgers.with_nodes(1, now=now), [f"c{at}" for at in range(4)]
    crowd = [f"p{at}" for at in range(volume_events.FEW_PODS + 1)]
    for name in crowd:
        ledger.pod_waiting(make.using(*names, name=name), gated=False)
    woken = 0
    for at in range(3 * paced_calls.CALLS_IN_A_ROW):
        for name in crowd:
            ledgers.requeue(ledger, name, ClusterEvent.VOLUME_CHANGED)
        make.put(ledger.inventory.volumes, make.claim(names[at % len(names)], volume=f"v{at}"))
        woken += len(ledgers.ready_names(ledger))

    now.advance(paced_calls.SECONDS_BETWEEN_CALLS)
    ledger.paced_calls.make_delayed()

    assert woken == paced_calls.CALLS_IN_A_ROW * len(crowd)
    assert sorted(ledgers.ready_names(ledger)) == sorted(crowd)
