"""Writers of a term, for tests of what becomes of their binds."""

import time
from typing import Any

from berth_crds.client import api
from berth_operator.engine.ledger import Ledger
from berth_operator.kube import binding_writer
from berth_operator.scheduling import decisions, queued_pods
from support import pods, writers

TERM = "op-1_abcd/7"
NODE = "writer-node"


class Lead(writers.Lead):
    """A lead that was perhaps lost, and knows how often it was doubted."""

    def __init__(self, *, leads: bool = True) -> None:
        self.led = leads
        self.doubts = 0

    def leads(self) -> bool:
        """Whether the lead is ours."""
        return self.led

    def doubt(self) -> None:
        """Count."""
        self.doubts += 1


def hand(
    session: api.Api, lead: Lead | None = None, ledger: Ledger | None = None
) -> binding_writer.BindingWriter:
    """Make a writer of a term."""
    ledger = ledger or Ledger(time.monotonic)
    return binding_writer.BindingWriter(session, ledger, lead or Lead(), term=TERM, clock=time.monotonic)


def bound_by(session: api.Api, candidate: queued_pods.Candidate, *cards: decisions.Share) -> Any:
    """Bind a pod to the node with these cards."""
    return hand(session).bind(candidate, pods.placement(NODE, *cards))
