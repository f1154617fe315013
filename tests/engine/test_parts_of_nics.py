"""Virtual functions and parts of NICs are free when their pod ends, and the next pod gets them (I5)."""

import dataclasses
from collections.abc import Iterator
from typing import Final

import pytest

from berth_crds import names
from berth_operator.engine.ledger import Ledger
from berth_operator.scheduling import decisions
from berth_operator.scheduling.devices.device_facts import PhysicalDevice
from berth_operator.translate import raw
from support import builders, ledgers

BUS: Final = builders.function(0, 0).bus
WITH_FUNCTION: Final = builders.nic(0, functions=1)
PLAIN: Final = builders.nic(0)


def asking(name: str, percent: int) -> raw.Pod:
    """Return a pod of Berth's that asks for a part of a NIC."""
    return builders.pod(name, containers=[builders.asking("main", {names.RDMA: percent})])


def bound(pod: raw.Pod, bind: decisions.Bind, phase: str = "Running") -> raw.Pod:
    """Return the same pod on its node, with what its Binding writes."""
    asked = pod.spec.containers[0].resources
    assert asked is not None
    asks = [builders.asking("main", asked.requests or {})]
    written = builders.answered(bind.placement)
    return builders.admitted(
        builders.pod(
            pod.metadata.name, containers=asks, annotations=written, nodeName=bind.placement.node, phase=phase
        )
    )


def binds(ledger: Ledger) -> Iterator[decisions.Bind]:
    """Yield the pods that fit now."""
    return (one for one in ledgers.decide(ledger) if isinstance(one, decisions.Bind))


def given(bind: decisions.Bind) -> tuple[str, str, int]:
    """Return the device, the function and the percent that a pod gets."""
    (share,) = bind.placement.grants[0].shares
    return share.uuid, share.function, share.core


CASES: Final = {
    "the only virtual function": (WITH_FUNCTION, 10, (WITH_FUNCTION.uuid, BUS, 10)),
    "a part of which too little is left": (PLAIN, 60, (PLAIN.uuid, "", 60)),
    "all of it": (PLAIN, 100, (PLAIN.uuid, "", 100)),
}


@pytest.mark.parametrize("is_deleted", [True, False], ids=["deleted", "succeeded"])
@pytest.mark.parametrize("is_restarted", [True, False], ids=["a new leader", "the same leader"])
@pytest.mark.parametrize(("nic", "percent", "expected"), CASES.values(), ids=CASES)
def test_the_next_pod_gets_what_the_one_before_had(
    nic: PhysicalDevice, percent: int, expected: tuple[str, str, int], *, is_deleted: bool, is_restarted: bool
) -> None:
    """While the first one runs, the second waits; then the second is tried, and gets the very same."""
    ledger = with_nic(nic)
    first, second = asking("first", percent), asking("second", percent)
    ledgers.pod_seen(ledger, first)
    held = ledgers.assume(ledger, "first")
    running = bound(first, held)
    if is_restarted:
        ledger = with_nic(nic)
    ledgers.pod_seen(ledger, running)
    ledgers.pod_seen(ledger, second)
    refused = list(binds(ledger))
    ledgers.requeue(ledger, "second", decisions.ClusterEvent.CAPACITY_FREED)
    asleep = ledgers.ready_names(ledger)

    over = None if is_deleted else bound(first, held, "Succeeded")
    ledgers.pod_seen(ledger, over, uid=first.metadata.uid)

    assert given(held) == expected
    assert (refused, asleep, ledgers.ready_names(ledger)) == ([], [], ["second"])
    (bind,) = binds(ledger)
    assert (bind.uid, given(bind)) == (second.metadata.uid, expected)


def with_nic(nic: PhysicalDevice) -> Ledger:
    """Return a ledger of a node with this NIC."""
    ledger = ledgers.with_nodes()
    ledger.device_seen(builders.device("n1", others=[nic]))
    return ledger


def test_a_function_that_a_damaged_record_named_is_free_when_both_pods_have_ended() -> None:
    """Two records may name one function: then it is free with the end of the last, and not before."""
    ledger = with_nic(WITH_FUNCTION)
    first = asking("first", 10)
    ledgers.pod_seen(ledger, first)
    held = ledgers.assume(ledger, "first")
    for pod in (bound(first, held), bound(asking("twin", 10), dataclasses.replace(held, uid="uid-twin"))):
        ledgers.pod_seen(ledger, pod)
    ledgers.pod_seen(ledger, asking("next", 10))
    found = []

    for uid in ("uid-first", "uid-twin"):
        ledgers.pod_seen(ledger, None, uid=uid)
        found.append([given(one)[1] for one in binds(ledger)])

    assert found == [[], [BUS]]
