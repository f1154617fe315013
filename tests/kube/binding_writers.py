"""Writers of a term, for tests of what becomes of their binds."""

import time

from berth_crds.client import api
from berth_operator.engine import ports
from berth_operator.engine.ledger import Ledger
from berth_operator.kube import binding_writer
from berth_operator.scheduling import decisions, queued_pods
from berth_operator.translate import pods as reading
from support import clock, pods, writers

TERM = "op-1_abcd/7"
NODE = "writer-node"


class Lead(writers.Lead):
    """A lead that counts how often it was doubted."""

    def __init__(self) -> None:
        self.leading = True
        self.doubts = 0

    def leads(self) -> bool:
        """Whether the lead is ours."""
        return self.leading

    def doubt(self) -> None:
        """Count."""
        self.doubts += 1


class Writer(binding_writer.BindingWriter):
    """A writer of a term, with its lead and its clock."""

    def __init__(self, session: api.Api, ledger: Ledger | None = None, lead: Lead | None = None) -> None:
        self.time = clock.Clock()
        self.lead = lead or Lead()
        leader = binding_writer.Leader(
            leads=self.lead.leads,
            doubt=self.lead.doubt,
            wait_until_leading=self.lead.wait_until_leading,
            permit=self.lead.permit,
            touch=self.lead.touch,
        )
        super().__init__(session, ledger or Ledger(self.time), leader, term=TERM, clock=self.time)

    async def bind_to(self, pod_info: queued_pods.PodInfo, *cards: decisions.Share) -> ports.Answer:
        """Bind a pod to the node with these cards, by default with one."""
        return await self.bind(pod_info, pods.placement(NODE, *(cards or (pods.CARD,))))


async def waiting_pod(client: pods.PodClient) -> tuple[queued_pods.PodInfo, Ledger]:
    """Return the pod p as it is decided on, and a ledger in which it waits."""
    pod, ledger = await client.read("p"), Ledger(time.monotonic)
    pod_info = reading.pod_info(pod)
    ledger.pod_waiting(pod_info, gated=False, version=pod.metadata.resource_version)
    return pod_info, ledger
