"""Loads the packages that add types of device, as the settings choose them, and makes their sources.

What the sources import is loaded only where a package adds a type: an agent without one spares the memory.
"""

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from berth_agent import sysfs
from berth_agent.settings import HardwareNode, Node, Settings, SimulatedNode
from berth_crds import device_packages, device_sources, device_types

if TYPE_CHECKING:
    from berth_agent import package_sources

log = logging.getLogger(__name__)

PART_OF_DEADLINE: Final = 0.5  # Of a sample: what is left is for the cards.


def load(settings: Settings) -> tuple[str, ...]:
    """Load the types of device that packages add, and return a sentence for each that cannot be used."""
    not_loaded = device_packages.load(settings.device_packages)
    for sentence in not_loaded:
        log.error("%s", sentence)
    return not_loaded


def sources(
    node: Node, settings: Settings, not_loaded: Sequence[str]
) -> "package_sources.PackageSources | None":
    """Return the devices that packages find on a node; None where no package adds any."""
    if not not_loaded and not any(map(device_types.is_opened, device_types.BY_NAME)):
        return None
    from berth_agent import package_sources  # noqa: PLC0415

    kernel = sysfs.Kernel(node.sysfs, node.procfs) if isinstance(node, HardwareNode) else sysfs.Kernel()
    place = device_sources.SourceNode(
        node.name,
        kernel.sys,
        kernel.proc,
        settings.driver.dev,
        simulated=isinstance(node, SimulatedNode),
    )
    patience = settings.deadline * PART_OF_DEADLINE
    return package_sources.of_node(place, kernel, patience=patience, not_loaded=not_loaded)
