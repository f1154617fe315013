"""The two ways in which a node opens cards to containers: its device nodes and files themselves, or CDI."""

import dataclasses
from collections.abc import Sequence

from berth_agent.delivery.containers import DeviceNode, Edits, GivenCard
from berth_agent.delivery.device_nodes import DeviceNodes
from berth_agent.delivery.driver_files import DriverFiles


@dataclasses.dataclass(frozen=True, slots=True)
class DirectMeans:
    """Device nodes and the driver's files, looked up as they are needed."""

    device_nodes: DeviceNodes
    driver_files: DriverFiles

    def edits(self, given: Sequence[GivenCard]) -> Edits:
        """Return what opens these cards, or raise `Undeliverable` where a device node is missing."""
        shared = self.shared()
        nodes = dict.fromkeys(node for card in given for node in self.of_card(card))
        return Edits((*nodes, *shared.device_nodes), shared.mounts)

    def of_card(self, given: GivenCard) -> tuple[DeviceNode, ...]:
        """Return the device nodes of a card alone, or raise `Undeliverable` where one is missing."""
        return tuple(self.device_nodes.of_card(given))

    def shared(self) -> Edits:
        """Return what every container with a card needs."""
        return Edits(tuple(self.device_nodes.of_driver()), self.driver_files.mounts())


@dataclasses.dataclass(frozen=True, slots=True)
class CdiMeans:
    """The names of CDI devices of one kind, such as nvidia.com/gpu; a spec on the node says what they are."""

    kind: str

    def edits(self, given: Sequence[GivenCard]) -> Edits:
        """Return the names of these cards."""
        return Edits(cdi_devices=tuple(f"{self.kind}={card.uuid}" for card in given))
