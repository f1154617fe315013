"""An engine with claims, and the server that has them."""

from collections.abc import Callable
from typing import Final

from berth_operator.engine import ports
from berth_operator.scheduling.volumes import facts
from engine.claim_server import ClaimServer
from engine.harness import Engine
from support import builders, inventories
from support import volumes as make

HOST: Final = "kubernetes.io/hostname"


class World:
    """An engine with claims, and the server that has them."""

    def __init__(
        self, *objects: make.Object, nodes: int = 2, cards: int = 1, leader: "World | None" = None
    ) -> None:
        """Start with these; a later `leader` finds the server of the one before it."""
        self.server: ClaimServer
        self.engine = engine = Engine(nodes=nodes, cards=cards)
        for name in (f"n{at}" for at in range(1, nodes + 1)):
            engine.ledger.node_seen(builders.node(name, labels={HOST: name}))
        found = [one for one in objects if isinstance(one, facts.Claim | facts.Volume)]
        if leader is not None:
            found = [*leader.server.claims.values(), *leader.server.volumes.values()]
        self.server = ClaimServer(engine.ledger, *found)
        engine.writer.volumes = self.server
        make.put(engine.ledger.inventory.volumes, *(one for one in objects if one not in found))

    def wait(self, *claims: str, name: str = "p") -> None:
        """Have a pod with these claims wait."""
        self.engine.ledger.pod_waiting(make.using(*claims or ("data",), name=name), gated=False)

    @property
    def binds(self) -> list[str]:
        """The nodes to which binds were sent."""
        return [self.engine.writer.placements[call.name].node for call in self.engine.writer.binds]

    def free(self, node: str = "n1") -> int:
        """Count the cards of a node that are not held."""
        return inventories.free_cards(self.engine.ledger.inventory, node)

    async def until_selected(self, name: str = "data") -> str:
        """Run until a node is selected for a claim, and return it."""
        await self.engine.advance(lambda: self.server.claim(name).selected_node)
        return self.server.claim(name).selected_node


LATE: Final = make.storage_class()
LOCAL: Final = make.storage_class(make.LOCAL, provisioner=facts.NO_PROVISIONER)


def once(answer: ports.Unknown) -> Callable[[], ports.Unknown | None]:
    """Return a function that gives this answer the first time, and none later."""
    answers = [answer]
    return lambda: answers.pop() if answers else None
