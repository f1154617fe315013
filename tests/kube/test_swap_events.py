"""A pod that was given other cards than it was promised has an Event that says which."""

import msgspec

from berth_crds import wire
from berth_operator.kube import events, swap_events
from support import builders, ledgers

POD = builders.admitted(
    builders.pod("p", gpus=1, nodeName="n1", phase="Running", annotations=builders.record(main=[0]))
)


def said(*minors: int) -> wire.GpuPod:
    """Return what the kubelet gave to a pod that was promised card 0."""
    grants = (wire.Grant("main", tuple(builders.uuid("n1", minor) for minor in minors), "podresources"),)
    status = wire.GpuPodStatus(phase="Running", granted=grants)
    return msgspec.structs.replace(builders.gpupod(main=[0], uid="uid-p"), status=status)


def test_each_swap_is_told_once() -> None:
    """And again when the pod has still other cards; nothing is told of what is as promised."""
    recorded: list[events.Event] = []
    swaps, ledger = swap_events.SwapEvents(recorded.append), ledgers.with_nodes()
    ledgers.pod_seen(ledger, POD)

    for turn, gpupod in enumerate((said(0), said(2), said(2), said(3), said(0), said(3))):
        ledgers.gpupod_seen(ledger, gpupod)
        swaps.report(ledger, turn * swap_events.AGAIN_SECONDS)

    assert [one.message.split(" in place")[0] for one in recorded] == [
        f"The kubelet of n1 gave it {builders.uuid('n1', minor)}" for minor in (2, 3, 3)
    ]
    assert {(one.involved.namespace, one.involved.name, one.involved.uid) for one in recorded} == {
        ("ml", "p", "uid-p")
    }
    assert {(one.reason, one.warning) for one in recorded} == {("GivenOtherwise", True)}


def test_what_an_agent_says_again_and_again_is_told_seldom() -> None:
    """Each time other cards, twice a minute for an hour: each Event would be one more object."""
    recorded: list[events.Event] = []
    swaps, ledger = swap_events.SwapEvents(recorded.append), ledgers.with_nodes()
    ledgers.pod_seen(ledger, POD)

    for turn in range(120):
        ledgers.gpupod_seen(ledger, said(1 + turn % 7))
        swaps.report(ledger, turn * 30.0)

    assert len(recorded) == 6


def test_of_many_cards_some_are_named() -> None:
    """An Event takes a thousand characters."""
    recorded: list[events.Event] = []
    swaps, ledger = swap_events.SwapEvents(recorded.append), ledgers.with_nodes()
    ledgers.pod_seen(ledger, POD)

    ledgers.gpupod_seen(ledger, said(*range(1, 13)))
    swaps.report(ledger, 0.0)

    (event,) = recorded
    assert " and 4 more in place of the cards of its allocation" in event.message
    assert len(event.message) < 1024
