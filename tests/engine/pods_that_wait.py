"""Pods that wait for cards with more free memory than any has, and the reasons that they are given."""

import math
from collections.abc import Callable

from berth_operator.engine import ports, waiting_reasons
from berth_operator.engine.ledger import Ledger
from berth_operator.scheduling import decisions, explain, queued_pods
from berth_operator.scheduling.devices import requests
from berth_operator.scheduling.holds import Hold
from support import builders, ledgers

CORE = 10
WANTED = 60  # GiB of a card.


def use(node: str, gib: int, name: str) -> Hold:
    """Return a pod that holds so much of the only card of a node."""
    return builders.hold(name, node, [builders.share(0, at=node, core=CORE, memory=gib * builders.GIB)])


def crowded(ledger: Ledger) -> Ledger:
    """Leave 50 GiB on n1, 40 on n2 and 5 on any other node."""
    for info, (name, gib) in zip(ledger.inventory.each(), (("a", 30), ("b", 40), ("c", 75)), strict=False):
        ledger.pod_bound(use(info.name, gib, name))
    return ledger


def wait(ledger: Ledger, name: str = "p", gib: int = WANTED) -> queued_pods.PodInfo:
    """Have a pod wait for more than any card has left."""
    asks = builders.request(requests.Gpus(1, core=CORE, memory=gib * builders.GIB))
    return ledgers.add_waiting(ledger, name, request=asks)


def closely(ledger: Ledger, pod_info: queued_pods.PodInfo) -> str:
    """Return the reason that is true now, whatever time it takes."""
    return explain.sentence(explain.explain(ledger.search, pod_info, policy=ledger.policy), pod_info)


class Reasons:
    """Pods that wait in a ledger, and the reasons that are given of them."""

    def __init__(
        self,
        ledger: Ledger | None = None,
        pods: int = 1,
        *,
        shown: dict[str, str] | None = None,
        now: ports.Clock | None = None,
        cpu_clock: ports.Clock | None = None,
    ) -> None:
        self.ledger = ledger or crowded(ledgers.with_nodes(2, 1))
        self.pods = [wait(self.ledger, f"p{at}", WANTED + at) for at in range(pods)]
        shown_message: Callable[[str], str] = shown.__getitem__ if shown is not None else lambda _: ""
        self.found = waiting_reasons.WaitingReasons(
            self.ledger, shown_message, clock=now, cpu_clock=cpu_clock
        )

    def decided(self, *, until: float = math.inf) -> dict[str, str]:
        """Decide for all pods, and return the reason that is given of each."""
        answers = ledgers.decide(self.ledger, 1e6)
        self.found.new_round(until=until)
        given: dict[str, str] = {}
        for answer in answers:
            pod_info = self.ledger.backlog.get(answer.uid)
            assert isinstance(answer, decisions.Wait)
            assert pod_info is not None
            given[pod_info.name] = self.found.message(pod_info, answer)
        return given

    def renewed(self, now: float, *, until: float = math.inf) -> dict[str, str]:
        """Return the reasons that are given in a quiet round."""
        self.found.new_round(until=until)
        return {pod_info.name: message for pod_info, message in self.found.renewed(now)}

    def true(self) -> dict[str, str]:
        """Return the reasons that are true now."""
        return {pod.name: closely(self.ledger, pod) for pod in self.pods}

    def fill(self) -> None:
        """Leave 5 GiB on n1: the counts stay what they are."""
        self.ledger.pod_over("uid-a")
        self.ledger.pod_bound(use("n1", 75, "filled"))


def alike(count: int) -> Reasons:
    """Return pods that all ask the same, and have been told why they wait."""
    reasons = Reasons(pods=0)
    reasons.pods = [wait(reasons.ledger, f"p{at}") for at in range(count)]
    reasons.decided()
    return reasons
