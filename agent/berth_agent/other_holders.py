"""What tells of cards that others hold, and when such a card is closed for new pods. Pure.

Others are device plugins and drivers of claims, of which the kubelet tells, and processes that nobody gave
their card. Of these, monitors and display servers use next to nothing, and must not close a card.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any, Final

# NVIDIA's own driver of dynamic resource allocation.
DRA_DRIVERS: Final = ("gpu.nvidia.com",)
# Below what a program has of a card that computes anything there: its context alone takes more.
LEAST_PROCESS_MIB: Final = 64


@dataclasses.dataclass(frozen=True, slots=True)
class OtherHolders:
    """Whether the kubelet is asked unless that is ruled out, which drivers give GPUs, and a process' memory.

    A process that uses less than `least_process_memory` bytes of a card does not close it.
    """

    asks_kubelet: bool = True
    drivers: tuple[str, ...] = DRA_DRIVERS
    least_process_memory: int = LEAST_PROCESS_MIB << 20


USUAL: Final = OtherHolders()


def chosen(given: Mapping[str, Any]) -> OtherHolders:
    """Return what the flags say."""
    return OtherHolders(given["ask_kubelet"], given["dra_drivers"], given["least_process_memory"] << 20)
