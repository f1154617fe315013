"""How the device plugin tells containers of their devices, by the names of NVIDIA's plugin. Pure."""

import dataclasses
from typing import Final

ENVVAR, VOLUME_MOUNTS, CDI_ANNOTATIONS, CDI_CRI = "envvar", "volume-mounts", "cdi-annotations", "cdi-cri"
LIST_STRATEGIES: Final = (ENVVAR, VOLUME_MOUNTS, CDI_ANNOTATIONS, CDI_CRI)
UUID, INDEX = "uuid", "index"
ID_STRATEGIES: Final = (UUID, INDEX)


@dataclasses.dataclass(frozen=True, slots=True)
class PluginChoices:
    """What a list of devices is, what a device is called in it, and whether the kubelet opens them itself."""

    list_strategies: tuple[str, ...] = (ENVVAR,)
    id_strategy: str = UUID
    pass_device_specs: bool = False

    @property
    def names_cdi_devices(self) -> bool:
        """Whether containers are given the names of CDI devices."""
        return not {CDI_ANNOTATIONS, CDI_CRI}.isdisjoint(self.list_strategies)


USUAL: Final = PluginChoices()
