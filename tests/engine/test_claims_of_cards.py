"""Cards that a driver of claims or a device plugin of another name gave: what the agent says is charged."""

from collections.abc import Mapping
from typing import Any, Final

import pytest

from berth_crds import wire
from berth_operator.engine.ledger import Ledger
from berth_operator.translate import raw
from support import builders, inventories, ledgers

CLAIMS: Final[Mapping[str, Any]] = {"resourceClaims": [{"name": "card", "resourceClaimName": "card"}]}
ELSEWHERE: Final[Mapping[str, Any]] = {
    "nodeName": "n1",
    "schedulerName": "default-scheduler",
    "phase": "Running",
}


def bound(requests: Mapping[str, object] = {}, **fields: Any) -> raw.Pod:
    """Return a pod that another scheduler bound, whose kubelet admitted it."""
    container = builders.asking("main", requests)
    return builders.admitted(builders.pod("p", containers=[container], **{**ELSEWHERE, **fields}))


CLAIMING: Final = bound(**CLAIMS)


def said(*minors: int, at: str = "n1", uid: str = "uid-p") -> wire.GpuPod:
    """Return the GpuPod of the pod, which names these cards."""
    return builders.gpupod(at=at, uid=uid, main=list(minors))


def free(ledger: Ledger) -> int:
    """Return how many cards can be given."""
    return inventories.free_cards(ledger.inventory)


@pytest.mark.parametrize("late", [False, True], ids=["the pod first", "the GpuPod first"])
@pytest.mark.parametrize(
    ("pod", "gpupod", "cards"),
    [
        pytest.param(CLAIMING, said(2), [2], id="a claim"),
        pytest.param(CLAIMING, said(1, 3), [1, 3], id="a claim of two cards"),
        pytest.param(bound({"acme.com/gpu": 2}), said(0, 1), [0, 1], id="a plugin of another name"),
        pytest.param(bound({"acme.com/gpu": 1}), said(0, 1), [], id="more than the pod asks for"),
        pytest.param(bound({"cpu": 4, "hugepages-2Mi": "2Mi"}), said(0), [], id="nothing that brings cards"),
        pytest.param(CLAIMING, said(2, at="n2"), [], id="an agent of another node"),
        pytest.param(CLAIMING, said(2, uid="another"), [], id="another pod"),
    ],
)
def test_cards_that_the_agent_names_are_charged_to_their_holder(
    pod: raw.Pod, gpupod: wire.GpuPod, cards: list[int], *, late: bool
) -> None:
    """They are given to nobody else, and the pod is known as the one that holds them."""
    ledger = ledgers.with_nodes()
    ledgers.in_turn(
        lambda: ledgers.pod_seen(ledger, pod), lambda: ledgers.gpupod_seen(ledger, gpupod), late=late
    )

    assert ledgers.holding(ledger) == (cards, 0)
    assert free(ledger) == 4 - len(cards)


def test_no_card_is_kept_back_for_a_claim_that_no_agent_speaks_of() -> None:
    """A claim may be for anything, such as a network device: only the agent knows that it brought a card."""
    ledger = ledgers.with_nodes()

    ledgers.pod_seen(ledger, CLAIMING)

    assert free(ledger) == 4


def test_they_are_free_when_the_agent_or_the_pod_says_so() -> None:
    """When other cards are named, when the GpuPod goes, and when the pod ends."""
    ledger = ledgers.with_nodes()
    ledgers.pod_seen(ledger, CLAIMING)
    found = []
    for gpupod in (said(2), said(0, 1), said(3)):
        ledgers.gpupod_seen(ledger, gpupod)
        found.append(free(ledger))
    ledger.gpupod_gone("ml/p")
    found.append(free(ledger))
    ledgers.gpupod_seen(ledger, said(2))
    found.append(free(ledger))
    ledgers.pod_seen(ledger, None, "uid-p")
    found.append(free(ledger))

    assert found == [3, 2, 3, 4, 3, 4]


def test_pod_of_berth_holds_what_its_bind_says_whatever_it_claims() -> None:
    """A record of Berth's is not replaced by what its GpuPod copies."""
    ledger = ledgers.with_nodes()
    record = builders.record(main=[0])
    pod = builders.admitted(builders.pod("p", gpus=1, nodeName="n1", annotations=record, **CLAIMS))

    ledgers.pod_seen(ledger, pod)
    ledgers.gpupod_seen(ledger, said(0))

    assert ledgers.holding(ledger) == ([0], 0)
    assert free(ledger) == 3
