"""How the device plugin tells containers of their devices, by the names of NVIDIA's plugin. Pure."""

import dataclasses
from typing import Final

ENVVAR, VOLUME_MOUNTS, CDI_ANNOTATIONS, CDI_CRI = "envvar", "volume-mounts", "cdi-annotations", "cdi-cri"
LIST_STRATEGIES: Final = (ENVVAR, VOLUME_MOUNTS, CDI_ANNOTATIONS, CDI_CRI)
UUID, INDEX = "uuid", "index"
ID_STRATEGIES: Final = (UUID, INDEX)


DISTRIBUTED, PACKED = "distributed", "packed"
ALLOCATION_POLICIES: Final = (DISTRIBUTED, PACKED)
CDI_ANNOTATION_PREFIX: Final = "cdi.k8s.io/"


@dataclasses.dataclass(frozen=True, slots=True)
class PluginChoices:
    """What a list of devices is, what a device is called in it, and whether the kubelet opens them itself.

    `allocation_policy` says whether replicas are spread over shared cards, or one is filled after the other;
    with `one_replica_each` no container gets several.
    """

    list_strategies: tuple[str, ...] = (ENVVAR,)
    id_strategy: str = UUID
    pass_device_specs: bool = False
    allocation_policy: str = DISTRIBUTED
    one_replica_each: bool = False
    cdi_annotation_prefix: str = CDI_ANNOTATION_PREFIX

    @property
    def packed(self) -> bool:
        """Whether one shared card is filled after the other."""
        return self.allocation_policy == PACKED

    @property
    def names_cdi_devices(self) -> bool:
        """Whether containers are given the names of CDI devices."""
        return not {CDI_ANNOTATIONS, CDI_CRI}.isdisjoint(self.list_strategies)


USUAL: Final = PluginChoices()
