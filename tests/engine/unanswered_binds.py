"""The way to the server, on which binds stay until a history goes on with them, or get lost."""

import asyncio
import dataclasses
from typing import Final, Protocol, TypeVar

from berth_operator.engine import ports
from berth_operator.scheduling import decisions, queued_pods
from engine import pod_server
from support import writers

LOST: Final = ports.Unknown("timed out", version="some")  # Of a bind that named its pod's revision.
Seen = TypeVar("Seen", ports.Answer, ports.ReadResult)


class Player(Protocol):
    """Who plays a history, and judges what is sent."""

    server: pod_server.Server

    def check(self, candidate: queued_pods.Candidate, placement: decisions.Placement) -> None:
        """Judge a bind at the moment at which it is sent."""

    def heard(self, name: str, seen: Seen) -> Seen:
        """Record what we learn of a pod."""


@dataclasses.dataclass(slots=True)
class Flight:
    """A bind that was sent, and whoever waits for its answer."""

    placement: decisions.Placement
    answer: asyncio.Future[ports.Answer]


class Wire(writers.Lead):
    """The way to the server: binds stay under way until the history goes on with them."""

    def __init__(self, history: Player) -> None:
        self.history = history
        self.flights: dict[str, Flight] = {}
        self.strays: list[tuple[str, decisions.Placement]] = []  # Given up by us, and still on their way.
        self.sent: set[tuple[str, str]] = set()

    async def bind(self, candidate: queued_pods.Candidate, placement: decisions.Placement) -> ports.Answer:
        """Send a bind; the first time what it gives must be right at this very moment (I6)."""
        known = candidate.name, repr(placement)
        if known not in self.sent or not self.strays:
            self.history.check(candidate, placement)
        self.sent.add(known)
        flight = Flight(placement, asyncio.get_running_loop().create_future())
        self.flights[candidate.name] = flight
        return await flight.answer

    async def dry_run(self, *_: object) -> ports.Answer:
        """Accept it: what is said of the bind itself matters here."""
        return ports.Bound()

    async def void(self, candidate: queued_pods.Candidate) -> ports.ReadResult:
        """Void the binds that are on their way, and read the pod as it is."""
        self.strays = [one for one in self.strays if one[0] != candidate.name]
        return await self.read_pod(candidate)

    async def read_pod(self, candidate: queued_pods.Candidate) -> ports.ReadResult:
        """Read a pod as it is."""
        return self.history.heard(candidate.name, self.history.server.look(candidate.name))
