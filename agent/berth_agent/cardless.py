"""The probe of a node without GPUs, for its other devices: there is no driver of NVIDIA's to ask."""

from collections.abc import Callable

from berth_agent import probe, sysfs
from berth_crds import wire


class CardlessProbe:
    """Samples no cards, which is no failure, and what stands beside them elsewhere."""

    def __init__(self, kernel: sysfs.Kernel, complete: Callable[[probe.Sample], probe.Sample]) -> None:
        self._kernel = kernel
        self._complete = complete

    def sample(self) -> probe.Sample:
        """Sample once."""
        return self._complete(probe.Sample(wire.Driver(), self._kernel.boot_id(), cards=()))
