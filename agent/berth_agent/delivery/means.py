"""The two ways in which a node opens cards to containers: its device nodes and files themselves, or CDI."""

import dataclasses
from collections.abc import Sequence

from berth_agent.delivery.containers import Edits, GivenCard
from berth_agent.delivery.device_nodes import DeviceNodes
from berth_agent.delivery.driver_files import DriverFiles


@dataclasses.dataclass(frozen=True, slots=True)
class DirectMeans:
    """Device nodes and the driver's files, looked up as the container is made."""

    device_nodes: DeviceNodes
    driver_files: DriverFiles

    def edits(self, given: Sequence[GivenCard]) -> Edits:
        """Return what opens these cards, or raise `Undeliverable` where a device node lacks."""
        nodes = dict.fromkeys(node for card in given for node in self.device_nodes.of_card(card))
        nodes |= dict.fromkeys(self.device_nodes.of_driver())
        return Edits(tuple(nodes), self.driver_files.mounts())


@dataclasses.dataclass(frozen=True, slots=True)
class CdiMeans:
    """The names of CDI devices of one kind, such as nvidia.com/gpu; a spec on the node says what they are."""

    kind: str

    def edits(self, given: Sequence[GivenCard]) -> Edits:
        """Return the names of these cards."""
        return Edits(cdi_devices=tuple(f"{self.kind}={card.uuid}" for card in given))
