"""The probe of a node without GPUs, for its other devices: there is no driver of NVIDIA's to ask."""

from collections.abc import Callable

from berth_agent import probe, sysfs
from berth_crds import wire


class CardlessProbe:
    """Samples no cards, which is no failure, and what stands beside them elsewhere."""

    def __init__(
        self, kernel: sysfs.Kernel, extra_devices: Callable[[probe.Sample], tuple[probe.ExtraDevice, ...]]
    ) -> None:
        self._kernel = kernel
        self._extra_devices = extra_devices

    def sample(self) -> probe.Sample:
        """Sample once."""
        boot_id = self._kernel.boot_id()
        cards = probe.Sample(wire.Driver(), boot_id, cards=())
        return probe.Sample(wire.Driver(), boot_id, cards=(), devices=self._extra_devices(cards))
